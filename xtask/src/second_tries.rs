//! These are tests that passed at their second try only. The last lines of a run name them, and a
//! file keeps how each failed at first. More than [`MAX`] of them fail the run. Of second attempts
//! within a test, in which nothing has failed, there may be [`WITHIN_MAX`].
//!
//! Tests that drive real programs alone are tried twice: what they meet on a busy machine is not
//! only ours. nextest tries Rust tests again, `clients/js/e2e/run.js` those in a browser. A test
//! that makes a second attempt inside itself says so by `testing::tried_again`, or by `triedAgain`
//! of `clients/js/e2e/attempts.ts`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::store;

/// So many tests of a run may pass at their second try only.
const MAX: usize = 3;

/// So many may have asked once more for what a machine that stood still had spoilt.
const WITHIN_MAX: usize = 12;

/// How the names of the files of these begin.
const WITHIN: &str = "/inside-";

/// Names the folder to tests, and to the runner of those in a browser.
pub(crate) const VARIABLE: &str = "ENCKE_SECOND_TRIES";

/// Where `step` keeps how tests failed at first: a file for each, whose first line is its name.
pub(crate) fn folder(target: &Path, step: &str) -> PathBuf {
    all(target).join(step)
}

fn all(target: &Path) -> PathBuf {
    target.join("second-tries")
}

/// Forgets those of an earlier run of all steps.
pub(crate) fn begin(target: &Path) -> anyhow::Result<()> {
    store::remove(&all(target))
}

/// Forgets those of an earlier run of `step`.
pub(crate) fn begin_step(target: &Path, step: &str) -> anyhow::Result<PathBuf> {
    let folder = folder(target, step);
    store::remove(&folder)?;
    Ok(folder)
}

/// What a run says of them.
pub(crate) struct Told {
    /// A line for each.
    pub(crate) lines: String,
    /// Whether they are no more than there may be.
    pub(crate) passed: bool,
}

/// Those of all steps.
pub(crate) fn told(target: &Path) -> anyhow::Result<Told> {
    let mut lines = String::new();
    for step in files(&all(target)) {
        lines += &told_of(&step)?;
    }
    let within = lines.lines().filter(|line| line.contains(WITHIN)).count();
    let count = lines.lines().count() - within;
    let passed = count <= MAX && within <= WITHIN_MAX;
    if count > MAX {
        lines += &format!("that are {count} tests, more than {MAX}\n");
    }
    if within > WITHIN_MAX {
        lines += &format!("{within} have asked once more, more than {WITHIN_MAX}\n");
    }
    Ok(Told { lines, passed })
}

/// A line for each of the step whose folder that is.
pub(crate) fn told_of(folder: &Path) -> anyhow::Result<String> {
    let mut lines = String::new();
    for file in files(folder) {
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let name = text.lines().next().unwrap_or_default();
        lines += &format!("passed at the second try: {name}: {}\n", file.display());
    }
    Ok(lines)
}

/// What is in `folder`, in order; nothing where it is not.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_tries_of_all_steps_are_told_and_more_than_a_few_fail() {
        let target = std::env::temp_dir().join(format!("encke-tries-{}", std::process::id()));
        begin(&target).unwrap();
        assert!(told(&target).unwrap().passed);
        for (step, number) in [("test", 1), ("test", 2), ("browser", 1)] {
            let folder = folder(&target, step);
            fs::create_dir_all(&folder).unwrap();
            let text = format!("{step}::{number}\n\nwhat it said");
            fs::write(folder.join(format!("{number}.txt")), text).unwrap();
        }
        let few = told(&target).unwrap();
        assert!(few.passed);
        let first = few.lines.lines().next().unwrap();
        assert!(first.starts_with("passed at the second try: browser::1: "), "{first}");
        fs::write(folder(&target, "test").join("3.txt"), "test::3").unwrap();
        let many = told(&target).unwrap();
        assert!(!many.passed && many.lines.ends_with("that are 4 tests, more than 3\n"));
        begin_step(&target, "test").unwrap();
        assert_eq!(told(&target).unwrap().lines.lines().count(), 1);
        for number in 0..=WITHIN_MAX {
            let file = folder(&target, "browser").join(format!("inside-{number}.txt"));
            assert!(told(&target).unwrap().passed);
            fs::write(file, "asked twice").unwrap();
        }
        assert!(!told(&target).unwrap().passed);
        begin(&target).unwrap();
        assert_eq!(told(&target).unwrap().lines, "");
    }
}
