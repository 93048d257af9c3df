//! Sorted lists of ids on disk: who follows a subject, whom it follows.
//!
//! A list lies in blocks (see [`super::block`]). The first one's lower bound is 0, whatever its
//! first id is. So a subject has a list exactly when the key `(subject, 0)` exists. An id stands in
//! the last block whose key is not above `(subject, id)`.
//!
//! Why not LMDB's own duplicates (`DUPSORT | DUPFIXED`)? Through a safe binding they are read one
//! id a call and cannot be entered in the middle, and a bulk load is an insertion for each id.
//!
//! Cost: 31 bytes a block besides its ids. A typical list is one search in a tree of three levels.

use std::ops::{Bound, ControlFlow, RangeInclusive};

use heed::{Database, PutFlags, RoTxn, RwTxn};
use hub::Id;

use super::block::{BLOCK_IDS_MAX, Block, BlockBuf, BlockCodec, Sealed, unpack};
use super::key::{Key, KeyCodec, key, subject_of};
use super::sum::{Sums, Table};

/// One direction of the graph.
#[derive(Clone, Copy)]
pub(super) struct Lists {
    pub(super) blocks: Database<'static, KeyCodec, BlockCodec>,
    pub(super) table: Table,
}

/// What a writer keeps from one change to the next.
pub(super) struct Uncommitted {
    /// The block that is being written.
    buffer: BlockBuf,
    /// The sums of the tables, as they are after the changes so far.
    pub(super) sums: Sums,
}

impl Uncommitted {
    /// `sums` are those of the last commit.
    pub(super) fn new(sums: Sums) -> Uncommitted {
        Uncommitted { buffer: BlockBuf::default(), sums }
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
        visit: impl FnMut(Id),
    ) -> heed::Result<Option<Id>> {
        debug_assert!(limit > 0, "there would be no place to go on from");
        let start = match after {
            None => self.first(txn, subject)?.map(|block| (key(subject, 0), block)),
            Some(id) => self.block_of(txn, subject, id)?,
        };
        let Some((place, block)) = start else { return Ok(None) };
        let mut walk = Walk { after, left: limit, last: None, visit };
        if walk.block(&block).is_break() {
            return Ok(walk.last);
        }
        if block.more {
            let rest = (Bound::Excluded(place), Bound::Included(key(subject, u64::MAX)));
            for entry in self.blocks.range(txn, &rest)? {
                if walk.block(&self.open(entry?)?.1).is_break() {
                    return Ok(walk.last);
                }
            }
        }
        Ok(None)
    }

    /// Whether nobody has a list.
    pub(super) fn is_empty(self, txn: &RoTxn<'_>) -> heed::Result<bool> {
        self.blocks.is_empty(txn)
    }

    /// Whether `subject` has a list at all.
    pub(super) fn has(self, txn: &RoTxn<'_>, subject: Id) -> heed::Result<bool> {
        Ok(self.first(txn, subject)?.is_some())
    }

    /// All lists in the order of their subjects, block by block.
    pub(super) fn blocks<'txn>(
        self,
        txn: &'txn RoTxn<'_>,
    ) -> heed::Result<impl Iterator<Item = heed::Result<(Id, Block<'txn>)>>> {
        let entries = self.blocks.iter(txn)?;
        Ok(entries.map(move |entry| {
            let (place, block) = self.open(entry?)?;
            Ok((subject_of(&place), block))
        }))
    }

    /// The blocks of all lists behind that of `subject`, or of all there are.
    pub(super) fn blocks_after<'txn>(
        self,
        txn: &'txn RoTxn<'_>,
        subject: Option<Id>,
    ) -> heed::Result<impl Iterator<Item = heed::Result<(Id, Block<'txn>)>>> {
        let start = match subject {
            Some(subject) => Bound::Excluded(key(subject, u64::MAX)),
            None => Bound::Unbounded,
        };
        let entries = self.blocks.range(txn, &(start, Bound::Unbounded))?;
        Ok(entries.map(move |entry| {
            let (place, block) = self.open(entry?)?;
            Ok((subject_of(&place), block))
        }))
    }

    /// Puts `id` into `subject`'s list; false when it was there.
    pub(super) fn insert(
        self,
        txn: &mut RwTxn<'_>,
        subject: Id,
        id: Id,
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<bool> {
        let Some((place, block)) = self.block_of(txn, subject, id)? else {
            uncommitted.buffer.fill(false, &[id]);
            self.put(txn, &key(subject, 0), uncommitted)?;
            return Ok(true);
        };
        let Err(at) = block.find(id) else { return Ok(false) };
        uncommitted.sums.remove(self.table, block.hash);
        uncommitted.buffer.copy(&block);
        uncommitted.buffer.insert(at, id);
        if block.ids.len() == BLOCK_IDS_MAX {
            // Ids that come in ascending order fill their blocks to the brim, others halve them.
            let half = if at == BLOCK_IDS_MAX { BLOCK_IDS_MAX } else { BLOCK_IDS_MAX / 2 };
            let mut upper = uncommitted.buffer.split(half);
            let low = upper.first().expect("the upper part has at least the new id").to_bits();
            let place = key(subject, low);
            uncommitted.sums.add(self.table, upper.seal(self.table, &place));
            self.blocks.put(txn, &place, &upper)?;
        }
        self.put(txn, &place, uncommitted)?;
        Ok(true)
    }

    /// Takes `id` out of `subject`'s list; false when it was not there.
    pub(super) fn remove(
        self,
        txn: &mut RwTxn<'_>,
        subject: Id,
        id: Id,
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<bool> {
        let Some((place, block)) = self.block_of(txn, subject, id)? else { return Ok(false) };
        let Ok(at) = block.find(id) else { return Ok(false) };
        uncommitted.sums.remove(self.table, block.hash);
        if block.ids.len() > 1 {
            uncommitted.buffer.copy(&block);
            uncommitted.buffer.remove(at);
            self.put(txn, &place, uncommitted)?;
            return Ok(true);
        }
        // The first block must stay while there is another one: that one takes its place.
        let first = place == key(subject, 0);
        let next = if first { self.blocks.get_greater_than(txn, &place)? } else { None };
        if let Some(next) = next.filter(|(next, _)| subject_of(next) == subject) {
            let (next, block) = self.open(next)?;
            uncommitted.sums.remove(self.table, block.hash);
            uncommitted.buffer.copy(&block);
            self.blocks.delete(txn, &next)?;
            self.put(txn, &place, uncommitted)?;
        } else {
            self.blocks.delete(txn, &place)?;
        }
        Ok(true)
    }

    /// Writes the list of a subject above all others in the table: the fast way to fill an empty
    /// one. `ids` must ascend, without equals, and not be empty.
    pub(super) fn append(
        self,
        txn: &mut RwTxn<'_>,
        subject: Id,
        ids: &[Id],
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<()> {
        self.put_blocks(txn, PutFlags::APPEND, subject, ids, uncommitted)
    }

    /// Merges `ids` (ascending, without equals) into `subject`'s list; returns how many were new.
    pub(super) fn merge(
        self,
        txn: &mut RwTxn<'_>,
        subject: Id,
        ids: &[Id],
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<usize> {
        debug_assert!(ids.is_sorted_by(|one, next| one < next));
        let (mut merged, mut sums) = (ids.to_vec(), uncommitted.sums);
        for entry in self.blocks.range(txn, &all(subject))? {
            let (_, block) = self.open(entry?)?;
            merged.extend(block.ids.iter().map(|&bytes| unpack(bytes)));
            sums.remove(self.table, block.hash);
        }
        let stored = merged.len() - ids.len();
        merged.sort();
        merged.dedup();
        if merged.len() > stored {
            uncommitted.sums = sums;
            self.blocks.delete_range(txn, &all(subject))?;
            self.put_blocks(txn, PutFlags::empty(), subject, &merged, uncommitted)?;
        }
        Ok(merged.len() - stored)
    }

    fn put_blocks(
        self,
        txn: &mut RwTxn<'_>,
        flags: PutFlags,
        subject: Id,
        ids: &[Id],
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<()> {
        assert!(!ids.is_empty(), "a list without ids has no block");
        assert!(
            ids.is_sorted_by(|one, next| one < next),
            "ids are searched for in a list: what is not in order would be lost"
        );
        let blocks = ids.chunks(BLOCK_IDS_MAX);
        let last = blocks.len() - 1;
        for (n, ids) in blocks.enumerate() {
            let low = if n == 0 { 0 } else { ids[0].to_bits() };
            uncommitted.buffer.fill(n < last, ids);
            self.put_flagged(txn, flags, &key(subject, low), uncommitted)?;
        }
        Ok(())
    }

    /// Stores the block that is being written.
    fn put(
        self,
        txn: &mut RwTxn<'_>,
        place: &Key,
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<()> {
        self.put_flagged(txn, PutFlags::empty(), place, uncommitted)
    }

    fn put_flagged(
        self,
        txn: &mut RwTxn<'_>,
        flags: PutFlags,
        place: &Key,
        uncommitted: &mut Uncommitted,
    ) -> heed::Result<()> {
        uncommitted.sums.add(self.table, uncommitted.buffer.seal(self.table, place));
        self.blocks.put_with_flags(txn, flags, place, &uncommitted.buffer)
    }

    fn first<'txn>(self, txn: &'txn RoTxn<'_>, subject: Id) -> heed::Result<Option<Block<'txn>>> {
        let place = key(subject, 0);
        let found = self.blocks.get(txn, &place)?;
        found.map(|block| Ok(self.open((place, block))?.1)).transpose()
    }

    /// The block of `subject` in which `id` stands or would stand, and its key.
    fn block_of<'txn>(
        self,
        txn: &'txn RoTxn<'_>,
        subject: Id,
        id: Id,
    ) -> heed::Result<Option<(Key, Block<'txn>)>> {
        let found = self.blocks.get_lower_than_or_equal_to(txn, &key(subject, id.to_bits()))?;
        let found = found.filter(|(place, _)| subject_of(place) == subject);
        found.map(|entry| self.open(entry)).transpose()
    }

    /// Every block that is read comes through here: its checksum is compared.
    fn open<'txn>(self, (place, block): (Key, Sealed<'txn>)) -> heed::Result<(Key, Block<'txn>)> {
        Ok((place, block.open(self.table, &place)?))
    }
}

fn all(subject: Id) -> RangeInclusive<Key> {
    key(subject, 0)..=key(subject, u64::MAX)
}

/// A slice in the making.
struct Walk<V> {
    after: Option<Id>,
    left: usize,
    last: Option<Id>,
    visit: V,
}

impl<V: FnMut(Id)> Walk<V> {
    /// Visits what belongs to the slice; breaks at an id that it has no room for.
    fn block(&mut self, block: &Block<'_>) -> ControlFlow<()> {
        let skip = self.after.map_or(0, |id| block.find(id).map_or_else(|at| at, |at| at + 1));
        let ids = &block.ids[skip..];
        for &bytes in &ids[..ids.len().min(self.left)] {
            let id = unpack(bytes);
            (self.visit)(id);
            self.last = Some(id);
        }
        if ids.len() > self.left {
            return ControlFlow::Break(());
        }
        self.left -= ids.len();
        ControlFlow::Continue(())
    }
}
