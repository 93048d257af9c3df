//! The programs beside Rust's own that building and testing take.
//!
//! As root on Debian and its kin they are installed, elsewhere they are named. Each stands here
//! with its reason; a test that can do without one does without it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// A program, what to install for it on Debian, and what it is for.
struct Program {
    name: &'static str,
    /// The package that has it, and with a space between those without which it is of no use.
    packages: &'static str,
    reason: &'static str,
}

const PROGRAMS: [Program; 28] = [
    Program { name: "cc", packages: "build-essential", reason: "it compiles LMDB and links" },
    Program { name: "bash", packages: "bash", reason: "scripts are checked with it" },
    Program { name: "unshare", packages: "util-linux", reason: "a test fills a disk of its own" },
    Program { name: "mount", packages: "mount", reason: "a test fills a disk of its own" },
    Program { name: "perl", packages: "perl-base", reason: "a test has calls refused by it" },
    Program { name: "ip", packages: "iproute2", reason: "a test has a network that it cuts" },
    Program { name: "haproxy", packages: "haproxy", reason: "tests put it before the server" },
    Program { name: "nginx", packages: "nginx-light", reason: "tests put it before the server" },
    Program { name: "caddy", packages: "caddy", reason: "tests put it before the server" },
    Program { name: "promtool", packages: "prometheus", reason: "it reads alerts and queries" },
    Program {
        name: "systemd-analyze",
        packages: "systemd",
        reason: "it reads the unit of the package",
    },
    Program { name: "curl", packages: "curl", reason: "tests speak TLS with it" },
    Program { name: "openssl", packages: "openssl", reason: "tests speak TLS with it" },
    Program { name: "gnutls-cli", packages: "gnutls-bin", reason: "tests speak TLS with it" },
    Program { name: "python3", packages: "python3", reason: "tests speak TLS with it" },
    Program { name: "pip3", packages: "python3-pip", reason: "it brings schemas of Kubernetes" },
    // The part of Java without screens, 44 MB, can run a source too.
    Program { name: "java", packages: "default-jre-headless", reason: "tests speak TLS with it" },
    Program { name: "mvn", packages: "maven", reason: "it brings clients in Java that are tried" },
    Program {
        name: "mojo",
        packages: "libmojolicious-perl",
        reason: "it is a client in Perl that is tried",
    },
    Program { name: "go", packages: "golang-go", reason: "tests speak TLS with it" },
    Program {
        name: "pebble",
        packages: "pebble",
        reason: "tests ask it for automatic certificates",
    },
    // Debian's is an old one; `crate::tools` brings a current one.
    Program {
        name: "nats-server",
        packages: "nats-server",
        reason: "tests hold a cluster together with it",
    },
    Program { name: "psql", packages: "postgresql", reason: "tests keep the graph in PostgreSQL" },
    Program { name: "erl", packages: "erlang-base", reason: "tests talk to real Erlang nodes" },
    Program { name: "mix", packages: "elixir", reason: "tests build and join as Elixir does" },
    Program { name: "node", packages: "nodejs", reason: "it builds and tests the browser client" },
    Program {
        name: "npm",
        packages: "npm",
        reason: "it brings what the browser client is built with",
    },
    // Without a font it draws no letter, and some versions do not start.
    Program {
        name: HEADLESS,
        packages: "chromium-headless-shell fonts-liberation",
        reason: "pages are tried in it",
    },
];

/// Chromium without a screen, and the whole browser, which does as well where the former cannot be
/// installed: it only takes longer.
const HEADLESS: &str = "chromium-headless-shell";
const WHOLE_BROWSER: &str = "chromium";

/// Installs what is missing where that is possible. An error names what is missing still.
pub(crate) fn ensure_all() -> anyhow::Result<()> {
    let path = std::env::var("PATH").unwrap_or_default();
    let missing = || PROGRAMS.iter().filter(|program| !is_on(&path, program.name));
    let packages: Vec<&str> = missing().flat_map(Program::packages).collect();
    if packages.is_empty() {
        return Ok(());
    }
    if is_root() && is_on(&path, "apt-get") {
        // What it could not do shows in what is still missing.
        if let Err(error) = install(&packages) {
            println!("{error:#}");
        }
    }
    let has_stand_in = |name| name == HEADLESS && is_on(&path, WHOLE_BROWSER);
    let needed = missing().filter(|program| !has_stand_in(program.name));
    let sentences: Vec<String> = needed.map(Program::sentence).collect();
    ensure!(sentences.is_empty(), "{}", sentences.join("\n"));
    Ok(())
}

impl Program {
    fn packages(&self) -> impl Iterator<Item = &'static str> {
        self.packages.split(' ')
    }

    fn sentence(&self) -> String {
        let Program { name, packages, reason } = self;
        format!("`{name}` is missing: {reason}. On Debian, as root: apt-get install {packages}")
    }
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    println!("installing {}", packages.join(", "));
    apt_get(&["update", "--quiet"])?;
    let mut arguments = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new("apt-get");
    // Another run may be installing them just now.
    command
        .args(["-o", "DPkg::Lock::Timeout=600"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    let status = command.status().context("apt-get does not start")?;
    ensure!(status.success(), "apt-get {} failed: {status}", arguments[0]);
    Ok(())
}

/// Whether `path`, a list of directories, has a file of this name.
fn is_on(path: &str, name: &str) -> bool {
    path.split(':').any(|directory| Path::new(directory).join(name).is_file())
}

/// A process's own entry in /proc belongs to its user.
pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_where_the_path_leads() {
        let path = std::env::var("PATH").unwrap();
        assert!(is_on(&path, "sh"));
        assert!(!is_on(&path, "a-program-that-nobody-has"));
        assert!(!is_on("", "sh"));
    }

    #[test]
    fn missing_program_is_named_with_its_package_and_reason() {
        for program in &PROGRAMS {
            let sentence = program.sentence();
            assert!(sentence.contains(program.name) && sentence.contains(program.reason));
            assert!(sentence.ends_with(&format!("apt-get install {}", program.packages)));
        }
    }
}
