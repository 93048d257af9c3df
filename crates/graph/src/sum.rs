//! Checksums of what is stored: LMDB has none of its own.
//!
//! Each block carries one over its table, its key and its ids, which is compared whenever the block
//! is read. The sum of all of them, and of all names, stands in the store's [`State`], which every
//! commit writes. So a block that is missing, or an old one in a new one's place, is found as well.
//! A sum of hashes is brought up to date with each change, without reading the rest.
//!
//! XXH3 (64 bits) is meant against accidents, not against an attacker who can write to the disk.
//! Cost: some 15 ns for a list of 15 ids.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::key::Key;
use super::replica_state::ReplicaState;

/// The tables whose entries are summed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Table {
    /// Subscribee to subscribers.
    Followers,
    /// Subscriber to subscribees.
    Following,
    /// Id of a name to its text.
    Names,
}

impl Table {
    pub(super) const ALL: [Table; 3] = [Table::Followers, Table::Following, Table::Names];

    /// Its name in the file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Followers => "followers",
            Table::Following => "following",
            Table::Names => "names",
        }
    }
}

/// The hash of a block's `body` under `key`.
pub(super) fn of_block(table: Table, key: &Key, body: &[u8]) -> u64 {
    xxh3_64_with_seed(body, xxh3_64_with_seed(key, table as u64))
}

/// The hash of a name under its id.
pub(super) fn of_name(id: &[u8], name: &[u8]) -> u64 {
    xxh3_64_with_seed(name, xxh3_64_with_seed(id, Table::Names as u64))
}

/// The sums of all hashes of each table.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct Sums([u64; Table::ALL.len()]);

impl Sums {
    pub(super) fn add(&mut self, table: Table, hash: u64) {
        let sum = &mut self.0[table as usize];
        *sum = sum.wrapping_add(hash);
    }

    pub(super) fn remove(&mut self, table: Table, hash: u64) {
        let sum = &mut self.0[table as usize];
        *sum = sum.wrapping_sub(hash);
    }

    pub(super) fn of(&self, table: Table) -> u64 {
        self.0[table as usize]
    }
}

/// What a commit says about the whole store.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(super) struct State {
    /// LMDB's number of the transaction that wrote it: a damaged head of the file cannot pass an
    /// older state off as the newest.
    pub(super) transaction: u64,
    /// Stored pairs.
    pub(super) subscriptions: u64,
    pub(super) sums: Sums,
    /// Where a replica stands; `None` in a store that is its own record.
    pub(super) replica: Option<ReplicaState>,
}

const STATE_NUMBERS: usize = 2 + Table::ALL.len();

impl State {
    /// As it is stored: its numbers, little-endian, and their checksum. `names_key` is stored
    /// beside it and has no checksum of its own.
    pub(super) fn to_bytes(self, names_key: &[u8]) -> Vec<u8> {
        let mut bytes = self.numbers();
        bytes.extend(self.digest(names_key).to_le_bytes());
        assert!(
            State::from_bytes(&bytes, names_key) == Some(self),
            "the store would be taken for damaged when it is opened again"
        );
        bytes
    }

    /// `None` when the checksum is another one.
    pub(super) fn from_bytes(bytes: &[u8], names_key: &[u8]) -> Option<State> {
        let (numbers, rest) = bytes.as_chunks();
        let mut numbers = numbers.iter().map(|&number| u64::from_le_bytes(number));
        let mut next = || numbers.next();
        let mut state = State {
            transaction: next()?,
            subscriptions: next()?,
            sums: Sums([next()?, next()?, next()?]),
            replica: None,
        };
        if bytes.len() > 8 * (STATE_NUMBERS + 1) {
            state.replica = Some(ReplicaState::from_numbers([
                next()?,
                next()?,
                next()?,
                next()?,
                next()?,
                next()?,
                next()?,
            ]));
        }
        let sound = next()? == state.digest(names_key) && next().is_none() && rest.is_empty();
        sound.then_some(state)
    }

    /// One number that stands for the state, and so for the whole store.
    pub(super) fn digest(self, names_key: &[u8]) -> u64 {
        xxh3_64_with_seed(&self.numbers(), xxh3_64(names_key))
    }

    fn numbers(self) -> Vec<u8> {
        let Sums([followers, following, names]) = self.sums;
        let own = [self.transaction, self.subscriptions, followers, following, names];
        let replica = self.replica.map(ReplicaState::to_numbers);
        own.into_iter().chain(replica.into_iter().flatten()).flat_map(u64::to_le_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_with_any_bit_changed_is_refused() {
        let mut state = State { transaction: 7, subscriptions: 3, ..State::default() };
        state.sums.add(Table::Following, 5);
        state.sums.remove(Table::Names, 1);
        for replica in [None, Some(ReplicaState::from_numbers([1, 2, 3, 4, 5, 6, 7]))] {
            state.replica = replica;
            let bytes = state.to_bytes(b"key");
            assert_eq!(State::from_bytes(&bytes, b"key"), Some(state));
            assert_eq!(State::from_bytes(&bytes, b"kex"), None);
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(State::from_bytes(&damaged, b"key"), None, "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert_eq!(State::from_bytes(&bytes[..length], b"key"), None, "{length} bytes");
            }
        }
    }

    #[test]
    fn block_in_another_place_has_another_hash() {
        let hash = of_block(Table::Followers, &[1; 16], b"body");
        assert_ne!(hash, of_block(Table::Following, &[1; 16], b"body"));
        assert_ne!(hash, of_block(Table::Followers, &[2; 16], b"body"));
        assert_ne!(hash, of_block(Table::Followers, &[1; 16], b"bodz"));
    }
}
