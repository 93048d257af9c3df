//! What one connection of `spam` counts, and how others get to see it.

use std::collections::BTreeMap;

use figures::latency::Latencies;

/// Problems that are told apart; those beyond are counted together.
const PROBLEMS_MAX: usize = 20;

/// Counts since the start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpamTotals {
    /// Events sent.
    pub sent: u64,
    /// Events that the server answered, well or not.
    pub answered: u64,
    /// Events that were sent too long after their time.
    pub late: u64,
    /// Answers that told a count of which only the lower bound is known.
    pub at_least: u64,
    /// Sum of the deliveries that the server's answers told.
    pub delivered: u64,
    /// Answers that were problems, by their title.
    pub problems: BTreeMap<String, u64>,
    /// When the last one was, nanoseconds on the monotonic clock.
    pub sent_until_ns: u64,
    /// Bytes sent.
    pub bytes: u64,
    /// Processor time of the threads, nanoseconds.
    pub cpu_ns: u64,
}

impl SpamTotals {
    /// Events that the server refused.
    pub fn problems_total(&self) -> u64 {
        self.problems.values().sum()
    }

    pub(super) fn add(&mut self, other: &SpamTotals) {
        self.sent += other.sent;
        self.answered += other.answered;
        self.delivered += other.delivered;
        self.late += other.late;
        self.at_least += other.at_least;
        self.sent_until_ns = self.sent_until_ns.max(other.sent_until_ns);
        self.bytes += other.bytes;
        self.cpu_ns += other.cpu_ns;
        for (title, count) in &other.problems {
            *self.problems.entry(title.clone()).or_default() += count;
        }
    }

    /// Counts one answer of the API: `{"delivered":n,…}` or a problem.
    pub(super) fn answer(&mut self, json: &[u8]) {
        match delivered(json) {
            Some(count) => {
                self.answered += 1;
                self.delivered += count;
            }
            None => self.unusual(json),
        }
    }

    /// An answer in other words than Encke's own: it may be a count all the same.
    #[cold]
    fn unusual(&mut self, json: &[u8]) {
        let answer: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
        let count = answer["delivered"].as_u64();
        let is_problem = answer.get("status").is_some() || answer.get("title").is_some();
        let Some(count) = count.filter(|_| !is_problem) else {
            return self.problem(&answer, "an answer that is no JSON of the API");
        };
        self.answered += 1;
        self.delivered += count;
        self.at_least += u64::from(answer["at_least"] == true);
    }

    /// Counts an answer whose status says that the event was not taken.
    #[cold]
    pub(super) fn refusal(&mut self, status: u16, json: &[u8]) {
        let answer: serde_json::Value = serde_json::from_slice(json).unwrap_or_default();
        self.problem(&answer, &format!("status {status}"));
    }

    fn problem(&mut self, answer: &serde_json::Value, otherwise: &str) {
        self.answered += 1;
        let mut title = answer["title"].as_str().unwrap_or(otherwise);
        if self.problems.len() >= PROBLEMS_MAX && !self.problems.contains_key(title) {
            title = "other";
        }
        *self.problems.entry(title.to_owned()).or_default() += 1;
        debug_assert!(self.problems.len() <= PROBLEMS_MAX + 1, "titles come from the server");
    }
}

/// The count in exactly `{"delivered":n,"id":"…"}`, without a JSON parser: one such line comes for
/// each event.
fn delivered(json: &[u8]) -> Option<u64> {
    let rest = json.trim_ascii_end().strip_prefix(b"{\"delivered\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (count, rest) = rest.split_at(digits);
    let id = rest.strip_prefix(b",\"id\":\"")?.strip_suffix(b"\"}")?;
    let is_id = id.iter().all(u8::is_ascii_alphanumeric);
    std::str::from_utf8(count).ok().filter(|_| is_id)?.parse().ok()
}

/// What one side of a connection, writer or reader, has published.
#[derive(Debug, Default)]
pub(super) struct SpamPublished {
    pub(super) totals: SpamTotals,
    /// From the intended time to the answer, since somebody took them last.
    pub(super) latencies: Latencies,
    /// From the intended time to the write, likewise.
    pub(super) behind: Latencies,
    /// Why the connection ended before its time.
    pub(super) failure: Option<String>,
    /// Whether it was told to stop before all was sent.
    pub(super) stopped: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_what_they_say() {
        let mut totals = SpamTotals::default();
        totals.answer(br#"{"delivered":2,"id":"0193"}"#);
        totals.answer(br#"{"id":"0193", "delivered": 40}"#);
        totals.answer(br#"{"type":"errors#bad-id","title":"Bad id","status":400}"#);
        totals.answer(br#"{"delivered":"many"}"#);
        assert_eq!((totals.answered, totals.delivered, totals.problems_total()), (4, 42, 2));
        assert_eq!(totals.problems["Bad id"], 1);
        // No count of a problem is one, nor is a number that does not fit.
        totals.answer(br#"{"delivered":7,"title":"Mailbox full","status":503}"#);
        totals.answer(br#"{"delivered":99999999999999999999,"id":"1"}"#);
        totals.answer(br#"{"delivered":5,"id":"1","id":"2"}"#);
        totals.answer(br#"{"delivered":3,"at_least":true,"id":"1"}"#);
        totals.refusal(502, br#"{"delivered":7,"id":"1"}"#);
        assert_eq!((totals.answered, totals.delivered, totals.at_least), (9, 50, 1));
        assert_eq!((totals.problems_total(), totals.problems["status 502"]), (5, 1));
    }

    #[test]
    fn titles_are_bounded() {
        let mut totals = SpamTotals::default();
        for number in 0..1_000 {
            totals.answer(format!("{{\"title\":\"{number}\"}}").as_bytes());
        }
        assert_eq!(totals.problems.len(), PROBLEMS_MAX + 1);
        assert_eq!(totals.problems_total(), 1_000);
    }
}
