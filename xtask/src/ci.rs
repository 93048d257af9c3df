//! `cargo xtask ci`: every check that a change must pass.
//!
//! Steps that mostly wait lie beside those that compute, so there are lanes. Each runs its steps
//! one after another, beside the other lanes. What a step prints is kept in `target/ci/STEP.log`
//! and shown when it ends, so that lanes do not talk at once. All steps run even if one fails, so
//! that one run tells everything. Only what needs the programs is left out where they do not build.
//!
//! The build server does nothing but call this; what passes here passes there. Nothing reads the
//! standard input, and what is changed outside `target/` are Debian packages ([`crate::programs`]),
//! tools ([`crate::store`]) and the caches of cargo, npm, Maven and Go. The last lines tell what
//! failed, and which tests were skipped or passed at their second try. Where `CI=true` one that
//! would be skipped fails. How long each step takes stands in CONTRIBUTING.md.

mod docs;
mod processor;
mod step;

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::Context;

pub(crate) use self::docs::docs;
use self::step::{Outcome, Step, Work};
use crate::{
    building, compat, nextest, playdar, previous, programs, registry, second_tries, skipped, tools,
};

use Work::{Cargo, Chore, Patient};

/// How much to check.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Extent {
    /// Without what takes long and seldom finds anything that the rest does not.
    Fast,
    /// Everything that the change can have touched.
    Usual,
    /// Everything.
    Whole,
}

/// Lanes that run beside each other, and in each its steps in order.
type Phase = &'static [&'static [Step]];

/// What needs nothing built. Clippy compiles while packages are fetched and texts are read.
const CHECKS: Phase = &[
    &[Step { name: "programs", work: Chore(&["programs"]), extent: Extent::Fast }],
    &[
        Step {
            name: "format",
            work: Cargo(&["fmt", "--all", "--check"], &[]),
            extent: Extent::Fast,
        },
        Step { name: "tidy", work: Chore(&["tidy"]), extent: Extent::Fast },
    ],
    &[Step {
        name: "clippy",
        work: Cargo(
            &[
                "clippy",
                "--quiet",
                "--workspace",
                "--all-targets",
                "--",
                docs::LINTS[0],
                docs::LINTS[1],
            ],
            &[],
        ),
        extent: Extent::Fast,
    }],
];

/// All programs, once and for all: of one package alone they would have other features of what they
/// depend on, and most would be built again. Beside them the browser client and the pages, once
/// too: whoever built them again would take them from under those who use them.
const BUILD: Phase = &[
    &[Step {
        name: "build",
        work: Cargo(&["test", "--quiet", "--workspace", "--no-run"], &[]),
        extent: Extent::Fast,
    }],
    &[Step { name: "node", work: Chore(&["node"]), extent: Extent::Fast }],
];

/// What uses the programs, and what compiles for itself beside it. Tests have deadlines and what
/// compiles has none, so it takes what they leave.
const TRIALS: Phase = &[
    &[
        Step { name: "test", work: Chore(&["test"]), extent: Extent::Fast },
        Step { name: "packages", work: Chore(&["package", "--check"]), extent: Extent::Fast },
        Step { name: "demo", work: Chore(&["demo"]), extent: Extent::Usual },
    ],
    &[
        Step { name: "browser", work: Chore(&["browser"]), extent: Extent::Fast },
        Step { name: "playdar", work: Chore(&["playdar"]), extent: Extent::Usual },
    ],
    &[
        // Two minutes, in which it mostly waits.
        Step { name: "silence", work: Chore(&["silence"]), extent: Extent::Fast },
        Step { name: "sdks", work: Chore(&["sdks"]), extent: Extent::Fast },
        Step { name: "site", work: Chore(&["site"]), extent: Extent::Usual },
    ],
    &[
        Step {
            // Its flags change every crate's fingerprint, so it builds beside the rest.
            name: "loom",
            work: Patient(
                &["test", "--package", "sync", "--lib", "--target-dir", "target/loom", "loom"],
                &[("RUSTFLAGS", "--cfg loom")],
            ),
            extent: Extent::Usual,
        },
        Step {
            name: "doctest",
            work: Patient(&["test", "--quiet", "--workspace", "--doc"], &[]),
            extent: Extent::Fast,
        },
        Step {
            // With the versions of the lockfile, and of what it depends on fewer features than the
            // whole workspace has: so whoever installs it has it. That it compiles takes less than
            // half of an installation.
            name: "alone",
            work: Patient(&["check", "--quiet", "--locked", "--package", "encke"], &[]),
            extent: Extent::Fast,
        },
        Step { name: "docs", work: Chore(&["docs"]), extent: Extent::Fast },
        Step { name: "deny", work: Chore(&["deny"]), extent: Extent::Usual },
    ],
];

/// Installs, builds or fetches what tests take.
pub(crate) fn programs(root: &Path) -> anyhow::Result<bool> {
    let installed = programs::ensure_all();
    tools::ensure_all(root);
    compat::ensure(root);
    previous::ensure(root);
    installed.map(|()| true)
}

/// Runs the steps of `extent` and says whether all passed.
pub(crate) fn run(root: &Path, extent: Extent) -> anyhow::Result<bool> {
    let begin = Instant::now();
    let target = building::target(root);
    let skipped = skipped::begin(&target)?;
    let logs = target.join("ci");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    let playdar = playdar::note(root)?;
    let with_playdar = extent == Extent::Whole || !playdar.is_file();
    nextest::begin(&target)?;
    second_tries::begin(&target)?;
    let seeds = seeds(root, extent);
    let run = step::Run {
        root,
        logs: &logs,
        skipped: &skipped,
        seeds: seeds.as_deref(),
        extent,
        with_playdar,
        programs_are_built: false,
        client_is_built: false,
    };
    // Without it everything is compiled, and that is all.
    registry::restore(root).unwrap_or_else(|error| println!("{error:#}"));
    let mut outcomes = run_lanes(&run, CHECKS);
    let built = run_lanes(&run, BUILD);
    let passed = |name| built.iter().any(|outcome| outcome.name == name && outcome.passed);
    let (programs_are_built, client_is_built) = (passed("build"), passed("node"));
    outcomes.extend(built);
    if programs_are_built {
        let run = step::Run { programs_are_built, client_is_built, ..run };
        outcomes.extend(run_lanes(&run, TRIALS));
    }
    println!("{}", table(&outcomes));
    let failed: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.passed).collect();
    for Outcome { name, command, .. } in &failed {
        println!("{name} failed. To run it again: {command}");
        print!("{}", step::failures(&logs, name));
    }
    let told = second_tries::told(&target)?;
    print!("{}", told.lines);
    println!("{}", skipped::report(&skipped)?);
    let passed = failed.is_empty() && told.passed;
    if passed && extent >= Extent::Usual {
        // What cannot be kept is made again the next time.
        keep(root, &playdar, &skipped).unwrap_or_else(|error| println!("{error:#}"));
    }
    let processor: f64 = outcomes.iter().filter_map(|outcome| outcome.processor_seconds).sum();
    let (minutes, processor) = (begin.elapsed().as_secs_f64() / 60.0, processor / 60.0);
    println!("{minutes:.1} minutes in all, in which the processors worked for {processor:.1}");
    println!("steps: {} passed, {} failed", outcomes.len() - failed.len(), failed.len());
    Ok(passed)
}

/// What random tests make their seeds of: the files of the commit, so that what was found good is
/// not refused by chance and each change tries seeds of its own. A whole run takes random ones, and
/// so does one of sources without a commit.
fn seeds(root: &Path, extent: Extent) -> Option<String> {
    let given = std::env::var(step::SEEDS).ok();
    let seeds = given.or_else(|| (extent < Extent::Whole).then(|| tree(root)).flatten());
    println!("seeds: {}", seeds.as_deref().unwrap_or("random"));
    seeds
}

/// The hash of the files of the commit.
fn tree(root: &Path) -> Option<String> {
    let git = Command::new("git").args(["rev-parse", "HEAD^{tree}"]).current_dir(root).output();
    let git = git.ok().filter(|git| git.status.success())?;
    Some(String::from_utf8_lossy(&git.stdout).trim().to_owned())
}

/// Keeps what a run that has passed leaves to others; not that the example has, where a test of it
/// may have been skipped or a file has changed meanwhile.
fn keep(root: &Path, playdar: &Path, skipped: &Path) -> anyhow::Result<()> {
    if !skipped.exists() && playdar::note(root)? == *playdar {
        playdar::has_passed(playdar)?;
    }
    registry::keep(root)
}

/// Runs the lanes of a phase beside each other; returns what became of their steps.
fn run_lanes(run: &step::Run<'_>, phase: Phase) -> Vec<Outcome> {
    thread::scope(|scope| {
        let wanted = |step: &&Step| step.extent <= run.extent;
        let lane = |lane: &'static [Step]| {
            scope.spawn(move || lane.iter().filter(wanted).map(|step| run.step(step)).collect())
        };
        let lanes: Vec<_> = phase.iter().map(|steps| lane(steps)).collect();
        let outcomes: Vec<Vec<Outcome>> =
            lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect();
        outcomes.into_iter().flatten().collect()
    })
}

/// The steps with their times, as Markdown.
fn table(outcomes: &[Outcome]) -> String {
    let line = |Outcome { name, passed, seconds, processor_seconds, .. }: &Outcome| {
        let worked =
            processor_seconds.map_or_else(String::new, |seconds| format!("{seconds:.0} s"));
        let passed = if *passed { "passed" } else { "FAILED" };
        format!("| {name} | {seconds:.0} s | {worked} | {passed} |\n")
    };
    let lines: String = outcomes.iter().map(line).collect();
    format!("| step | took | processors | |\n| --- | --- | --- | --- |\n{lines}")
}

/// The demo as the build for tests has it; it fails where an event was lost.
pub(crate) fn demo(root: &Path) -> anyhow::Result<bool> {
    building::build(root)?;
    let target = building::target(root);
    let run = || -> anyhow::Result<bool> {
        let mut demo = Command::new(target.join("debug/encke"));
        // On free ports, for another clone may run its own.
        demo.args(["demo", "--seconds=8", "--listen=127.0.0.1:0", "--api=127.0.0.1:0"]);
        // A backlog that a stall leaves is worked off, also by a debug build on one processor.
        demo.arg("--rate=200").stdin(Stdio::null());
        Ok(demo.status().context("encke does not start")?.success())
    };
    if run()? {
        return Ok(true);
    }
    // What is late by 5 s counts as lost there, and a busy machine may stand still for as long.
    let folder = second_tries::begin_step(&target, "demo")?;
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("1.txt"), "cargo xtask demo\n\nWhat it said is in its log.\n")?;
    run()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> impl Iterator<Item = &'static Step> {
        [CHECKS, BUILD, TRIALS].into_iter().flatten().copied().flatten()
    }

    #[test]
    fn command_line_has_the_variables_and_can_be_pasted() {
        let lines: Vec<String> = steps().map(|step| step.work.command_line()).collect();
        assert!(lines.contains(&"cargo xtask browser".into()));
        let loom = lines.iter().find(|line| line.contains(" loom")).unwrap();
        assert!(loom.starts_with("RUSTFLAGS='--cfg loom' cargo test "), "{loom}");
    }

    #[test]
    fn table_tells_the_time_and_that_of_the_processors_where_it_is_known() {
        let outcome = |processor_seconds| Outcome {
            name: "tidy",
            command: String::new(),
            passed: true,
            seconds: 37.4,
            processor_seconds,
        };
        let table = table(&[outcome(Some(25.1)), outcome(None)]);
        assert!(table.ends_with("| tidy | 37 s | 25 s | passed |\n| tidy | 37 s |  | passed |\n"));
    }

    #[test]
    fn what_a_fast_run_leaves_out_is_what_both_texts_say() {
        let mut left_out: Vec<_> =
            steps().filter(|step| step.extent > Extent::Fast).map(|step| step.name).collect();
        left_out.sort_unstable();
        let told = format!("--fast leaves out {}\n", left_out.join(", "));
        let contributing = include_str!("../../CONTRIBUTING.md");
        assert!(contributing.contains(&told), "CONTRIBUTING.md does not say: {told}");
        let words: Vec<_> = crate::USAGE.split_whitespace().collect();
        let told = told.trim_end().replace(", site", " and site;");
        assert!(words.join(" ").contains(&told), "the usage does not say: {told}");
    }

    #[test]
    fn steps_have_names_of_their_own_since_their_logs_have() {
        let mut names: Vec<&str> = steps().map(|step| step.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
