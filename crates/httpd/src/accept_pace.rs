//! How fast connections are accepted: a client that opens thousands at one time keeps its own
//! waiting, and nobody else's requests.
//!
//! The runtime serves tasks in their order, and a new connection costs it about 50 µs. Thousands in
//! a row would be before everybody else for some tenths of a second.

use std::time::Duration;

use tokio::time::Instant;

/// How many connections are accepted in a row.
const ACCEPTS: usize = 8;

/// How many handshakes of TLS begin in a row: with a key of P-256 four take 0.3 ms, with one of
/// RSA-2048 1.5 ms.
const HANDSHAKES: usize = 4;

/// How long the others have the thread then, and how far apart two are that are not in a row.
const REST: Duration = Duration::from_millis(1);

/// When to rest from accepting.
#[derive(Debug)]
pub struct AcceptPace {
    last: Option<Instant>,
    in_a_row: usize,
    in_a_row_max: usize,
}

impl AcceptPace {
    /// The pace of connections.
    pub fn of_accepts() -> AcceptPace {
        AcceptPace { last: None, in_a_row: 0, in_a_row_max: ACCEPTS }
    }

    /// The pace of handshakes, which cost more.
    pub fn of_handshakes() -> AcceptPace {
        AcceptPace { in_a_row_max: HANDSHAKES, ..AcceptPace::of_accepts() }
    }

    /// A connection was accepted at `now`: how long to rest before the next one, if at all.
    pub fn accepted(&mut self, now: Instant) -> Option<Duration> {
        debug_assert!(self.in_a_row < self.in_a_row_max, "others were to have their turn");
        let is_next = self.last.is_some_and(|last| now < last + REST);
        self.last = Some(now);
        self.in_a_row = if is_next { self.in_a_row + 1 } else { 1 };
        if self.in_a_row < self.in_a_row_max {
            return None;
        }
        self.in_a_row = 0;
        Some(REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_at_once_are_accepted_a_few_a_millisecond_and_one_by_one_at_once() {
        let (mut pace, start) = (AcceptPace::of_accepts(), Instant::now());
        let mut now = start;
        for n in 1..=4096 {
            let rest = pace.accepted(now);
            assert_eq!(rest.is_some(), n % ACCEPTS == 0, "{n}");
            now += rest.unwrap_or_default();
        }
        assert_eq!(now - start, 4096 / ACCEPTS as u32 * REST);
        for _ in 0..100 {
            now += REST;
            assert_eq!(pace.accepted(now), None);
        }
    }
}
