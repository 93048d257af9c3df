//! The programs of tests that Debian has not, or not in the version that is wanted: built or
//! fetched below `target/tools` the first time.
//!
//! Each must be this version, so that the same tests meet the same program on each machine. Where
//! one cannot be had, the tests that take it skip, and say so in the last lines of `cargo xtask
//! ci`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::node::target;

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
    let tools = target(root).join("tools");
    for tool in &GO_TOOLS {
        if !tool.is_at(&tools.join("bin").join(tool.name)) {
            println!("building {} {}", tool.name, tool.version);
            told(tool.name, tool.install(&tools));
        }
    }
    told(SCHEMAS[0], fetch_schemas(&tools.join("kubernetes-validate")));
}

fn told(name: &str, done: anyhow::Result<()>) {
    if let Err(error) = done {
        println!("tests with {name} will be skipped: {error:#}");
    }
}

impl GoTool {
    /// Whether `program` is this version of it, which Go writes into what it builds.
    fn is_at(&self, program: &Path) -> bool {
        let mut command = Command::new("go");
        command.args(["version", "-m"]).arg(program).stdin(Stdio::null()).stderr(Stdio::null());
        let text = command.output().map(|output| output.stdout).unwrap_or_default();
        self.is_named_in(&String::from_utf8_lossy(&text))
    }

    fn is_named_in(&self, text: &str) -> bool {
        let wanted = format!("\tmod\t{}\t{}\t", self.module, self.version);
        text.lines().any(|line| line.starts_with(&wanted))
    }

    fn install(&self, tools: &Path) -> anyhow::Result<()> {
        // Go calls a program by its package's last part, which may be `cmd`.
        let fresh = std::path::absolute(tools.join("fresh"))?;
        let package = format!("{}{}@{}", self.module, self.package, self.version);
        let mut install = Command::new("go");
        // Go wants the folder by its whole path, and the machine's own settings for another system
        // would put the program elsewhere.
        install.args(["install", &package]).env("GOBIN", &fresh);
        install.env_remove("GOOS").env_remove("GOARCH").stdin(Stdio::null());
        let built = install.status().context("go does not start")?.success();
        ensure!(
            built,
            "go cannot build {package}; it takes Go 1.26, or one since 1.21 that may fetch it"
        );
        let program = fs::read_dir(&fresh)?.next().context("go has built nothing")??.path();
        fs::create_dir_all(tools.join("bin"))?;
        fs::rename(program, tools.join("bin").join(self.name))?;
        Ok(fs::remove_dir(&fresh)?)
    }
}

fn fetch_schemas(folder: &Path) -> anyhow::Result<()> {
    let note = folder.join("versions");
    let wanted = SCHEMAS.join("\n");
    if fs::read_to_string(&note).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    println!("fetching {}", SCHEMAS[0]);
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    // Into a folder of ours: nothing of the system's Python is touched.
    pip.arg("--root-user-action=ignore").arg("--target").arg(folder).args(SCHEMAS);
    let done = pip.stdin(Stdio::null()).status().context("pip3 does not start")?.success();
    ensure!(done, "pip3 cannot fetch it");
    Ok(fs::write(note, wanted)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_what_go_wrote_into_the_program() {
        let [nats, compose, _] = &GO_TOOLS;
        let line =
            |version| format!("x: go1.26\n\tpath\ty\n\tmod\t{}\t{version}\th1:z\n", nats.module);
        assert!(nats.is_named_in(&line(nats.version)));
        assert!(!nats.is_named_in(&line("v2.15.20")) && !compose.is_named_in(&line(nats.version)));
        assert!(!nats.is_at(Path::new("/nowhere/nats-server")));
        assert!(!nats.is_at(Path::new("/bin/true")), "another program");
    }
}
