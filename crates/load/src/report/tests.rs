//! Reports as tables and as JSON.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::FloodConfig;
use crate::flood::{Closure, Failure, Totals};
use crate::stamp::RunName;

fn flood_snapshot() -> FloodSnapshot {
    let mut totals = Totals { opened: 12_000, events: 5_000, ..Totals::default() };
    totals.failed[Failure::Refused as usize] = 3;
    totals.closed[Closure::Reset as usize] = 1_000;
    totals.stamped = 4_990;
    totals.bytes = 1_234_567;
    totals.gaps = 4;
    totals.overtaken = 1;
    let mut runs = Runs::default();
    runs.count(RunName::default(), 4_990);
    FloodSnapshot {
        seconds: 2.0,
        users: 12_003,
        totals,
        runs,
        config: Arc::new(FloodConfig::default()),
        latency: Quantiles { count: 1, p50_ms: 0.25, p99_ms: 1.5, ..Quantiles::default() },
        first_failure: Some("connection refused".to_owned()),
        trouble: None,
    }
}

fn spam_snapshot() -> SpamSnapshot {
    let mut totals = crate::spam::SpamTotals { sent: 2_000, answered: 2_000, ..Default::default() };
    totals.delivered = 5_000;
    totals.problems.insert("Bad id".to_owned(), 2);
    let (answer, behind) = (Quantiles::default(), Quantiles::default());
    SpamSnapshot {
        seconds: 2.0,
        sending_seconds: 2.0,
        run: RunName::default(),
        totals,
        planned: Some(2_000),
        stopped: false,
        late_after: Duration::from_secs(1),
        answer,
        behind,
        failure: None,
    }
}

#[test]
fn rate_is_that_of_the_time_in_which_events_were_sent() {
    let waited = SpamSnapshot { seconds: 32.0, ..spam_snapshot() };
    let text = SpamReport::from(&waited).to_string();
    assert!(text.contains("2,000 in 2.0 s, 1000.0/s"), "{text}");
}

#[test]
fn line_has_the_counts_and_the_rate_of_the_last_second() {
    let (now, mut before) = (flood_snapshot(), flood_snapshot());
    before.seconds = 1.0;
    before.totals.events = 1_000;
    let line = flood_line(&now, &before);
    assert_eq!(
        line, "    2 s  open 11,000  events 5,000 (4,000/s)  failed 3  closed 1,000  missing 3",
        "what went wrong comes before how fast it was"
    );
    let mut calm = now.clone();
    calm.totals.failed = Totals::default().failed;
    calm.totals.closed = Totals::default().closed;
    (calm.totals.gaps, calm.totals.overtaken) = (0, 0);
    assert_eq!(
        flood_line(&calm, &before),
        "    2 s  open 12,000  events 5,000 (4,000/s)  p50/p99 0.25/1.50 ms  1.2 MB"
    );
    let mut before = spam_snapshot();
    before.seconds = 1.0;
    before.totals.sent = 1_000;
    assert_eq!(
        spam_line(&spam_snapshot(), &before),
        "    2 s  sent 2,000 (1,000/s)  delivered 5,000  problems 2  0 B"
    );
}

#[test]
fn lines_fit_a_terminal_whatever_the_counts() {
    for shift in 0..64 {
        let count = u64::MAX >> shift >> 20;
        let ms = count as f64;
        let latency = Quantiles { count: 1, p50_ms: ms, p99_ms: ms, ..Quantiles::default() };
        let mut flood = flood_snapshot();
        flood.totals.events = count;
        flood.totals.opened = count.max(1_003);
        flood.totals.bytes = count;
        flood.latency = latency;
        flood.seconds = 1e6;
        let mut before = flood_snapshot();
        before.totals.events = 0;
        let line = flood_line(&flood, &before);
        assert!(line.chars().count() <= 80 && line.contains("  events "), "{line}");
        let mut spam = spam_snapshot();
        (spam.totals.sent, spam.totals.delivered) = (count, count);
        spam.totals.bytes = count;
        spam.answer = latency;
        let mut before = spam_snapshot();
        before.totals.sent = 0;
        let line = spam_line(&spam, &before);
        assert!(line.chars().count() <= 80 && line.contains("  delivered "), "{line}");
    }
}

#[test]
fn json_names_reasons_and_quantiles() {
    let (flood, spam) = (FloodReport::from(&flood_snapshot()), (&spam_snapshot()).into());
    let json = serde_json::to_value(RunReport::new(flood, spam)).unwrap();
    assert_eq!(json["lost"], 10);
    assert_eq!(json["flood"]["failed_by"]["refused"], 3);
    assert_eq!(json["flood"]["closed_by"].as_object().unwrap().len(), 1);
    assert_eq!(json["flood"]["latency"]["p99_ms"], 1.5);
    assert_eq!(json["spam"]["problems"]["Bad id"], 2);
}

#[test]
fn table_shows_every_figure_that_is_not_zero() {
    let (flood, spam) = (FloodReport::from(&flood_snapshot()), (&spam_snapshot()).into());
    let table = RunReport::new(flood, spam).to_string();
    for part in [
        "listeners     12,003 asked for, 11,000 open at the end",
        "failed        3 (refused 3)",
        "problems      2 (Bad id 2)",
        "first failure connection refused",
        "lost 10 (5,000 delivered − 4,990 received)",
    ] {
        assert!(table.contains(part), "{table}");
    }
}
