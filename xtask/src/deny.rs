//! `cargo xtask deny`: licences, versions and sources of what others wrote, as `deny.toml` allows
//! them. cargo-deny reads the lockfile and says what is not.
//!
//! It is built from the registry into `target/tools` the first time: 131 s of processor time,
//! without optimisation and debug information. A run takes 4 s. It must be this version, so that
//! the same lockfile is judged the same on each machine.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::node::target;

const VERSION: &str = "0.20.2";

/// Looks at the whole lockfile and says whether all is allowed.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let tools = target(root).join("tools");
    let program = tools.join("bin/cargo-deny");
    if version(&program).as_deref() != Some(VERSION) {
        install(&tools)?;
    }
    let mut check = Command::new(&program);
    check.args(["--locked", "check", "licenses", "bans", "sources"]).current_dir(root);
    Ok(check.stdin(Stdio::null()).status().context("cargo-deny does not start")?.success())
}

/// The version of `program`, if it is there and runs.
fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().strip_prefix("cargo-deny ")?.to_owned())
}

fn install(tools: &Path) -> anyhow::Result<()> {
    println!("building cargo-deny {VERSION}, which takes a minute or two");
    let mut install = Command::new("cargo");
    install.args(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--quiet"]);
    install.arg("--root").arg(tools).env("CARGO_PROFILE_DEV_DEBUG", "0").stdin(Stdio::null());
    let built = install.status().context("cargo does not start")?.success();
    ensure!(built, "cargo cannot build cargo-deny {VERSION}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_asked_of_the_program_itself() {
        assert_eq!(version(Path::new("/nowhere/cargo-deny")), None);
        assert_eq!(version(Path::new("/bin/true")), None, "another program");
    }
}
