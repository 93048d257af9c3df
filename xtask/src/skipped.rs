//! Tests that were skipped: they write a line each to a file (`crates/testing`), and the last lines
//! of `cargo xtask ci` tell them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::store;

/// The variable that names the file.
pub(crate) const VARIABLE: &str = "ENCKE_SKIPPED_FILE";

/// Where the file of a run is.
pub(crate) fn file(target: &Path) -> PathBuf {
    target.join("skipped-tests")
}

/// The file of one run, with nothing in it.
pub(crate) fn begin(target: &Path) -> anyhow::Result<PathBuf> {
    let file = file(target);
    fs::create_dir_all(target).with_context(|| target.display().to_string())?;
    store::remove(&file)?;
    Ok(file)
}

/// A line for each test that was skipped, and how many they were.
pub(crate) fn report(file: &Path) -> anyhow::Result<String> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        text => text.with_context(|| file.display().to_string())?,
    };
    let mut report: String = text.lines().map(|line| format!("skipped: {line}\n")).collect();
    report += &format!("tests skipped: {}", text.lines().count());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_told_line_by_line() {
        let target = std::env::temp_dir().join(format!("encke-skipped-{}", std::process::id()));
        let file = begin(&target).unwrap();
        assert_eq!(report(&file).unwrap(), "tests skipped: 0");
        fs::write(&file, "a::b: no disk\nc: no IPv6\n").unwrap();
        let expected = "skipped: a::b: no disk\nskipped: c: no IPv6\ntests skipped: 2";
        assert_eq!(report(&file).unwrap(), expected);
        assert_eq!(begin(&target).unwrap(), file);
        assert_eq!(report(&file).unwrap(), "tests skipped: 0");
        fs::remove_dir_all(&target).unwrap();
    }
}
