//! One step of a run: a command, whose output goes to a file and is shown when it ends.

use std::fs::{self, File};
use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;

use super::{Extent, processor};
use crate::{building, node, skipped};

/// One check.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) work: Work,
    /// From which extent on it is run.
    pub(super) extent: Extent,
}

pub(super) enum Work {
    /// This program with these arguments.
    Chore(&'static [&'static str]),
    /// cargo with these arguments and these variables set.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
    /// A command of cargo with the time that others leave.
    Patient(&'static [&'static str], &'static [(&'static str, &'static str)]),
}

/// How a command begins that takes what others leave; Debian has `nice` everywhere.
pub(super) const PATIENT: [&str; 4] = ["nice", "-n", "10", "cargo"];

/// What became of a step.
pub(super) struct Outcome {
    pub(super) name: &'static str,
    pub(super) command: String,
    pub(super) passed: bool,
    pub(super) seconds: f64,
    /// Those for which the processors worked, where that is known.
    pub(super) processor_seconds: Option<f64>,
}

/// Names what the seeds of random tests are made of.
pub(super) const SEEDS: &str = "ENCKE_SEEDS";

/// So often loom takes a thread's turn from it in one interleaving, unless everything is checked:
/// then as often as it can be. A fault that takes more than two or three is a rare one
/// (its documentation, "Large Models"), and each more takes several times as long.
const PREEMPTIONS_MAX: (&str, &str) = ("LOOM_MAX_PREEMPTIONS", "5");

/// So large a part of their seeds simulators try, unless everything is checked or somebody has said
/// otherwise: each fault that is listed in docs/simulators.md is found by it.
const SIM_RUNS: (&str, &str) = ("ENCKE_SIM_RUNS", "0.5");

/// What the steps of one run have in common.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) root: &'a Path,
    /// The folder of what steps print.
    pub(super) logs: &'a Path,
    /// The file of tests that are skipped.
    pub(super) skipped: &'a Path,
    /// What random tests make their seeds of (`testing::seed`); without it they are random.
    pub(super) seeds: Option<&'a str>,
    pub(super) extent: Extent,
    /// Whether the example is checked, too.
    pub(super) with_playdar: bool,
    /// Whether nobody is to build the programs again.
    pub(super) programs_are_built: bool,
    /// Likewise the browser client.
    pub(super) client_is_built: bool,
}

/// The lines in which the log of `step` names tests that failed: those of nextest's last lines, and
/// those of `clients/js/e2e/run.js`.
pub(super) fn failures(logs: &Path, step: &str) -> String {
    let log = fs::read(logs.join(format!("{step}.log"))).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let last = log.split("Summary [").last().unwrap_or_default();
    let names = |line: &&str| line.starts_with("# failed: ") || line.contains(" FAIL [");
    last.lines().filter(names).map(|line| format!("    {}\n", line.trim())).collect()
}

/// The variables that bound what takes the longest. Those that are `given` say more.
fn bounds(
    extent: Extent,
    given: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let bounds = [PREEMPTIONS_MAX, SIM_RUNS].into_iter();
    bounds.filter(move |(name, _)| extent < Extent::Whole && !given(name))
}

impl Run<'_> {
    pub(super) fn step(&self, step: &Step) -> Outcome {
        let (name, command) = (step.name, step.work.command_line());
        let log = self.logs.join(format!("{name}.log"));
        let times = self.logs.join(format!("{name}.times"));
        println!("==> {name}: {command} ({})", log.display());
        let start = Instant::now();
        // Those of an earlier run.
        let _ = fs::remove_file(&times);
        let result = self.run(&step.work, &log, &times);
        let seconds = start.elapsed().as_secs_f64();
        let processor_seconds = processor::seconds(&times);
        let passed = *result.as_ref().unwrap_or(&false);
        let mut out = stdout().lock();
        // What cannot be shown is in the file.
        let _ = out.write_all(&fs::read(&log).unwrap_or_default());
        if let Err(error) = result {
            let _ = writeln!(out, "{error:#}");
        }
        let result = if passed { "passed" } else { "FAILED" };
        let _ = writeln!(out, "<== {name}: {result} in {seconds:.1} s");
        Outcome { name, command, passed, seconds, processor_seconds }
    }

    fn run(&self, work: &Work, log: &Path, times: &Path) -> anyhow::Result<bool> {
        let log = File::create(log).with_context(|| log.display().to_string())?;
        let mut command = work.command(self.with_playdar, times)?;
        command.current_dir(self.root).stdin(Stdio::null());
        // One file for both, so that lines stand in the order in which they were written.
        command.stderr(log.try_clone()?).stdout(log);
        command.env(skipped::VARIABLE, self.skipped);
        if let Some(seeds) = self.seeds {
            command.env(SEEDS, seeds);
        }
        command.envs(bounds(self.extent, |name| std::env::var_os(name).is_some()));
        if self.programs_are_built {
            command.env(building::PROGRAMS_ARE_BUILT, "1");
        }
        if self.client_is_built {
            command.env(node::CLIENT_IS_BUILT, "1");
        }
        if !self.with_playdar {
            command.env(building::PLAYDAR_LEFT_OUT, "1");
        }
        Ok(command.status().context("it does not start")?.success())
    }
}

impl Work {
    fn command(&self, with_playdar: bool, times: &Path) -> anyhow::Result<Command> {
        let (program, arguments, variables) = match *self {
            Work::Chore(arguments) => (std::env::current_exe()?, arguments, &[][..]),
            Work::Cargo(arguments, variables) => ("cargo".into(), arguments, variables),
            Work::Patient(arguments, variables) => (PATIENT[0].into(), arguments, variables),
        };
        let mut command = processor::timed(program, times);
        if let Work::Patient(..) = self {
            command.args(&PATIENT[1..]);
        }
        for argument in arguments {
            command.arg(argument);
            if *argument == "--workspace" && !with_playdar {
                command.args(["--exclude", "playdar"]);
            }
        }
        command.envs(variables.iter().copied());
        Ok(command)
    }

    /// What a person types to run it alone.
    pub(super) fn command_line(&self) -> String {
        match self {
            Work::Chore(arguments) => format!("cargo xtask {}", arguments.join(" ")),
            Work::Cargo(arguments, variables) | Work::Patient(arguments, variables) => {
                let set = variables.iter().map(|(name, value)| format!("{name}='{value}' "));
                format!("{}cargo {}", set.collect::<String>(), arguments.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_bounded_unless_all_is_wanted_or_something_is_given() {
        let names = |extent, given: &str| -> Vec<&str> {
            bounds(extent, |name| name == given).map(|(name, _)| name).collect()
        };
        assert_eq!(names(Extent::Usual, ""), [PREEMPTIONS_MAX.0, SIM_RUNS.0]);
        assert_eq!(names(Extent::Fast, SIM_RUNS.0), [PREEMPTIONS_MAX.0]);
        assert!(names(Extent::Whole, "").is_empty());
    }

    #[test]
    fn simulators_try_enough_for_what_they_look_for() {
        let seed = include_str!("../../../crates/testing/src/seed.rs");
        let enough = format!("const ENOUGH: f64 = {};", SIM_RUNS.1);
        assert!(seed.contains(&enough), "with fewer nobody looks whether it has happened");
    }

    #[test]
    fn tests_that_failed_are_named_once() {
        let logs = std::env::temp_dir().join(format!("encke-logs-{}", std::process::id()));
        fs::create_dir_all(&logs).unwrap();
        let rust = "  TRY 1 FAIL [ 1.0s] it a\n  TRY 2 FAIL [ 1.0s] it a\n\
                         Summary [ 2.0s] 2 tests run\n  TRY 2 FAIL [ 1.0s] it a\n  said\n";
        fs::write(logs.join("test.log"), rust).unwrap();
        fs::write(logs.join("browser.log"), "ok 1\n# failed: a.test.ts: b: no row\n").unwrap();
        assert_eq!(failures(&logs, "test"), "    TRY 2 FAIL [ 1.0s] it a\n");
        assert_eq!(failures(&logs, "browser"), "    # failed: a.test.ts: b: no row\n");
        assert_eq!(failures(&logs, "tidy"), "");
        fs::remove_dir_all(&logs).unwrap();
    }
}
