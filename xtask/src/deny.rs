//! `cargo xtask deny`: licences, versions and sources of what others wrote, as `deny.toml` allows
//! them. cargo-deny reads the lockfile and says what is not. A run takes 4 s.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::tools::CARGO_DENY;

/// Looks at the whole lockfile and says whether all is allowed.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let mut check = Command::new(CARGO_DENY.ensure(root)?);
    check.args(["--locked", "check", "licenses", "bans", "sources"]).current_dir(root);
    Ok(check.stdin(Stdio::null()).status().context("cargo-deny does not start")?.success())
}
