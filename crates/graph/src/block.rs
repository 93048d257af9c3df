//! The bytes of one block of a list: a checksum of 4 bytes (see [`super::sum`]), a flag, then up to
//! [`BLOCK_IDS_MAX`] ids, ascending, 8 little-endian bytes each. Its key is the subject and the
//! lowest id that may stand in it.
//!
//! The flag says whether further blocks may follow, so that a list of one block, as nearly all are,
//! is read with one search.

use std::borrow::Cow;

use heed::{BoxedError, BytesDecode, BytesEncode};
use hub::Id;
use thiserror::Error;

use super::key::Key;
use super::sum::{self, Table};

/// The most ids a block holds: two full blocks and their keys fill a page of 4,096 bytes.
pub(super) const BLOCK_IDS_MAX: usize = 250;

const SUM_BYTES: usize = size_of::<u32>();
const FLAG_BYTES: usize = 1;
/// Where the ids start.
const HEAD_BYTES: usize = SUM_BYTES + FLAG_BYTES;
const ID_BYTES: usize = size_of::<u64>();

const _: () = {
    // LMDB's page has a head of 16 bytes; an entry has one of 8, a key of two ids, and a pointer.
    let entry = HEAD_BYTES + BLOCK_IDS_MAX * ID_BYTES + 2 * ID_BYTES + 8 + 2;
    assert!(16 + 2 * entry <= 4096);
};

/// One stored id. Blocks are not aligned, so ids are unpacked one by one.
pub(super) type Packed = [u8; ID_BYTES];

fn pack(id: Id) -> Packed {
    id.to_bits().to_le_bytes()
}

pub(super) fn unpack(bytes: Packed) -> Id {
    Id::from_bits(u64::from_le_bytes(bytes))
}

/// A block as it is stored, whose checksum nobody has looked at yet.
#[derive(Clone, Copy)]
pub(super) struct Sealed<'txn>(pub(super) &'txn [u8]);

impl<'txn> Sealed<'txn> {
    /// The block, when it is the one that was stored in `table` under `key`.
    pub(super) fn open(self, table: Table, key: &Key) -> Result<Block<'txn>, BlockError> {
        let (sum, body) = self.0.split_first_chunk().ok_or(BlockError)?;
        let hash = sum::of_block(table, key, body);
        if hash as u32 != u32::from_le_bytes(*sum) {
            return Err(BlockError);
        }
        let (flag, ids) = body.split_first().ok_or(BlockError)?;
        let (ids, rest) = ids.as_chunks();
        if !rest.is_empty() || ids.is_empty() {
            return Err(BlockError);
        }
        Ok(Block { more: *flag != 0, ids, hash })
    }
}

/// A block is not the one that was stored.
#[derive(Clone, Copy, Debug, Error)]
#[error("a stored list does not match its checksum")]
pub(super) struct BlockError;

impl From<BlockError> for heed::Error {
    fn from(error: BlockError) -> heed::Error {
        heed::Error::Decoding(error.into())
    }
}

/// A block in place in the page cache.
#[derive(Clone, Copy)]
pub(super) struct Block<'txn> {
    /// Whether blocks of the same subject may follow. They need not: they may have been removed.
    pub(super) more: bool,
    pub(super) ids: &'txn [Packed],
    /// Its part of its table's sum.
    pub(super) hash: u64,
}

impl Block<'_> {
    /// Where `id` stands, or where it would.
    pub(super) fn find(&self, id: Id) -> Result<usize, usize> {
        self.ids.binary_search_by(|&bytes| unpack(bytes).cmp(&id))
    }
}

/// How LMDB takes a [`BlockBuf`] and gives a [`Sealed`] block.
pub(super) enum BlockCodec {}

impl<'a> BytesDecode<'a> for BlockCodec {
    type DItem = Sealed<'a>;

    fn bytes_decode(bytes: &'a [u8]) -> Result<Sealed<'a>, BoxedError> {
        Ok(Sealed(bytes))
    }
}

impl<'a> BytesEncode<'a> for BlockCodec {
    type EItem = BlockBuf;

    fn bytes_encode(block: &'a BlockBuf) -> Result<Cow<'a, [u8]>, BoxedError> {
        Ok(Cow::Borrowed(&block.0))
    }
}

/// A block to be written. Kept and refilled, so that writing allocates nothing.
#[derive(Default)]
pub(super) struct BlockBuf(Vec<u8>);

impl BlockBuf {
    /// Makes it a block of `ids`.
    pub(super) fn fill(&mut self, more: bool, ids: &[Id]) {
        self.start(more);
        self.0.extend(ids.iter().flat_map(|&id| pack(id)));
    }

    /// Makes it equal to a stored block.
    pub(super) fn copy(&mut self, block: &Block<'_>) {
        self.start(block.more);
        self.0.extend_from_slice(block.ids.as_flattened());
    }

    fn start(&mut self, more: bool) {
        self.0.clear();
        self.0.extend([0; SUM_BYTES]);
        self.0.push(u8::from(more));
    }

    /// Puts `id` before the one at place `at`.
    pub(super) fn insert(&mut self, at: usize, id: Id) {
        debug_assert!(at <= self.ids().len());
        let at = HEAD_BYTES + at * ID_BYTES;
        self.0.splice(at..at, pack(id));
    }

    pub(super) fn remove(&mut self, at: usize) {
        debug_assert!(at < self.ids().len() && self.ids().len() > 1, "a block is never empty");
        let at = HEAD_BYTES + at * ID_BYTES;
        self.0.drain(at..at + ID_BYTES);
    }

    /// Takes the ids from place `at` on into a block of their own; this one has more from now on.
    pub(super) fn split(&mut self, at: usize) -> BlockBuf {
        debug_assert!((1..self.ids().len()).contains(&at), "neither part may be empty");
        let upper = self.0.split_off(HEAD_BYTES + at * ID_BYTES);
        let more = std::mem::replace(&mut self.0[SUM_BYTES], 1);
        BlockBuf([&[0; SUM_BYTES], [more].as_slice(), upper.as_slice()].concat())
    }

    fn ids(&self) -> &[Packed] {
        self.0[HEAD_BYTES..].as_chunks().0
    }

    pub(super) fn first(&self) -> Option<Id> {
        self.0[HEAD_BYTES..].first_chunk().map(|&bytes| unpack(bytes))
    }

    /// Writes the checksum, the last step before it is stored in `table` under `key`; returns its
    /// part of the table's sum.
    pub(super) fn seal(&mut self, table: Table, key: &Key) -> u64 {
        assert!(
            !self.ids().is_empty() && self.0.len() == HEAD_BYTES + self.ids().len() * ID_BYTES,
            "a block of {} bytes would never be read again",
            self.0.len()
        );
        debug_assert!(self.ids().len() <= BLOCK_IDS_MAX);
        debug_assert!(
            self.ids().is_sorted_by(|&one, &next| unpack(one) < unpack(next)),
            "ids are searched for in a block"
        );
        let hash = sum::of_block(table, key, &self.0[SUM_BYTES..]);
        self.0[..SUM_BYTES].copy_from_slice(&(hash as u32).to_le_bytes());
        hash
    }
}
