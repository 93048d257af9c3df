//! What one connection of `spam` counts, and how others get to see it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use memchr::memmem;

use figures::latency::Latencies;

/// Problems that are told apart; those beyond are counted together.
const PROBLEMS_MAX: usize = 20;

/// Counts since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Events sent.
    pub sent: u64,
    /// Events that the server answered, well or not.
    pub answered: u64,
    /// Sum of the deliveries that the server's answers told.
    pub delivered: u64,
    /// Answers that were problems, by their title.
    pub problems: BTreeMap<String, u64>,
    /// Bytes sent.
    pub bytes: u64,
    /// Processor time of the threads, nanoseconds.
    pub cpu_ns: u64,
}

impl Totals {
    /// Events that the server refused.
    pub fn problems_total(&self) -> u64 {
        self.problems.values().sum()
    }

    pub(super) fn add(&mut self, other: &Totals) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.delivered += other.delivered;
        self.bytes += other.bytes;
        self.cpu_ns += other.cpu_ns;
        for (title, count) in &other.problems {
            *self.problems.entry(title.clone()).or_default() += count;
        }
    }

    /// Counts one answer of the API: `{"delivered":n,…}` or a problem.
    pub(super) fn answer(&mut self, json: &[u8]) {
        self.answered += 1;
        match delivered(json) {
            Some(count) => self.delivered += count,
            None => self.problem(json),
        }
    }

    #[cold]
    fn problem(&mut self, json: &[u8]) {
        let problem: Option<serde_json::Value> = serde_json::from_slice(json).ok();
        let title = problem.as_ref().and_then(|problem| problem.get("title")?.as_str());
        let mut title = title.unwrap_or("an answer that is no JSON of the API");
        if self.problems.len() >= PROBLEMS_MAX && !self.problems.contains_key(title) {
            title = "other";
        }
        *self.problems.entry(title.to_owned()).or_default() += 1;
    }
}

/// The count in `{"delivered":n,…}`, without a JSON parser: one such line comes for each event.
fn delivered(json: &[u8]) -> Option<u64> {
    const FIELD: &[u8] = b"\"delivered\":";
    let rest = json[memmem::find(json, FIELD)? + FIELD.len()..].trim_ascii_start();
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()
}

/// What one side of a connection, writer or reader, has published.
#[derive(Debug, Default)]
pub(super) struct Published {
    pub(super) totals: Totals,
    /// From the intended time to the answer, since somebody took them last.
    pub(super) latencies: Latencies,
    /// From the intended time to the write, likewise.
    pub(super) behind: Latencies,
    /// Why the connection ended before its time.
    pub(super) failure: Option<String>,
}

/// The place where the sides of a connection publish. Each takes the lock once for what it did in
/// one go, a thousand times a second at most, and others once a report.
#[derive(Debug, Default)]
pub(super) struct Board {
    published: Mutex<Published>,
}

impl Board {
    /// Runs `change` on what is published.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut Published) -> T) -> T {
        // A thread that panicked left whole numbers behind.
        change(&mut self.published.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_what_they_say() {
        let mut totals = Totals::default();
        totals.answer(br#"{"delivered":2,"id":"0193"}"#);
        totals.answer(br#"{"id":"0193", "delivered": 40}"#);
        totals.answer(br#"{"type":"about:blank","title":"Bad id","status":400}"#);
        totals.answer(br#"{"delivered":"many"}"#);
        assert_eq!((totals.answered, totals.delivered, totals.problems_total()), (4, 42, 2));
        assert_eq!(totals.problems["Bad id"], 1);
    }

    #[test]
    fn titles_are_bounded() {
        let mut totals = Totals::default();
        for number in 0..1_000 {
            totals.answer(format!("{{\"title\":\"{number}\"}}").as_bytes());
        }
        assert_eq!(totals.problems.len(), PROBLEMS_MAX + 1);
        assert_eq!(totals.problems_total(), 1_000);
    }
}
