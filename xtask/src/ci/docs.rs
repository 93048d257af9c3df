//! `cargo xtask docs`: that all documentation builds, and that its links lead somewhere.
//!
//! rustdoc reads what the crates below promise, for which cargo checks each first. clippy has
//! checked them all. cargo takes that where it is told the same as `cargo clippy` tells it: the
//! program that stands before the compiler, its lints, and the features that tests ask for. Where
//! something of it is another, cargo checks them once more, and that is all.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use super::step::PATIENT;
use crate::building;

/// What clippy is told of lints; the step `clippy` ends with it.
pub(super) const LINTS: [&str; 2] = ["-D", "warnings"];

/// Libraries, and programs that have none: one with a library would be written over it. Examples,
/// though there are none, stand for the features that tests ask for.
const TARGETS: [&str; 6] = ["--lib", "--bin", "encke", "--bin", "xtask", "--examples"];

/// With private items: our docs are for those who read the code, and link into it.
const ITEMS: [&str; 2] = ["--no-deps", "--document-private-items"];

/// Builds the documentation of all crates, with the time that others leave.
pub(crate) fn docs(root: &Path) -> anyhow::Result<bool> {
    let mut docs = Command::new(PATIENT[0]);
    docs.args(&PATIENT[1..]).args(["doc", "--quiet"]).args(building::selection());
    docs.args(TARGETS).args(ITEMS).current_dir(root).stdin(Stdio::null());
    docs.env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links");
    if let Some(clippy) = clippy()? {
        docs.env("RUSTC_WORKSPACE_WRAPPER", clippy).env("CLIPPY_ARGS", arguments(&LINTS));
    }
    Ok(docs.status().context("cargo does not start")?.success())
}

/// What `cargo clippy` puts before the compiler: it lies beside it.
fn clippy() -> anyhow::Result<Option<PathBuf>> {
    let mut rustc = Command::new("rustc");
    let sysroot = rustc.args(["--print", "sysroot"]).stdin(Stdio::null()).output();
    let sysroot = String::from_utf8(sysroot.context("rustc does not start")?.stdout)?;
    let driver = Path::new(sysroot.trim_end()).join("bin/clippy-driver");
    Ok(driver.is_file().then_some(driver))
}

/// As `cargo clippy` hands them on: each with this behind it.
fn arguments(lints: &[&str]) -> String {
    lints.iter().map(|lint| format!("{lint}__CLIPPY_HACKERY__")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn programs_without_a_library_are_named() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut metadata = Command::new("cargo");
        metadata.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
        let output = metadata.current_dir(root).output().unwrap();
        let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        let is = |target: &&Value, kind| target["kind"].as_array().unwrap().contains(&kind);
        for package in metadata["packages"].as_array().unwrap() {
            let targets = package["targets"].as_array().unwrap();
            assert!(!targets.iter().any(|target| is(&target, "example".into())), "{package}");
            if targets.iter().any(|target| is(&target, "lib".into())) {
                continue;
            }
            for program in targets.iter().filter(|target| is(target, "bin".into())) {
                assert!(TARGETS.contains(&program["name"].as_str().unwrap()), "{program}");
            }
        }
    }

    #[test]
    fn arguments_are_handed_on_as_clippy_does() {
        assert_eq!(arguments(&LINTS), "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
    }
}
