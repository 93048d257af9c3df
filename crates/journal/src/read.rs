//! Reading by key: sealed segments, the open one, and what is not on disk for good yet.
//!
//! A record goes from the queue to the table and never back. So a read takes what is in memory
//! first, then what the table has, and leaves out of the former what the latter has. Nothing is
//! read from the disk with a lock held.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::{DiskFile, is_lost};
use crate::index::Index;
use crate::queue::Recent;
use crate::record::{RecordRead, View, decode, hash, length, parse};
use crate::shared::Shared;
use crate::table::Sealed;
use crate::{Most, Slice};

/// Records that are passed over in one read, beside those that it may answer.
const PASSED_MAX: usize = 256;
/// Places that are taken from an index at once.
const PLACES: usize = 64;
/// Bytes that are read of a record before its length is known.
const GUESS: usize = 512;

struct Reading<'a> {
    key: &'a [u8],
    between: (u64, u64),
    most: Most,
    newest_first: bool,
    out: &'a mut Vec<RecordRead>,
    answered: usize,
    seen: usize,
    bytes: usize,
    slice: Slice,
}

/// Whether a reading goes on.
#[derive(PartialEq, Eq)]
enum Flow {
    On,
    Full,
}

/// What the open segment has of a key: its file, and numbers with their offsets.
struct OpenPlaces {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    salt: u32,
    end: u64,
    places: Vec<(u64, u32)>,
}

impl Shared {
    pub(crate) fn read(
        &self,
        key: &[u8],
        between: (u64, u64),
        (most, newest_first): (Most, bool),
        out: &mut Vec<RecordRead>,
    ) -> io::Result<Slice> {
        // One more than can be seen, so that it is known whether there are more.
        let count = most.records.saturating_add(PASSED_MAX + 1);
        let limit = (count, most.bytes.saturating_add(1));
        let mut recent = self.queue.lock().find(key, between, newest_first, limit);
        let table = self.table.read();
        let (sealed, floor, last) = (Arc::clone(&table.sealed), table.floor, table.last);
        let open = table.open.as_ref().map(|open| OpenPlaces {
            path: open.path.clone(),
            file: Arc::clone(&open.file),
            salt: open.salt,
            end: open.summary.end,
            places: open.find(hash(key, open.salt), between, newest_first, count),
        });
        drop(table);
        recent.retain(|(number, ..)| *number > last);
        let next = if newest_first { between.1 } else { between.0 };
        let slice = Slice { from: floor, more: false, next };
        let (answered, seen, bytes) = (0, 0, 0);
        let mut reading =
            Reading { key, between, most, newest_first, out, answered, seen, bytes, slice };
        let flow = match newest_first {
            false => {
                let flow = reading.sealed(self, sealed.iter())?;
                let flow = reading.go_on(flow, |reading| reading.open(self, open))?;
                reading.go_on(flow, |reading| reading.recent(&recent))?
            }
            true => {
                let flow = reading.recent(&recent)?;
                let flow = reading.go_on(flow, |reading| reading.open(self, open))?;
                reading.go_on(flow, |reading| reading.sealed(self, sealed.iter().rev()))?
            }
        };
        reading.slice.more = flow == Flow::Full;
        Ok(reading.slice)
    }

    /// What was lost in a segment is lost for all reads from now on.
    pub(crate) fn mend(&self, segment: &Sealed, damaged: &Arc<Index>) -> io::Result<()> {
        let index = segment.mend(&*self.disk, damaged)?;
        index.summary.lost.iter().for_each(|between| self.meet(&segment.path, *between));
        let lost = index.summary.lost.iter().map(|(_, before)| before - 1).max();
        if let Some(lost) = lost {
            let mut table = self.table.write();
            table.floor = table.floor.max(lost);
        }
        Ok(())
    }
}

impl Reading<'_> {
    fn go_on(
        &mut self,
        flow: Flow,
        then: impl FnOnce(&mut Self) -> io::Result<Flow>,
    ) -> io::Result<Flow> {
        if flow == Flow::Full { Ok(flow) } else { then(self) }
    }

    fn full(&self) -> bool {
        self.answered >= self.most.records
            || self.bytes >= self.most.bytes
            || self.seen >= self.most.records.saturating_add(PASSED_MAX)
    }

    /// Answers the record or passes over it.
    fn take(&mut self, record: View<'_>, bytes: usize) {
        let (above, below) = self.between;
        let inside = record.number > above && record.number < below;
        if !inside || !record.keys().any(|key| key == self.key) {
            return;
        }
        self.seen += 1;
        self.slice.next = record.number;
        if record.expires_ms <= self.most.now_ms {
            self.slice.from = self.slice.from.max(record.number);
            return;
        }
        self.answered += 1;
        self.bytes += bytes;
        self.out.push(record.to_read());
    }

    fn lost(&mut self, number_at_most: u64) {
        self.slice.from = self.slice.from.max(number_at_most);
    }

    fn lost_in(
        &mut self,
        shared: &Shared,
        (segment, index): (&Sealed, &Index),
        number_at_most: u64,
    ) {
        let after = index.summary.first.saturating_sub(1);
        shared.meet(&segment.path, (after, number_at_most.saturating_add(1)));
        self.lost(number_at_most);
    }

    fn recent(&mut self, recent: &[Recent]) -> io::Result<Flow> {
        for (_, chunk, offset) in recent {
            if self.full() {
                return Ok(Flow::Full);
            }
            let (record, bytes) = parse(&chunk.bytes[*offset..]).expect("queued records are whole");
            self.take(record, bytes);
        }
        Ok(Flow::On)
    }

    fn open(&mut self, shared: &Shared, open: Option<OpenPlaces>) -> io::Result<Flow> {
        let Some(open) = open else { return Ok(Flow::On) };
        for (number, offset) in open.places {
            if self.full() {
                return Ok(Flow::Full);
            }
            let bytes = read_at(&*open.file, offset, open.end)?;
            match decode(&bytes, open.salt).filter(|(record, _)| record.number == number) {
                Some((record, length)) => self.take(record, length),
                None => {
                    shared.meet(&open.path, (number.saturating_sub(1), number.saturating_add(1)));
                    self.lost(number);
                }
            }
        }
        Ok(Flow::On)
    }

    fn sealed<'s>(
        &mut self,
        shared: &Shared,
        segments: impl Iterator<Item = &'s Arc<Sealed>>,
    ) -> io::Result<Flow> {
        let mut hashed = None;
        for segment in segments {
            let index = segment.index();
            let summary = &index.summary;
            if summary.last <= self.between.0 || summary.first >= self.between.1 {
                continue;
            }
            if summary.expires_ms <= self.most.now_ms {
                // As if it were dropped already.
                self.lost(summary.last);
                continue;
            }
            let hash = match hashed {
                Some((salt, hash)) if salt == segment.salt => hash,
                _ => hash(self.key, segment.salt),
            };
            hashed = Some((segment.salt, hash));
            if self.segment(shared, segment, hash)? == Flow::Full {
                return Ok(Flow::Full);
            }
        }
        Ok(Flow::On)
    }

    fn segment(&mut self, shared: &Shared, segment: &Sealed, hash: u32) -> io::Result<Flow> {
        let mut index = segment.index();
        let (mut mended, mut is_inside) = (false, false);
        let (mut low, mut high) = index.range(self.between);
        loop {
            let found = index.find(hash, (low, high), self.newest_first, PLACES)?;
            let Ok(places) = found else {
                if mended {
                    // The disk gives something else each time.
                    self.lost_in(shared, (segment, &index), index.summary.last);
                    return Ok(Flow::On);
                }
                shared.mend(segment, &index)?;
                (index, mended) = (segment.index(), true);
                index.summary.lost.iter().for_each(|(_, before)| self.lost(before - 1));
                continue;
            };
            let last = places.last().copied().filter(|_| places.len() == PLACES);
            // The range begins up to 32 KiB of records before those that are asked for.
            is_inside |= match last {
                Some(last) => !self.is_before(segment, last, index.summary.end)?,
                None => true,
            };
            for offset in places.iter().filter(|_| is_inside) {
                if self.full() {
                    return Ok(Flow::Full);
                }
                let bytes = read_at(&*segment.file, *offset, index.summary.end)?;
                match decode(&bytes, segment.salt) {
                    Some((record, length)) => self.take(record, length),
                    None => {
                        self.lost_in(shared, (segment, &index), index.number_at_most(*offset));
                    }
                }
            }
            let Some(last) = last else { return Ok(Flow::On) };
            match self.newest_first {
                true => high = last,
                false => low = last + 1,
            }
        }
    }

    /// Whether the record at the offset, and so each that was to be read before it, comes before
    /// those that are asked for.
    fn is_before(&self, segment: &Sealed, offset: u32, end: u64) -> io::Result<bool> {
        let bytes = read_at(&*segment.file, offset, end)?;
        let record = decode(&bytes, segment.salt);
        let (above, below) = self.between;
        Ok(record.is_some_and(|(record, _)| match self.newest_first {
            true => record.number >= below,
            false => record.number <= above,
        }))
    }
}

/// The bytes of a record, as far as the file has them; none where they cannot be read.
pub(crate) fn read_at(file: &dyn DiskFile, offset: u32, end: u64) -> io::Result<Vec<u8>> {
    let left = end.saturating_sub(u64::from(offset));
    let mut bytes = vec![0; left.min(GUESS as u64) as usize];
    match file.read_at(&mut bytes, u64::from(offset)) {
        Err(error) if is_lost(&error) => return Ok(Vec::new()),
        result => result?,
    }
    let whole = length(&bytes).filter(|length| *length as u64 <= left);
    if let Some(length) = whole.filter(|length| *length > bytes.len()) {
        let read = bytes.len();
        bytes.resize(length, 0);
        match file.read_at(&mut bytes[read..], u64::from(offset) + read as u64) {
            Err(error) if is_lost(&error) => return Ok(Vec::new()),
            result => result?,
        }
    }
    Ok(bytes)
}
