//! How long the processors worked for a step: for its command, for all that this has started, and
//! so on, as far as each has waited for what it started.
//!
//! The shell that starts the command says so (POSIX, `times`): Rust's own library does not. A
//! server that outlives who started it does not count.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs the command behind the first argument, and leaves there what it and its children took.
const TIMED: &str = r#""$@"; code=$?; times >"$0"; exit "$code""#;

/// A command that runs `program`, with the arguments that are put behind, and writes to `times`.
pub(super) fn timed(program: impl AsRef<OsStr>, times: &Path) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", TIMED]).arg(times).arg(program);
    shell
}

/// The seconds that stand in `times`, if the command has ended.
pub(super) fn seconds(times: &Path) -> Option<f64> {
    of_children(&fs::read_to_string(times).ok()?)
}

/// The second line is of the children: in their own code, and in the kernel's.
fn of_children(times: &str) -> Option<f64> {
    let times = times.lines().nth(1)?.split_whitespace();
    let seconds = times.map(|time| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        // Some shells write as the language of their user does.
        let seconds: f64 = seconds.replace(',', ".").parse().ok()?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds)
    });
    seconds.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_those_of_the_children_in_each_form() {
        let dash = "0m0.000000s 0m0.010000s\n2m3.500000s 0m1.250000s\n";
        assert_eq!(of_children(dash), Some(124.75));
        assert_eq!(of_children("0m0,000s 0m0,001s\n0m1,500s 0m0,250s\n"), Some(1.75));
        assert_eq!(of_children("0m0.0s 0m0.0s\n"), None);
        assert_eq!(of_children("a b\nc d\n"), None);
    }

    #[test]
    fn command_ends_as_it_would_alone_and_what_its_children_compute_is_counted() {
        let times = std::env::temp_dir().join(format!("encke-times-{}", std::process::id()));
        let count = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let inside = format!("sh -c '{count}'; exit 3");
        let mut command = timed("sh", &times);
        let status = command.args(["-c", &inside, "a name", "an argument"]).status().unwrap();
        assert_eq!(status.code(), Some(3));
        assert!(seconds(&times).unwrap() > 0.0);
        assert!(timed("true", &times).status().unwrap().success());
        fs::remove_file(&times).unwrap();
        assert_eq!(seconds(&times), None);
    }
}
