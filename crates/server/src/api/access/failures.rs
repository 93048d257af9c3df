//! How often wrong keys may come from an address.
//!
//! The first few are answered at once: somebody mistypes, or a service was not told of its new key.
//! After that each answer has its turn, four a second, and a right key is answered at once all the
//! while. A service with an old key must not lock its neighbour out. Who has more waiting than a
//! few is not heard at all, so no more are tried a second than have a turn, by however many
//! connections.
//!
//! It is the generic cell rate algorithm (ITU-T I.371): one moment for each address, at which all
//! that it has done will be paid for.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time from one turn to the next.
const TURN: Duration = Duration::from_millis(250);

/// Failures that are answered at once.
const AT_ONCE: u32 = 10;

/// Answers that may wait for their turn: the last of them for 2 s. So many places of the API may
/// one address take with them.
const WAITING: u32 = 8;

/// Addresses that are remembered, 4,096 of 48 bytes. Past it that one is forgotten which has the
/// least to pay for.
const ADDRESSES_MAX: usize = 4096;

/// Addresses from which wrong keys came.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<IpAddr, Instant>>);

impl Failures {
    /// Whether nothing that comes from `peer` is to be looked at.
    pub(super) fn is_full(&self, peer: IpAddr, now: Instant) -> bool {
        let paid =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&network(peer)).copied();
        paid.is_some_and(|paid| paid > now + TURN * (AT_ONCE + WAITING - 1))
    }

    /// Remembers a failure; when to answer it.
    pub(super) fn record(&self, peer: IpAddr, now: Instant) -> Instant {
        let network = network(peer);
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= ADDRESSES_MAX && !table.contains_key(&network) {
            table.retain(|_, paid| *paid > now);
            let least = table.iter().min_by_key(|(_, paid)| **paid).map(|(network, _)| *network);
            if let Some(least) = least.filter(|_| table.len() >= ADDRESSES_MAX) {
                table.remove(&least);
            }
        }
        let paid = table.entry(network).or_insert(now);
        *paid = (*paid).max(now) + TURN;
        debug_assert!(*paid > now, "whoever fails pays for it");
        paid.checked_sub(TURN * AT_ONCE).map_or(now, |turn| turn.max(now))
    }
}

/// What stands for one who has `address`: of IPv6 everybody has at least a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_slowed_and_then_not_heard_until_they_are_paid_for() {
        let (failures, start) = (Failures::default(), Instant::now());
        let (peer, other) = (address("127.0.0.2"), address("127.0.0.3"));
        for _ in 0..AT_ONCE {
            assert_eq!(failures.record(peer, start), start);
        }
        for waiting in 1..=WAITING {
            assert!(!failures.is_full(peer, start));
            assert_eq!(failures.record(peer, start), start + TURN * waiting);
        }
        assert!(failures.is_full(peer, start));
        assert!(!failures.is_full(other, start));
        assert_eq!(failures.record(other, start), start);
        assert!(!failures.is_full(peer, start + TURN), "one turn is over");
        let later = start + TURN * (AT_ONCE + WAITING);
        assert_eq!(failures.record(peer, later), later, "all is paid for");
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_bounded_and_who_has_done_most_is_not_forgotten() {
        let (failures, now) = (Failures::default(), Instant::now());
        let worst = address("2001:db8::1");
        for _ in 0..AT_ONCE + WAITING {
            failures.record(worst, now);
        }
        for number in 0..2 * ADDRESSES_MAX as u32 {
            failures.record(IpAddr::V4(number.into()), now);
        }
        assert_eq!(failures.0.lock().unwrap().len(), ADDRESSES_MAX);
        assert!(failures.is_full(address("2001:db8::2"), now), "it is the same /64");
        assert!(!failures.is_full(address("2001:db8:0:1::1"), now));
    }
}
