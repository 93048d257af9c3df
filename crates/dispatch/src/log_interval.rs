//! What may happen ten times a second for hours is logged once a minute, with how often it was not.

use std::time::Duration;

use tokio::time::Instant;

/// The time from one line to the next.
const INTERVAL: Duration = Duration::from_secs(60);

/// When to log something that happens again and again.
#[derive(Debug, Default)]
pub struct LogInterval {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogInterval {
    /// Whether to log what happens at `now`, and how often it has happened since the last line.
    pub fn due(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now < last + INTERVAL) {
            self.suppressed += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_time_is_logged_at_once_and_the_others_as_a_number() {
        let (mut interval, start) = (LogInterval::default(), Instant::now());
        assert_eq!(interval.due(start), Some(0));
        for tenths in 1..600 {
            assert_eq!(interval.due(start + Duration::from_millis(100 * tenths)), None);
        }
        assert_eq!(interval.due(start + INTERVAL), Some(599));
        assert_eq!(interval.due(start + INTERVAL), None);
    }
}
