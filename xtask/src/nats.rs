//! The NATS server that tests run a cluster on, besides the older one of the system.
//!
//! `go install` builds it into `target/tools/bin` the first time: 25 s of two processors. It must
//! be this version, so that the same tests meet the same server on each machine; 2.12.3 is the
//! oldest that is for production. Where it cannot be built, the tests that take it skip, and say so
//! in the last lines of `cargo xtask ci`.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::node::target;

const VERSION: &str = "v2.15.2";

/// Builds the server if it is not there, and tells why where that cannot be.
pub(crate) fn ensure(root: &Path) {
    let folder = target(root).join("tools/bin");
    if version(&folder.join("nats-server")).as_deref() == Some(VERSION) {
        return;
    }
    println!("building nats-server {VERSION}, which takes half a minute");
    if let Err(error) = install(&folder) {
        println!("tests with a current NATS server will be skipped: {error:#}");
    }
}

/// The version of `program`, if it is there and runs.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().strip_prefix("nats-server: ")?.to_owned())
}

fn install(folder: &Path) -> anyhow::Result<()> {
    let package = format!("github.com/nats-io/nats-server/v2@{VERSION}");
    let mut install = Command::new("go");
    // Go wants the folder by its whole path, and the machine's own settings for another system
    // would put the program elsewhere.
    install.args(["install", &package]).env("GOBIN", std::path::absolute(folder)?);
    install.env_remove("GOOS").env_remove("GOARCH").stdin(Stdio::null());
    let built = install.status().context("go does not start")?.success();
    ensure!(
        built,
        "go cannot build {package}; it takes Go 1.26, or one since 1.21 that may fetch it"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_asked_of_the_program_itself() {
        assert_eq!(version(Path::new("/nowhere/nats-server")), None);
        assert_eq!(version(Path::new("/bin/true")), None, "another program");
    }
}
