//! Listeners and senders: `encke flood` and `encke spam` as programs beside the nodes, and what
//! they report.

use std::time::{Duration, Instant};

use rig::oracle::{Sums, Totals};
use serde_json::Value;

use crate::harness::{Program, Server, encke};
use crate::table::Table;

/// How long a program may take beyond its time.
const GRACE: Duration = Duration::from_secs(60);

/// The streams of users `first..first + users` at one node.
pub(crate) struct Flood(Program);

impl Flood {
    pub(crate) fn start(node: &Server, first: u64, users: u64, options: &[&str]) -> Flood {
        Flood::start_at(&format!("{}/stream/{{id}}", node.url()), first, users, options)
    }

    /// The same at `url`, in which `{id}` stands for the user.
    pub(crate) fn start_at(url: &str, first: u64, users: u64, options: &[&str]) -> Flood {
        let url = format!("--url={url}");
        let (users, first) = (format!("--users={users}"), format!("--first-id={first}"));
        let mut command = encke(["flood", "--json", &url, &users, &first]);
        Flood(Program::spawn(command.args(options)))
    }

    /// So many at each node, by turns of ids; returns when all are online.
    pub(crate) fn at_each(nodes: &[Server], users: u64, options: &[&str]) -> Vec<Flood> {
        let start = |(n, node)| Flood::start(node, n as u64 * users, users, options);
        let floods = nodes.iter().enumerate().map(start).collect();
        for node in nodes {
            wait_open(node, users);
        }
        floods
    }

    /// Ends it; what it saw.
    pub(crate) fn finish(self) -> Value {
        self.0.signal("INT");
        report(self.0)
    }

    /// The same of one that has so many streams that their end takes its time.
    pub(crate) fn finish_within(mut self, time: Duration) -> Value {
        self.0.signal("INT");
        wait_end(&mut self.0, time);
        report(self.0)
    }
}

/// Waits until a node has so many streams, however many: the harness' deadline is for few.
pub(crate) fn wait_open(node: &Server, streams: u64) {
    let end = Instant::now() + GRACE;
    while node.api.stats()["connections_open"].as_u64().unwrap() < streams {
        assert!(Instant::now() < end, "{streams} streams do not open");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Events to one node.
pub(crate) struct Spam(Program);

impl Spam {
    pub(crate) fn start(
        node: &Server,
        users: u64,
        rate: f64,
        seconds: u64,
        options: &[&str],
    ) -> Spam {
        let api = format!("--api={}", node.api_url());
        let (users, rate) = (format!("--users={users}"), format!("--rate={rate}"));
        let seconds = format!("--seconds={seconds}");
        let mut command = encke(["spam", "--json", &api, &users, &rate, &seconds]);
        Spam(Program::spawn(command.args(options)))
    }

    /// At each node its part of `rate`.
    pub(crate) fn at_each(
        nodes: &[Server],
        users: u64,
        rate: f64,
        seconds: u64,
        options: &[&str],
    ) -> Vec<Spam> {
        let part = rate / nodes.len() as f64;
        let start = |(n, node)| {
            let seed = format!("--seed={}", n + 1);
            Spam::start(node, users, part, seconds, &[&[&*seed], options].concat())
        };
        nodes.iter().enumerate().map(start).collect()
    }

    /// Waits for its end; what it did.
    pub(crate) fn finish(self, seconds: u64) -> Value {
        let mut program = self.0;
        wait_end(&mut program, Duration::from_secs(seconds) + GRACE);
        report(program)
    }

    /// Ends it before its time; what it did.
    pub(crate) fn stop(self) -> Value {
        self.0.signal("INT");
        self.finish(0)
    }
}

fn wait_end(program: &mut Program, time: Duration) {
    let end = Instant::now() + time;
    while !program.has_ended() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The summary of a program that ends: its exit code says what the summary says, too.
pub(crate) fn report(program: Program) -> Value {
    let finished = program.finish();
    let line = finished.stdout.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

/// The sum of a member over some reports.
pub(crate) fn sum(reports: &[Value], member: &str) -> u64 {
    reports.iter().map(|report| report[member].as_u64().unwrap()).sum()
}

/// The largest of a latency over some reports, in ms.
pub(crate) fn worst(reports: &[Value], kind: &str, quantile: &str) -> f64 {
    reports.iter().map(|report| report[kind][quantile].as_f64().unwrap()).fold(0.0, f64::max)
}

/// What flood and spam know together: every event of `spams` at every stream of `floods`, once and
/// in order. Streams are those that should have stayed.
pub(crate) fn account(table: &mut Table, floods: &[Value], spams: &[Value]) {
    let (sent, answered) = (sum(spams, "sent"), sum(spams, "answered"));
    let refused: u64 = spams
        .iter()
        .flat_map(|spam| spam["problems"].as_object().unwrap().values())
        .map(|count| count.as_u64().unwrap())
        .sum();
    let totals = Totals::of(Sums {
        sent,
        acknowledged: answered,
        refused,
        delivered: sum(spams, "delivered"),
        at_least: sum(spams, "at_least"),
        heard: sum(floods, "stamped"),
        missing: sum(floods, "missing"),
        doubled: sum(floods, "doubled"),
        out_of_order: sum(floods, "overtaken") + sum(floods, "stale"),
        gaps: sum(floods, "told_gaps"),
        losses_of_stream: sum(floods, "closed") + sum(floods, "failed"),
    });
    table.oracle("events without an answer", totals.unanswered, 0);
    table.oracle("events refused", totals.refused, 0);
    table.shown("deliveries", figures::numbers::grouped(totals.heard));
    table.oracle("lost", totals.lost, 0);
    table.oracle("doubled", totals.doubled, 0);
    table.oracle("out of order", totals.out_of_order, 0);
    table.oracle("gaps told", totals.gaps, 0);
    table.oracle("streams lost", totals.losses_of_stream, 0);
    table.shown("counts told as at_least", totals.at_least);
}
