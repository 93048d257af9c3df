//! What cargo builds of the project for its chores, and where.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// Set for steps of a run that leaves the example `playdar` out.
pub(crate) const PLAYDAR_LEFT_OUT: &str = "ENCKE_WITHOUT_PLAYDAR";

/// Set for steps of a run that has built the programs. cargo would only look at them, but waits for
/// whoever compiles beside.
pub(crate) const PROGRAMS_ARE_BUILT: &str = "ENCKE_PROGRAMS_ARE_BUILT";

/// Builds the programs just as `cargo test` builds them for its tests. Of one package alone they
/// would have other features of what they depend on, and most would be built again.
pub(crate) fn build(root: &Path) -> anyhow::Result<()> {
    if std::env::var_os(PROGRAMS_ARE_BUILT).is_some() {
        return Ok(());
    }
    let mut build = Command::new("cargo");
    build.arg("test").args(selection()).args(["--no-run", "--quiet"]).current_dir(root);
    let status = build.stdin(Stdio::null()).status().context("cargo does not start")?;
    ensure!(status.success(), "the programs do not build");
    Ok(())
}

/// Where cargo builds.
pub(crate) fn target(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The programs that are packed: Encke's own, and the example where it is not left out.
pub(crate) fn programs() -> &'static [&'static str] {
    if is_playdar_left_out() { &["encke"] } else { &["encke", "playdar"] }
}

fn is_playdar_left_out() -> bool {
    std::env::var_os(PLAYDAR_LEFT_OUT).is_some()
}

/// What cargo is told to look at: all crates, and not the example where it is left out.
pub(crate) fn selection() -> &'static [&'static str] {
    if is_playdar_left_out() { &["--workspace", "--exclude", "playdar"] } else { &["--workspace"] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_below_the_root_unless_it_is_elsewhere() {
        let target = target(Path::new("/project"));
        assert!(target.is_absolute(), "{}", target.display());
    }
}
