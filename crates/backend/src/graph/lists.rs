//! Sorted lists of ids on disk: who follows a subject, whom it follows.
//!
//! A list lies in blocks of at most [`BLOCK_IDS_MAX`] ids, packed as 8 little-endian bytes each,
//! ascending. A block's key is its subject and the lowest id that may stand in it, both big-endian,
//! so that LMDB's byte order is the order of the ids. The first block's lower bound is 0, whatever
//! its first id is. So a subject has a list exactly when the key `(subject, 0)` exists, and the
//! block that holds an id is the last one whose key is not above `(subject, id)`.
//!
//! Why not LMDB's own duplicates (`DUPSORT | DUPFIXED`): they read one id a call, cannot be entered
//! in the middle through a safe binding, and a bulk load makes 15 insertions a user instead of one.
//!
//! Cost: 26 bytes a block besides its ids. A typical list is one search in a tree four pages deep.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use heed::types::Bytes;
use heed::{BoxedError, BytesDecode, BytesEncode, Database, RoTxn, RwTxn};
use hub::Id;

/// The most ids a block holds: two full blocks and their keys fill a page of 4,096 bytes.
pub(super) const BLOCK_IDS_MAX: usize = 250;

const ID_BYTES: usize = size_of::<u64>();

/// One direction of the graph.
#[derive(Clone, Copy)]
pub(super) struct Lists(pub(super) Database<'static, BlockKey, Bytes>);

/// Subject and lower bound.
pub(super) type Key = [u8; 16];
/// One stored id.
type Packed = [u8; ID_BYTES];

/// How LMDB takes and gives a [`Key`]: as it is. Another length means a damaged file.
pub(super) enum BlockKey {}

impl<'a> BytesEncode<'a> for BlockKey {
    type EItem = Key;

    fn bytes_encode(key: &'a Key) -> Result<Cow<'a, [u8]>, BoxedError> {
        Ok(Cow::Borrowed(key))
    }
}

impl BytesDecode<'_> for BlockKey {
    type DItem = Key;

    fn bytes_decode(bytes: &[u8]) -> Result<Key, BoxedError> {
        Ok(bytes.try_into()?)
    }
}

impl Lists {
    /// Visits at most `limit` ids of `subject`'s list that stand after `after`, ascending; returns
    /// the last one visited when there are more.
    pub(super) fn slice(
        self,
        txn: &RoTxn<'_>,
        subject: Id,
        after: Option<Id>,
        limit: usize,
        mut visit: impl FnMut(Id),
    ) -> heed::Result<Option<Id>> {
        let start = match after {
            None => key(subject, 0),
            Some(id) => match self.block_of(txn, subject, id)? {
                Some((key, _)) => key,
                None => return Ok(None),
            },
        };
        let mut left = limit;
        let mut last = None;
        for entry in self.0.range(txn, &(start..=key(subject, u64::MAX)))? {
            let ids = packed(entry?.1);
            let skip = after.map_or(0, |id| ids.partition_point(|&bytes| unpack(bytes) <= id));
            for &bytes in &ids[skip..] {
                if left == 0 {
                    return Ok(last);
                }
                let id = unpack(bytes);
                visit(id);
                last = Some(id);
                left -= 1;
            }
        }
        Ok(None)
    }

    /// How many ids `subject`'s list has. Reads one key per block, not the ids.
    pub(super) fn count(self, txn: &RoTxn<'_>, subject: Id) -> heed::Result<u64> {
        let mut bytes = 0;
        for entry in self.0.range(txn, &all(subject))? {
            bytes += entry?.1.len();
        }
        Ok((bytes / ID_BYTES) as u64)
    }

    /// Whether `subject` has a list at all.
    pub(super) fn has(self, txn: &RoTxn<'_>, subject: Id) -> heed::Result<bool> {
        Ok(self.0.get(txn, &key(subject, 0))?.is_some())
    }

    /// Puts `id` into `subject`'s list; false when it was there. `scratch` is overwritten.
    pub(super) fn insert(
        self,
        txn: &mut RwTxn<'_>,
        subject: Id,
        id: Id,
        scratch: &mut Vec<u8>,
    ) -> heed::Result<bool> {
        let Some((place, block)) = self.block_of(txn, subject, id)? else {
            self.0.put(txn, &key(subject, 0), &pack(id))?;
            return Ok(true);
        };
        let ids = packed(block);
        let Err(at) = find(ids, id) else { return Ok(false) };
        if ids.len() == BLOCK_IDS_MAX && at == ids.len() {
            // Ids that come in ascending order fill their blocks to the brim.
            self.0.put(txn, &key(subject, id.to_bits()), &pack(id))?;
            return Ok(true);
        }
        copy(block, scratch);
        scratch.splice(at * ID_BYTES..at * ID_BYTES, pack(id));
        if ids.len() == BLOCK_IDS_MAX {
            let upper = scratch.split_off(BLOCK_IDS_MAX / 2 * ID_BYTES);
            let low = unpack(packed(&upper)[0]).to_bits();
            self.0.put(txn, &key(subject, low), &upper)?;
        }
        self.0.put(txn, &place, scratch)?;
        Ok(true)
    }

    /// Takes `id` out of `subject`'s list; false when it was not there. `scratch` is overwritten.
    pub(super) fn remove(
        self,
        txn: &mut RwTxn<'_>,
        subject: Id,
        id: Id,
        scratch: &mut Vec<u8>,
    ) -> heed::Result<bool> {
        let Some((place, block)) = self.block_of(txn, subject, id)? else { return Ok(false) };
        let Ok(at) = find(packed(block), id) else { return Ok(false) };
        copy(block, scratch);
        scratch.drain(at * ID_BYTES..(at + 1) * ID_BYTES);
        if !scratch.is_empty() {
            self.0.put(txn, &place, scratch)?;
            return Ok(true);
        }
        // The first block must stay while there is another one: that one takes its place.
        let first = place == key(subject, 0);
        let next = if first { self.0.get_greater_than(txn, &place)? } else { None };
        if let Some((next, block)) = next.filter(|(next, _)| subject_of(next) == subject) {
            copy(block, scratch);
            self.0.delete(txn, &next)?;
            self.0.put(txn, &place, scratch)?;
        } else {
            self.0.delete(txn, &place)?;
        }
        Ok(true)
    }

    /// The block of `subject` in which `id` stands or would stand, and its key.
    fn block_of<'txn>(
        self,
        txn: &'txn RoTxn<'_>,
        subject: Id,
        id: Id,
    ) -> heed::Result<Option<(Key, &'txn [u8])>> {
        let found = self.0.get_lower_than_or_equal_to(txn, &key(subject, id.to_bits()))?;
        Ok(found.filter(|(place, _)| subject_of(place) == subject))
    }
}

fn key(subject: Id, low: u64) -> Key {
    (u128::from(subject.to_bits()) << 64 | u128::from(low)).to_be_bytes()
}

fn all(subject: Id) -> RangeInclusive<Key> {
    key(subject, 0)..=key(subject, u64::MAX)
}

fn subject_of(key: &Key) -> Id {
    Id::from_bits((u128::from_be_bytes(*key) >> 64) as u64)
}

fn pack(id: Id) -> Packed {
    id.to_bits().to_le_bytes()
}

fn unpack(bytes: Packed) -> Id {
    Id::from_bits(u64::from_le_bytes(bytes))
}

fn packed(block: &[u8]) -> &[Packed] {
    block.as_chunks().0
}

fn find(ids: &[Packed], id: Id) -> Result<usize, usize> {
    ids.binary_search_by(|&bytes| unpack(bytes).cmp(&id))
}

fn copy(block: &[u8], scratch: &mut Vec<u8>) {
    scratch.clear();
    scratch.extend_from_slice(block);
}
