//! The line that a run shows each second. It fits a terminal of 80 columns: what does not fit any
//! more is left out, the least of it first.

use figures::latency::Quantiles;
use figures::numbers::{bytes, short};

use crate::flood::FloodSnapshot;
use crate::spam::SpamSnapshot;

/// Columns of the narrowest terminal that people use.
const COLUMNS_MAX: usize = 80;

/// A line that is put together, what counts most first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveText(String);

impl LiveText {
    /// Adds `part` if there is room.
    pub fn part(mut self, part: impl AsRef<str>) -> LiveText {
        let gap = if self.0.is_empty() { "" } else { "  " };
        let columns = |text: &str| text.chars().count();
        if columns(&self.0) + gap.len() + columns(part.as_ref()) <= COLUMNS_MAX {
            self.0 += gap;
            self.0 += part.as_ref();
        }
        self
    }

    /// Adds those of `counts` that are not zero.
    pub fn counts(self, counts: &[(&str, u64)]) -> LiveText {
        let some = counts.iter().filter(|(_, count)| *count > 0);
        some.fold(self, |line, (name, count)| line.part(format!("{name} {}", short(*count))))
    }

    /// Adds how long half of all took, and all but one of a hundred.
    pub fn latency(self, name: &str, latency: &Quantiles) -> LiveText {
        match latency.count {
            0 => self,
            _ => {
                let (half, most) = (digits(latency.p50_ms), digits(latency.p99_ms));
                self.part(format!("{name}p50/p99 {half}/{most} ms"))
            }
        }
    }

    /// The whole.
    pub fn end(self) -> String {
        self.0
    }
}

/// Milliseconds with three digits that count, or more before the point.
fn digits(ms: f64) -> String {
    let decimals = match ms {
        100.0.. => 0,
        10.0.. => 1,
        _ => 2,
    };
    format!("{ms:.decimals$}")
}

fn per_second(more: u64, seconds: f64) -> String {
    short((more as f64 / seconds.max(1e-3)).round() as u64)
}

/// The line of a second: counts since the start, the rate and the latencies of the last second.
pub fn flood_line(snapshot: &FloodSnapshot, before: &FloodSnapshot) -> String {
    let (now, then) = (&snapshot.totals, &before.totals);
    let rate = per_second(now.events - then.events, snapshot.seconds - before.seconds);
    LiveText::default()
        .part(format!("{:5.0} s", snapshot.seconds))
        .part(format!("open {}", short(now.open())))
        .part(format!("events {} ({rate}/s)", short(now.events)))
        .counts(&[
            ("failed", now.failed_total()),
            ("closed", now.closed_total()),
            ("missing", now.missing()),
            ("doubled", now.doubled),
            ("overtaken", now.overtaken),
        ])
        .latency("", &snapshot.latency)
        .part(bytes(now.bytes))
        .end()
}

/// The line of `spam`, as [`flood_line`] has it.
pub fn spam_line(snapshot: &SpamSnapshot, before: &SpamSnapshot) -> String {
    let (now, then) = (&snapshot.totals, &before.totals);
    let rate = per_second(now.sent - then.sent, snapshot.seconds - before.seconds);
    LiveText::default()
        .part(format!("{:5.0} s", snapshot.seconds))
        .part(format!("sent {} ({rate}/s)", short(now.sent)))
        .part(format!("delivered {}", short(now.delivered)))
        .counts(&[("problems", now.problems_total()), ("late", now.late)])
        .latency("", &snapshot.answer)
        .counts(&[("unanswered", now.sent.saturating_sub(now.answered))])
        .part(bytes(now.bytes))
        .end()
}
