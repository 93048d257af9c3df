//! Connection ids: what a connection is called where it is spoken of outside, so that an event can
//! leave it out.
//!
//! An id is computed from the connection's reference, so it costs no byte. It is a permutation of
//! 64 bits under keys of the process, a Feistel network of four rounds with SipHash-1-3 as their
//! function. Without the keys nobody tells it from one drawn by lot (Luby and Rackoff, 1988). So
//! two connections of a process never have the same id, of those of several processes it is as
//! unlikely as of random ones, and no client guesses another's. Cost: four short hashes, about 50
//! ns.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU64;

use siphasher::sip::SipHasher13;

use crate::conn_ref::ConnRef;

/// What a connection is called outside. As text 16 digits, `0` to `9` and `a` to `f`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ConnectionId(NonZeroU64);

/// The connections that do not hear an event: none, one or two.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeftOut([Option<ConnectionId>; LeftOut::MAX]);

/// What ids are computed by: all workers of a process have the same.
#[derive(Clone, Copy)]
pub struct ConnectionIds(u64, u64);

const _: () = assert!(size_of::<Option<ConnectionId>>() == 8);

/// Rounds of the network.
const ROUNDS: u8 = 4;

/// The top bit, which no reference has: with it the number of a reference is never 0.
const REFERENCE: u64 = 1 << 63;

impl ConnectionId {
    /// Digits of an id as text.
    pub const DIGITS: usize = 16;

    /// The id that `text` is; `None` of what is no connection's.
    pub fn parse(text: &str) -> Option<ConnectionId> {
        let is_digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let is_one = text.len() == Self::DIGITS && text.bytes().all(is_digit);
        let bits = is_one.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        bits.and_then(Self::of_bits)
    }

    /// It as a number.
    pub fn bits(self) -> u64 {
        self.0.get()
    }

    /// The id with this number; `None` of 0, which none has.
    pub fn of_bits(bits: u64) -> Option<ConnectionId> {
        NonZeroU64::new(bits).map(ConnectionId)
    }
}

impl LeftOut {
    /// The most there are: who sends an event, and another one.
    pub const MAX: usize = 2;

    /// Nobody.
    pub const NOBODY: LeftOut = LeftOut([None; LeftOut::MAX]);

    /// These and `id`, which counts once. Where there are two already it is left aside.
    #[must_use]
    pub fn and(mut self, id: ConnectionId) -> LeftOut {
        if !self.has(id)
            && let Some(place) = self.0.iter_mut().find(|place| place.is_none())
        {
            *place = Some(id);
        }
        self
    }

    /// Each of them, in the order in which they were given.
    pub fn iter(self) -> impl Iterator<Item = ConnectionId> {
        self.0.into_iter().flatten()
    }

    /// Whether `id` is one of them.
    pub fn has(self, id: ConnectionId) -> bool {
        self.0.contains(&Some(id))
    }

    /// Whether that is nobody.
    pub fn is_nobody(self) -> bool {
        self == LeftOut::NOBODY
    }

    /// How many they are.
    pub fn count(self) -> usize {
        self.iter().count()
    }
}

impl FromIterator<ConnectionId> for LeftOut {
    /// The first two that differ.
    fn from_iter<I: IntoIterator<Item = ConnectionId>>(ids: I) -> LeftOut {
        ids.into_iter().fold(LeftOut::NOBODY, LeftOut::and)
    }
}

impl From<Option<ConnectionId>> for LeftOut {
    fn from(id: Option<ConnectionId>) -> LeftOut {
        id.into_iter().collect()
    }
}

impl From<ConnectionId> for LeftOut {
    fn from(id: ConnectionId) -> LeftOut {
        Some(id).into()
    }
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl ConnectionIds {
    /// Ids that nobody can foretell.
    pub fn random() -> ConnectionIds {
        let random = RandomState::new();
        ConnectionIds(random.hash_one(0_u8), random.hash_one(1_u8))
    }

    /// The id of the connection that is at `conn`.
    pub fn id(&self, conn: ConnRef) -> ConnectionId {
        let bits = self.permute(conn.to_bits() | REFERENCE);
        // The one number that comes to 0 takes the place of 0.
        let bits = if bits == 0 { self.permute(0) } else { bits };
        ConnectionId(NonZeroU64::new(bits).expect("only one number comes to 0"))
    }

    /// Where the connection with this id is, if these are the ids that it is one of.
    pub fn conn(&self, id: ConnectionId) -> Option<ConnRef> {
        let bits = self.permute_back(id.bits());
        let bits = if bits == 0 { self.permute_back(0) } else { bits };
        (bits & REFERENCE != 0).then(|| ConnRef::from_bits(bits & !REFERENCE))
    }

    fn permute(&self, bits: u64) -> u64 {
        let step = |(left, right), round| (right, left ^ self.round(round, right));
        join((0..ROUNDS).fold(split(bits), step))
    }

    fn permute_back(&self, bits: u64) -> u64 {
        let step = |(left, right), round| (right ^ self.round(round, left), left);
        join((0..ROUNDS).rev().fold(split(bits), step))
    }

    fn round(&self, round: u8, half: u32) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        hasher.write_u64(u64::from(round) << 32 | u64::from(half));
        hasher.finish() as u32
    }
}

fn split(bits: u64) -> (u32, u32) {
    ((bits >> 32) as u32, bits as u32)
}

fn join((left, right): (u32, u32)) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn id_leads_back_to_its_connection_and_no_two_have_the_same() {
        let (ids, others) = (ConnectionIds::random(), ConnectionIds::random());
        let mut seen = HashSet::new();
        let generations = [0, 1, ConnRef::GENERATIONS - 1];
        for worker in [0, 1, ConnRef::WORKERS_MAX - 1] {
            for slot in (0..300).chain([ConnRef::SLOTS_MAX - 1]) {
                for generation in generations {
                    let conn = ConnRef::new(worker, slot, generation);
                    let id = ids.id(conn);
                    assert!(seen.insert(id), "{conn:?}");
                    assert_eq!(ids.conn(id), Some(conn));
                    assert_ne!(others.id(conn), id, "it depends on the keys");
                }
            }
        }
    }

    #[test]
    fn number_that_no_reference_has_is_at_no_place() {
        let ids = ConnectionIds::random();
        let found = (1..1_000).filter_map(ConnectionId::of_bits).filter(|&id| {
            let conn = ids.conn(id);
            assert!(conn.is_none_or(|conn| ids.id(conn) == id));
            conn.is_some()
        });
        // Half of all numbers are of a reference that there could be.
        assert!((350..650).contains(&found.count()));
        let zero = ids.permute_back(0);
        assert_eq!(ids.permute(zero), 0);
    }

    #[test]
    fn two_at_most_are_left_out_and_each_once() {
        let [a, b, c] = [1, 2, 3].map(|bits| ConnectionId::of_bits(bits).unwrap());
        let left_out = |ids: &[ConnectionId]| ids.iter().copied().collect::<LeftOut>();
        assert!(left_out(&[]).is_nobody() && !LeftOut::from(a).is_nobody());
        assert_eq!(left_out(&[a, a]), LeftOut::from(a));
        assert!(left_out(&[b, a, b]).iter().eq([b, a]));
        assert!(left_out(&[a, b, c]).iter().eq([a, b]));
        assert!(left_out(&[a, b]).has(b) && !left_out(&[a, b]).has(c));
        assert_eq!([&[][..], &[a], &[a, b]].map(|ids| left_out(ids).count()), [0, 1, 2]);
    }

    #[test]
    fn text_is_sixteen_small_digits() {
        let id = ConnectionId::of_bits(0xab).unwrap();
        assert_eq!(id.to_string(), "00000000000000ab");
        assert_eq!(ConnectionId::parse("00000000000000ab"), Some(id));
        for text in ["", "ab", "00000000000000AB", "0000000000000000", "+0000000000000ab"] {
            assert_eq!(ConnectionId::parse(text), None, "{text}");
        }
        assert_eq!(ConnectionId::parse("000000000000000ab"), None);
        assert_eq!(ConnectionId::parse("00000000000000é"), None);
    }
}
