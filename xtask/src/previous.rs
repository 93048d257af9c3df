//! The program as it was at an earlier commit, for tests in which two versions are nodes of one
//! cluster. It is built once for a user ([`crate::store`]), in some two minutes of two cores.
//!
//! Crates of registries are those of the workspace's own build: cargo keeps what it builds on the
//! way in one place (`build.build-dir`) and what comes out in another. Of our own crates it would
//! take those that it has already. It knows them by name, version and place in the workspace, and
//! old files look as if they had not changed. So they get a version of their own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::building::target;
use crate::store::Tool;

/// The commit. Move it to that of each release when the release is made: whoever upgrades comes
/// from there.
const COMMIT: &str = "5c2c3ff015b1167ad4d69089d3c1a83757ea6ed8";

/// Builds the program if it is not there, and tells why where that cannot be.
pub(crate) fn ensure(root: &Path) {
    if !has_commit(root) {
        println!(
            "this clone has no commit {COMMIT}: the upgrade is tried from this version itself"
        );
        return;
    }
    let tool = Tool { link: "previous", key: COMMIT, inside: "" };
    if let Err(error) = tool.ensure(root, |folder| build(root, folder)) {
        println!("tests with the previous version will be skipped: {error:#}");
    }
}

/// Whether the commit is in the clone. A shallow one is asked to get it.
fn has_commit(root: &Path) -> bool {
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(root).args(args).stdin(Stdio::null()).stdout(Stdio::null());
        git.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let commit = format!("{COMMIT}^{{commit}}");
    let is_there = || git(&["cat-file", "-e", &commit]);
    is_there() || git(&["fetch", "--depth=1", "origin", COMMIT]) && is_there()
}

fn build(root: &Path, folder: &Path) -> anyhow::Result<()> {
    let (source, out) = (folder.join("source"), folder.join("out"));
    fs::create_dir_all(&source)?;
    let archive = folder.join("source.tar");
    let mut git = Command::new("git");
    git.current_dir(root).args(["archive", "--format=tar", COMMIT]);
    git.stdin(Stdio::null()).stdout(fs::File::create(&archive)?);
    ensure!(
        git.status().context("git does not start")?.success(),
        "git cannot give the files of {COMMIT}"
    );
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(&source);
    ensure!(tar.status().context("tar does not start")?.success(), "tar cannot unpack it");
    let manifest = source.join("Cargo.toml");
    let present = fs::read_to_string(root.join("Cargo.toml"))?;
    let previous = with_own_version(&fs::read_to_string(&manifest)?)?;
    fs::write(&manifest, with_profile_of(&present, &previous)?)?;
    let mut cargo = Command::new("cargo");
    // Offline, it changes the versions of our own crates in the lockfile and no other.
    cargo.args(["build", "--package", "encke", "--offline"]).current_dir(&source);
    cargo.env("CARGO_BUILD_BUILD_DIR", std::path::absolute(target(root))?);
    cargo.env("CARGO_TARGET_DIR", &out).stdin(Stdio::null());
    let mut fetch = Command::new("cargo");
    fetch.arg("fetch").current_dir(&source).stdin(Stdio::null());
    ensure!(fetch.status().context("cargo does not start")?.success(), "cargo cannot fetch crates");
    ensure!(cargo.status().context("cargo does not start")?.success(), "it does not build");
    fs::rename(out.join("debug/encke"), folder.join("encke"))?;
    fs::remove_dir_all(&out)?;
    fs::remove_dir_all(&source)?;
    Ok(fs::remove_file(&archive)?)
}

/// The root's manifest, whose members get a version that names the commit.
fn with_own_version(manifest: &str) -> anyhow::Result<String> {
    let (head, rest) =
        manifest.split_once("[workspace.package]\nversion = \"").context("it has no version")?;
    let (version, rest) = rest.split_once('"').context("its version does not end")?;
    let commit = &COMMIT[..7];
    Ok(format!("{head}[workspace.package]\nversion = \"{version}-g{commit}\"{rest}"))
}

/// The manifest with the profile for tests that the present one has: built otherwise, crates of
/// registries would be others.
fn with_profile_of(present: &str, previous: &str) -> anyhow::Result<String> {
    const BEGIN: &str = "[profile.dev]";
    let begin = |manifest: &str| manifest.find(BEGIN).context("it has no profile for tests");
    let (present, end) = (&present[begin(present)?..], begin(previous)?);
    Ok(format!("{}{present}", &previous[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_get_a_version_of_the_commit() {
        let manifest =
            "[workspace]\n\n[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let expected = manifest.replace("0.1.0", &format!("0.1.0-g{}", &COMMIT[..7]));
        assert_eq!(with_own_version(manifest).unwrap(), expected);
        assert!(with_own_version("[package]\nversion = \"1\"\n").is_err());
    }

    #[test]
    fn profile_is_the_present_one() {
        let present = "[workspace]\n[profile.dev]\nopt-level = 1\n";
        let previous = "[package]\n[profile.dev]\nopt-level = 2\n";
        let expected = "[package]\n[profile.dev]\nopt-level = 1\n";
        assert_eq!(with_profile_of(present, previous).unwrap(), expected);
        assert!(with_profile_of("", previous).is_err() && with_profile_of(present, "").is_err());
    }
}
