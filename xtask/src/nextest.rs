//! `cargo xtask test`: the Rust tests of all crates in one pool, a process for each test.
//!
//! cargo-nextest runs them, as `.config/nextest.toml` says: `cargo test` runs one program after
//! another, so that a test that waits holds up all that come behind it. More run at a time than
//! there are processors, since most wait for something. A test that passes at its second try is
//! told ([`second_tries`]).

use std::fs;
use std::hint::spin_loop;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, available_parallelism};

use anyhow::Context;
use roxmltree::{Document, Node};

use crate::building::{self, target};
use crate::second_tries;
use crate::skipped;
use crate::store;
use crate::tools::CARGO_NEXTEST;

/// Tests at a time for each processor.
const TESTS_PER_PROCESSOR: usize = 4;

/// How often [`flaky`] runs a test.
const FLAKY_RUNS: &str = "50";

/// Where nextest writes what became of each test, below the target.
const REPORT: &str = "nextest/default/junit.xml";

/// What tells there of a try before the last.
const FIRST_TRY: [&str; 2] = ["flakyFailure", "flakyError"];

/// The step whose first failures these are.
const STEP: &str = "test";

/// Forgets what became of tests in an earlier run.
pub(crate) fn begin(target: &Path) -> anyhow::Result<PathBuf> {
    store::remove(&target.join(REPORT))?;
    second_tries::begin_step(target, STEP)
}

/// Runs all tests, or what `filter`, which are arguments of nextest, leaves of them.
pub(crate) fn run(root: &Path, filter: &[&str]) -> anyhow::Result<bool> {
    let target = target(root);
    let report = target.join(REPORT);
    let first_failures = begin(&target)?;
    // A run of all checks tells at its end what was skipped.
    let by_itself = std::env::var_os(skipped::VARIABLE).is_none();
    if by_itself {
        skipped::begin(&target)?;
        // Those of other steps are of another run.
        second_tries::begin(&target)?;
    }
    let mut nextest = nextest(root)?;
    nextest.args(filter).env(skipped::VARIABLE, skipped::file(&target));
    // Tests that try again inside themselves write there what `keep` writes of whole ones.
    nextest.env(second_tries::VARIABLE, &first_failures);
    let passed = nextest.status().context("cargo-nextest does not start")?.success();
    let text = fs::read_to_string(&report).with_context(|| report.display().to_string())?;
    keep(&first_failures, &passed_later(&text)?)?;
    let told = second_tries::told(&target)?;
    print!("{}", told.lines);
    if by_itself {
        println!("{}", skipped::report(&skipped::file(&target))?);
    }
    Ok(passed && told.passed)
}

/// Runs the tests with `name` in their names again and again, beside a busy loop on each processor.
pub(crate) fn flaky(root: &Path, name: &str) -> anyhow::Result<bool> {
    println!("{FLAKY_RUNS} times, beside {} busy loops", processors());
    let mut nextest = nextest(root)?;
    nextest.args(["--stress-count", FLAKY_RUNS, "--retries", "0", name]);
    // Who is skipped has not passed, nor who has tried again inside itself.
    nextest.env("CI", "true");
    let folder = second_tries::begin_step(&target(root), "flaky")?;
    nextest.env(second_tries::VARIABLE, &folder);
    let is_over = AtomicBool::new(false);
    let status = thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let status = nextest.status();
        is_over.store(true, Ordering::Relaxed);
        status
    });
    let passed = status.context("cargo-nextest does not start")?.success();
    let again = second_tries::told_of(&folder)?;
    print!("{again}");
    Ok(passed && again.is_empty())
}

/// `cargo nextest run`, which takes arguments still.
fn nextest(root: &Path) -> anyhow::Result<Command> {
    let mut nextest = Command::new(CARGO_NEXTEST.ensure(root)?);
    nextest.args(["nextest", "run", "--show-progress=none"]).args(building::selection());
    nextest.current_dir(root).stdin(Stdio::null());
    let threads = processors() * TESTS_PER_PROCESSOR;
    nextest.env("NEXTEST_TEST_THREADS", threads.to_string());
    Ok(nextest)
}

fn processors() -> usize {
    available_parallelism().map_or(1, usize::from)
}

/// A test that failed and then passed.
#[derive(Debug, PartialEq, Eq)]
struct SecondTry {
    name: String,
    /// What it said when it failed.
    failure: String,
}

/// Those in a report of nextest, which has the form of JUnit's.
fn passed_later(report: &str) -> anyhow::Result<Vec<SecondTry>> {
    let report = Document::parse(report).context("nextest's report")?;
    let cases = report.descendants().filter(|node| node.has_tag_name("testcase"));
    let second_try = |case: Node<'_, '_>| {
        // Which of them it is tells how it ended.
        let is_first = |node: &Node<'_, '_>| FIRST_TRY.contains(&node.tag_name().name());
        let failure = case.children().find(is_first)?;
        let texts = failure.descendants().filter(Node::is_text).filter_map(|text| text.text());
        let part = |name| case.attribute(name).unwrap_or_default();
        let name = format!("{} {}", part("classname"), part("name"));
        Some(SecondTry { name, failure: texts.collect() })
    };
    Ok(cases.filter_map(second_try).collect())
}

/// Keeps first failures in files of `folder`.
fn keep(folder: &Path, flaky: &[SecondTry]) -> anyhow::Result<()> {
    for (number, SecondTry { name, failure }) in flaky.iter().enumerate() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let file = folder.join(format!("{}.txt", number + 1));
        fs::write(&file, format!("{name}\n\n{failure}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_passed_at_the_second_try_are_found_with_their_failure() {
        let report = r#"<?xml version="1.0"?>
            <testsuites><testsuite name="encke::it">
            <testcase name="api::send" classname="encke::it" time="0.1"></testcase>
            <testcase name="cluster::drain" classname="encke::it" time="1">
              <flakyFailure timestamp="x" message="m" type="t">left<system-out>the log</system-out>
              </flakyFailure></testcase>
            <testcase name="api::late" classname="encke::it" time="1">
              <flakyError timestamp="x" type="t">leaves a process</flakyError></testcase>
            <testcase name="api::bad" classname="encke::it"><failure type="t">x</failure></testcase>
            </testsuite></testsuites>"#;
        let found = passed_later(report).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].name, "encke::it cluster::drain");
        assert!(found[0].failure.starts_with("left") && found[0].failure.contains("the log"));
        assert_eq!(found[1].name, "encke::it api::late");
        passed_later("<not closed").unwrap_err();
    }
}
