//! When a certificate is asked for again after a try that failed, and by which proof.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::Proof;

/// Between two tries that fail.
const PAUSES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_secs(120))
    .with_max_delay(Duration::from_secs(6 * 3600))
    .without_max_times()
    .with_jitter();

/// Before a try that failed by a number of the directory's own is made again, the first time.
const NONCE_PAUSE: Duration = Duration::from_secs(1);

/// Tries in a row that fail so and count for no refusal: a directory that takes none of its own
/// numbers is as good as one that refuses.
const NONCE_TRIES: u32 = 5;

/// What the next try is by, and what those before came to.
pub(super) struct Turns {
    turn: usize,
    /// Tries in a row that failed by a number of the directory's own.
    stale: u32,
    pauses: ExponentialBackoff,
}

impl Turns {
    pub(super) fn new() -> Turns {
        Turns { turn: 0, stale: 0, pauses: PAUSES.build() }
    }

    pub(super) fn proof(&self, proofs: &[Proof]) -> Proof {
        proofs[self.turn % proofs.len()]
    }

    /// A try failed. The time until the next one.
    pub(super) fn refused(&mut self) -> Duration {
        self.stale = 0;
        self.turn += 1;
        self.pauses.next().expect("there is always another try")
    }

    /// A try failed by a number of the directory's own, which is no refusal and is to be tried
    /// again (RFC 8555, section 6.5): by the proof that it was. The time until then, if it is soon.
    pub(super) fn stale(&mut self) -> Option<Duration> {
        self.stale += 1;
        (self.stale <= NONCE_TRIES).then_some(NONCE_PAUSE * self.stale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROOFS: [Proof; 2] = [Proof::TlsAlpn, Proof::Http];

    #[test]
    fn number_of_the_directory_that_has_gone_by_is_no_refusal() {
        let mut turns = Turns::new();
        for tries in 1..=NONCE_TRIES {
            assert_eq!(turns.stale(), Some(NONCE_PAUSE * tries));
            assert_eq!(turns.proof(&PROOFS), Proof::TlsAlpn, "nobody has refused it");
        }
        assert_eq!(turns.stale(), None, "it takes none of its numbers");
        assert!(turns.refused() >= Duration::from_secs(120));
        assert_eq!(turns.proof(&PROOFS), Proof::Http);
        assert_eq!(turns.stale(), Some(NONCE_PAUSE), "that begins anew");
    }

    #[test]
    fn tries_that_are_refused_take_turns_and_time() {
        let mut turns = Turns::new();
        let pauses: Vec<Duration> = (0..12).map(|_| turns.refused()).collect();
        assert!(pauses[0] >= Duration::from_secs(120) && pauses[0] <= Duration::from_secs(240));
        assert!(pauses[11] >= Duration::from_secs(6 * 3600), "{pauses:?}");
        assert_eq!(turns.proof(&PROOFS), Proof::TlsAlpn);
        turns.refused();
        assert_eq!(turns.proof(&PROOFS), Proof::Http);
    }
}
