//! Where a bound on the records of one key ends, counted from its newest back.
//!
//! No record is read for it but one: the queue, the open segment and each index know how many
//! records a key has and what they weigh. Cost: two or three pages of the index of each segment
//! that has the key, and a search by halves in the one where the bound ends.
//!
//! What it counts are all records that were kept, expired ones and lost ones too. An index knows a
//! key by 32 bits of its hash. Of a million keys in a segment some 200 share theirs with another
//! one, and those two are counted together there.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Acquire;

use crate::index::{Index, PAGE_PLACES, entries, place, weighed};
use crate::left::{Bound, Left};
use crate::read::read_at;
use crate::record::{decode, hash};
use crate::shared::Shared;
use crate::table::Sealed;

impl Shared {
    /// The number of the newest record of the key that is over the bound; 0 if none is.
    pub(crate) fn over(&self, key: &[u8], bound: Bound) -> io::Result<u64> {
        loop {
            let mut left = Left(bound);
            let queue = self.queue.lock();
            // What is durable is in the table, and nothing else was forgotten here.
            let durable = self.durable.load(Acquire);
            let over = queue.count(key, durable, &mut left);
            drop(queue);
            if let Some(over) = over {
                return Ok(over);
            }
            let table = self.table.read();
            let sealed = Arc::clone(&table.sealed);
            if sealed.last().is_some_and(|last| last.index().summary.last > durable) {
                // One more was sealed since, with records that were counted in the queue.
                continue;
            }
            let below = durable.saturating_add(1);
            let open = table.open.as_ref();
            let over = open.and_then(|open| open.count(hash(key, open.salt), below, &mut left));
            drop(table);
            if let Some(over) = over {
                return Ok(over);
            }
            for segment in sealed.iter().rev() {
                if let Some(over) = self.over_in(segment, key, &mut left)? {
                    return Ok(over);
                }
            }
            return Ok(0);
        }
    }

    fn over_in(&self, segment: &Sealed, key: &[u8], left: &mut Left) -> io::Result<Option<u64>> {
        let hash = hash(key, segment.salt);
        let mut index = segment.index();
        for is_mended in [false, true] {
            match Ranks::of(&index).over(hash, left) {
                Ok(None) => return Ok(None),
                Ok(Some(offset)) => return number_at(segment, &index, offset).map(Some),
                Err(Unread::Io(error)) => return Err(error),
                Err(Unread::Damaged) if is_mended => break,
                Err(Unread::Damaged) => {
                    self.mend(segment, &index)?;
                    index = segment.index();
                }
            }
        }
        // The disk gives something else each time: nothing of it can be read either.
        Ok(Some(index.summary.last))
    }
}

/// The number of the record at an offset, or one above it where that cannot be read.
fn number_at(segment: &Sealed, index: &Index, offset: u32) -> io::Result<u64> {
    let bytes = read_at(&*segment.file, offset, index.summary.end)?;
    let record = decode(&bytes, segment.salt);
    Ok(record.map_or_else(|| index.number_at_most(offset), |(record, _)| record.number))
}

/// Why a page of an index was not read.
enum Unread {
    Io(io::Error),
    Damaged,
}

/// The places of an index by their rank. The page that was read last is kept.
struct Ranks<'i> {
    index: &'i Index,
    page: Option<(usize, Cow<'i, [u8]>)>,
}

impl<'i> Ranks<'i> {
    fn of(index: &'i Index) -> Ranks<'i> {
        Ranks { index, page: None }
    }

    /// The offset of the newest record with the hash that has no room.
    fn over(&mut self, hash: u32, left: &mut Left) -> Result<Option<u32>, Unread> {
        if !self.index.may_have(hash) {
            return Ok(None);
        }
        let (start, end) = (self.rank(place(hash, 0))?, self.rank(place(hash, u32::MAX))?);
        let up_to = |at: usize| Ok(u64::from(self.weighed(start + at)?.1));
        let Some(over) = left.try_take(end.saturating_sub(start), up_to)? else { return Ok(None) };
        Ok(Some(self.weighed(start + over)?.0 as u32))
    }

    /// How many places are below this one.
    fn rank(&mut self, place: u64) -> Result<usize, Unread> {
        let Some(page) = self.index.last_page_below(place) else { return Ok(0) };
        let inside = entries(self.page(page)?).partition_point(|entry| weighed(entry).0 < place);
        Ok(page * PAGE_PLACES + inside)
    }

    fn weighed(&mut self, rank: usize) -> Result<(u64, u32), Unread> {
        let entries = entries(self.page(rank / PAGE_PLACES)?);
        entries.get(rank % PAGE_PLACES).map(weighed).ok_or(Unread::Damaged)
    }

    fn page(&mut self, page: usize) -> Result<&[u8], Unread> {
        let kept = self.page.take().filter(|(kept, _)| *kept == page);
        let (_, bytes) = match kept {
            Some(kept) => self.page.insert(kept),
            None => {
                let bytes = self.index.page(page).map_err(Unread::Io)?.ok_or(Unread::Damaged)?;
                self.page.insert((page, bytes))
            }
        };
        Ok(bytes)
    }
}
