//! Each fault alone, and what is left unchecked.

use std::sync::Arc;
use std::time::Duration;

use figures::latency::Quantiles;

use super::*;
use crate::flood::{Closure, Failure, Runs, Totals};
use crate::stamp::RunName;
use crate::{FloodConfig, FloodSnapshot, SpamSnapshot};

const RUN: RunName = RunName { boot: 1, start_ms: 2, random: 3 };

/// Ten listeners that heard 200 of 200 events.
fn flood(change: impl FnOnce(&mut Totals, &mut FloodConfig)) -> FloodReport {
    let mut totals = Totals { opened: 10, reached: 10, ..Totals::default() };
    (totals.events, totals.stamped) = (200, 200);
    let mut config = FloodConfig { users: 10, ..FloodConfig::default() };
    change(&mut totals, &mut config);
    let mut runs = Runs::default();
    runs.count(RUN, totals.stamped);
    FloodReport::from(&FloodSnapshot {
        seconds: 2.0,
        users: 10,
        totals,
        runs,
        config: Arc::new(config),
        latency: Quantiles::default(),
        first_failure: None,
        trouble: None,
    })
}

fn spam(change: impl FnOnce(&mut SpamSnapshot)) -> SpamReport {
    let totals = crate::spam::SpamTotals { sent: 200, answered: 200, ..Default::default() };
    let mut snapshot = SpamSnapshot {
        seconds: 2.0,
        sending_seconds: 2.0,
        run: RUN,
        totals,
        planned: Some(200),
        stopped: false,
        late_after: Duration::from_secs(1),
        answer: Quantiles::default(),
        behind: Quantiles::default(),
        failure: None,
    };
    snapshot.totals.delivered = 200;
    change(&mut snapshot);
    SpamReport::from(&snapshot)
}

#[track_caller]
fn expect_fault(findings: &Findings, words: &str) {
    assert_eq!(findings.faults.len(), 1, "{findings:?}");
    assert!(findings.faults[0].contains(words), "{findings:?}");
}

#[track_caller]
fn expect_unchecked(findings: &Findings, words: &str) {
    assert_eq!(findings.failure(), None);
    assert!(findings.unchecked.iter().any(|note| note.contains(words)), "{words}: {findings:?}");
}

#[test]
fn run_without_a_fault_has_nothing_left_to_check() {
    let run = RunReport::new(flood(|_, _| {}), spam(|_| {}));
    assert_eq!((run.lost, run.findings()), (0, Findings::default()));
    expect_unchecked(&run.flood.findings(), "`delivered` of spam must be 200");
    expect_unchecked(&run.spam.findings(), "flood heard of this run must be 200");
    // No send counts what those who were away have caught up with.
    let resumed = flood(|totals, _| totals.caught_up = 51);
    expect_unchecked(&resumed.findings(), "`delivered` of spam must be about 149");
}

#[test]
fn each_thing_that_goes_wrong_for_a_crowd_is_a_fault() {
    type Change = fn(&mut Totals);
    let faults: [(Change, &str); 11] = [
        (|totals| totals.gaps = 3, "3 events are missing"),
        (|totals| totals.doubled = 1, "1 events came twice"),
        (|totals| (totals.gaps, totals.overtaken) = (1, 1), "came behind a newer one"),
        (|totals| totals.stale = 1, "may have come twice"),
        (|totals| totals.late = 1, "1 events came later than 1 s"),
        (|totals| totals.early = 1, "no latency is true"),
        (|totals| totals.untracked = 1, "were not checked"),
        (|totals| totals.told_gaps = 2, "2 times a gap was told"),
        // Tried again, with success.
        (|totals| totals.failed[Failure::Refused as usize] = 1, "did not open: 1 (refused 1)"),
        // It came back.
        (
            |totals| (totals.opened, totals.closed[Closure::Cut as usize]) = (11, 1),
            "ended before their time: 1 (cut 1)",
        ),
        (|totals| totals.reached = 7, "3 of 10 listeners were never online"),
    ];
    for (change, words) in faults {
        expect_fault(&flood(|totals, _| change(totals)).findings(), words);
    }
}

#[test]
fn what_a_crowd_cannot_check_is_said() {
    type Change = fn(&mut Totals, &mut FloodConfig);
    let notes: [(Change, &str); 8] = [
        (|totals, _| (totals.events, totals.stamped) = (0, 0), "none came"),
        (
            |totals, _| (totals.events, totals.stamped, totals.body_bytes) = (0, 0, 3_000),
            "none of it is an event",
        ),
        (|totals, _| totals.events = 205, "5 events without a stamp"),
        (|totals, _| totals.foreign = 4, "4 events of a spam elsewhere"),
        (|totals, _| totals.joined = 3, "3 streams of a run under way"),
        (|totals, _| totals.caught_up = 2, "2 events that were caught up with"),
        (|totals, _| totals.opened = 12, "before 2 returns"),
        (|_, config| config.duration = Some(Duration::from_secs(9)), "the rest of 9 s"),
    ];
    for (change, words) in notes {
        expect_unchecked(&flood(change).findings(), words);
    }
}

#[test]
fn each_thing_that_goes_wrong_for_senders_is_a_fault() {
    type Change = fn(&mut SpamSnapshot);
    let refuse: Change = |spam| *spam.totals.problems.entry("Bad id".to_owned()).or_default() += 2;
    let faults: [(Change, &str); 7] = [
        (refuse, "refused: 2 (Bad id 2)"),
        (|spam| spam.totals.answered = 198, "2 events were not answered"),
        (|spam| spam.totals.answered = 201, "1 answers were to no event"),
        (|spam| spam.totals.late = 5, "5 events were sent more than 1 s late"),
        (|spam| spam.planned = Some(300), "100 of 300 events were not sent"),
        (|spam| spam.failure = Some("reset".to_owned()), "ended before its time: reset"),
        (
            |spam| (spam.totals.sent, spam.totals.answered, spam.planned) = (0, 0, None),
            "nothing was sent",
        ),
    ];
    for (change, words) in faults {
        expect_fault(&spam(change).findings(), words);
    }
    let stopped = spam(|spam| (spam.planned, spam.stopped) = (Some(300), true));
    expect_unchecked(&stopped.findings(), "100 of 300 events: it was stopped before");
    expect_unchecked(&spam(|spam| spam.totals.delivered = 0).findings(), "nobody was online");
}

#[test]
fn counts_of_both_sides_are_compared_where_they_can_be() {
    let run = |heard: u64, change: fn(&mut SpamSnapshot)| {
        let flood = flood(|totals, _| (totals.events, totals.stamped) = (heard, heard));
        RunReport::new(flood, spam(change))
    };
    expect_fault(&run(199, |_| {}).findings(), "1 events were lost");
    expect_fault(&run(201, |_| {}).findings(), "1 events more were received");
    // Heard of another run, that would make up for what is lost.
    let other = run(200, |spam| spam.run = RunName { boot: 1, start_ms: 2, random: 4 });
    expect_fault(&other.findings(), "200 events were lost");
    let visited = RunReport { others: 2, ..run(190, |_| {}) };
    expect_unchecked(&visited.findings(), "2 others connected too, and 10 deliveries");
    // Where it is known what they heard, the rest is checked as ever.
    let counted = run(190, |_| {}).with_others(2, Some(10));
    assert_eq!((counted.lost, counted.findings()), (0, Findings::default()));
    let counted = run(189, |_| {}).with_others(2, Some(10));
    expect_fault(&counted.findings(), "1 events were lost");
    expect_unchecked(&run(201, |spam| spam.totals.at_least = 1).findings(), "lower bounds");
    let config = |_: &mut Totals, config: &mut FloodConfig| config.transport = Transport::Poll;
    let polled = RunReport::new(flood(config), spam(|spam| spam.totals.delivered = 190));
    expect_unchecked(&polled.findings(), "polls also hear");
}

#[test]
fn more_runs_than_are_told_apart_are_counted_together() {
    let mut runs = Runs::default();
    for start_ms in (0..40).chain(0..3) {
        runs.count(RunName { boot: 1, start_ms, random: 0 }, 1);
    }
    let of = |start_ms| runs.of(RunName { boot: 1, start_ms, random: 0 });
    assert_eq!((of(0), of(3), of(39), runs.others), (2, 1, 0, 24));
    let mut both = Runs::default();
    both.add(&runs);
    both.add(&runs);
    assert_eq!((both.of(RunName { boot: 1, start_ms: 0, random: 0 }), both.others), (4, 48));
}

#[test]
fn findings_stand_in_the_table_and_in_the_json() {
    let report = flood(|totals, _| (totals.late, totals.events) = (1, 201));
    let findings = report.findings();
    let table = findings.to_string();
    assert!(table.contains("not checked   of 1 events without"), "{table}");
    assert!(table.contains("fault         1 events came later"), "{table}");
    let with_findings = ReportWithFindings { report: &report, findings: &findings };
    let json = serde_json::to_value(with_findings).unwrap();
    assert_eq!((&json["events"], &json["faults"][0]), (&201.into(), &table_fault().into()));
    assert_eq!(findings.failure().unwrap(), table_fault());
}

fn table_fault() -> &'static str {
    "1 events came later than 1 s"
}
