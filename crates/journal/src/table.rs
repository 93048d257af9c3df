//! What is on disk for good: sealed segments with their indices, and the open one with its index in
//! memory.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::disk::{Disk, DiskFile};
use crate::format::index_path;
use crate::index::{Index, Summary, bytes_at_most, place};
use crate::record::hash;
use crate::scan::{Bounds, scan};

/// A segment that is not written to any more.
pub(crate) struct Sealed {
    pub(crate) sequence: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) salt: u32,
    /// Bytes on disk, its index too.
    bytes: u64,
    index: RwLock<Arc<Index>>,
    mending: Mutex<()>,
}

/// The offsets of a key's records, ascending.
enum Offsets {
    One(u32),
    Many(Vec<u32>),
}

impl Offsets {
    fn as_slice(&self) -> &[u32] {
        match self {
            Offsets::One(offset) => std::slice::from_ref(offset),
            Offsets::Many(offsets) => offsets,
        }
    }

    fn push(&mut self, offset: u32) {
        match self {
            // The same key twice in a record.
            _ if self.as_slice().last() == Some(&offset) => {}
            Offsets::One(first) => *self = Offsets::Many(vec![*first, offset]),
            Offsets::Many(offsets) => offsets.push(offset),
        }
    }
}

/// The segment that is written to; only what is synced counts here.
pub(crate) struct OpenSegment {
    pub(crate) sequence: u32,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) salt: u32,
    pub(crate) summary: Summary,
    /// Each record's number and offset.
    pub(crate) numbers: Vec<(u64, u32)>,
    keys: HashMap<u32, Offsets>,
    places: u64,
}

impl OpenSegment {
    pub(crate) fn new(
        (sequence, path): (u32, PathBuf),
        file: Arc<dyn DiskFile>,
        salt: u32,
        summary: Summary,
    ) -> OpenSegment {
        let (numbers, keys) = (Vec::new(), HashMap::new());
        OpenSegment { sequence, path, file, salt, summary, numbers, keys, places: 0 }
    }

    pub(crate) fn insert(
        &mut self,
        (number, offset): (u64, u32),
        expires_ms: u64,
        keys: impl Iterator<Item = u32>,
    ) {
        if self.numbers.is_empty() {
            self.summary.first = number;
        }
        self.summary.last = number;
        self.summary.records += 1;
        self.summary.expires_ms = self.summary.expires_ms.max(expires_ms);
        self.numbers.push((number, offset));
        for hash in keys {
            self.places += 1;
            self.keys
                .entry(hash)
                .and_modify(|offsets| offsets.push(offset))
                .or_insert(Offsets::One(offset));
        }
    }

    /// At most that many records of the key between the numbers, both exclusive.
    pub(crate) fn find(
        &self,
        hash: u32,
        (above, below): (u64, u64),
        newest_first: bool,
        most: usize,
    ) -> Vec<(u64, u32)> {
        let Some(offsets) = self.keys.get(&hash).map(Offsets::as_slice) else { return Vec::new() };
        let low = self.numbers.partition_point(|(number, _)| *number <= above);
        let high = self.numbers.partition_point(|(number, _)| *number < below);
        let offset = |at: usize| self.numbers.get(at).map_or(u32::MAX, |(_, offset)| *offset);
        let start = offsets.partition_point(|at| *at < offset(low));
        let end = offsets.partition_point(|at| *at < offset(high)).max(start);
        let with_number = |at: &u32| {
            let found = self.numbers.binary_search_by_key(at, |(_, offset)| *offset).ok()?;
            Some(self.numbers[found])
        };
        match newest_first {
            true => offsets[start..end].iter().rev().take(most).filter_map(with_number).collect(),
            false => offsets[start..end].iter().take(most).filter_map(with_number).collect(),
        }
    }

    /// What its index will take on disk at most.
    pub(crate) fn index_bytes_at_most(&self) -> u64 {
        bytes_at_most(self.places, self.summary.end)
    }

    pub(crate) fn encode_index(&self) -> Vec<u8> {
        let mut places = Vec::with_capacity(self.places as usize);
        for (hash, offsets) in &self.keys {
            places.extend(offsets.as_slice().iter().map(|offset| place(*hash, *offset)));
        }
        Index::encode(&self.summary, self.numbers.iter().copied(), places)
    }

    /// Gives the segment as a sealed one; its index is in memory if the disk does not take it.
    pub(crate) fn seal(&self, disk: &dyn Disk) -> Sealed {
        let index = write_index(disk, &self.path, self.encode_index());
        Sealed::new((self.sequence, self.path.clone()), Arc::clone(&self.file), self.salt, index)
    }
}

/// Writes an index beside its segment. It is not synced: a start makes it again.
fn write_index(disk: &dyn Disk, segment: &std::path::Path, bytes: Vec<u8>) -> Index {
    let path = index_path(segment);
    let written = || {
        match disk.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.create(&path)?;
        file.write_at(&bytes, 0)?;
        Index::load(file)
    };
    match written() {
        Ok(Some(index)) => index,
        Ok(None) | Err(_) => Index::in_memory(bytes).expect("what was just encoded is whole"),
    }
}

impl Sealed {
    pub(crate) fn new(
        (sequence, path): (u32, PathBuf),
        file: Arc<dyn DiskFile>,
        salt: u32,
        index: Index,
    ) -> Sealed {
        let bytes = index.summary.end + index.bytes;
        let index = RwLock::new(Arc::new(index));
        Sealed { sequence, path, file, salt, bytes, index, mending: Mutex::new(()) }
    }

    pub(crate) fn index(&self) -> Arc<Index> {
        Arc::clone(&self.index.read())
    }

    /// Makes the index again from the segment, unless another reader has done it meanwhile.
    pub(crate) fn mend(&self, disk: &dyn Disk, damaged: &Arc<Index>) -> io::Result<Arc<Index>> {
        let _alone = self.mending.lock();
        let now = self.index();
        if !Arc::ptr_eq(&now, damaged) {
            return Ok(now);
        }
        let mut bytes = vec![0; damaged.summary.end as usize];
        self.file.read_at(&mut bytes, 0)?;
        let old = &damaged.summary;
        let summary = Summary { end: old.end, first: old.first, ..Summary::default() };
        let id = (self.sequence, self.path.clone());
        let mut open = OpenSegment::new(id, Arc::clone(&self.file), self.salt, summary);
        let bounds = Bounds {
            salt: self.salt,
            previous: old.first.saturating_sub(1),
            next: Some(old.last.saturating_add(1)),
            until: Some(old.last),
        };
        open.fill(&bytes, bounds);
        open.summary.last = old.last;
        open.summary.end = old.end;
        let index = Arc::new(write_index(disk, &self.path, open.encode_index()));
        *self.index.write() = Arc::clone(&index);
        Ok(index)
    }
}

impl OpenSegment {
    /// Takes in what a segment's bytes have.
    pub(crate) fn fill(&mut self, bytes: &[u8], bounds: Bounds) {
        let found = scan(bytes, bounds, &mut |offset, record| {
            let keys = record.keys().map(|key| hash(key, bounds.salt));
            self.insert((record.number, offset), record.expires_ms, keys);
        });
        self.summary.end = found.end;
        self.summary.last = found.last;
        self.summary.lost = found.lost;
    }
}

#[derive(Default)]
pub(crate) struct Table {
    /// Oldest first; a reader takes them all at once.
    pub(crate) sealed: Arc<Vec<Arc<Sealed>>>,
    pub(crate) open: Option<OpenSegment>,
    /// Nothing above it was dropped or found lost.
    pub(crate) floor: u64,
    /// The greatest number that is here.
    pub(crate) last: u64,
}

impl Table {
    pub(crate) fn segments(&self) -> usize {
        self.sealed.len() + usize::from(self.open.is_some())
    }

    /// Bytes of sealed segments and of their indices.
    pub(crate) fn sealed_bytes(&self) -> u64 {
        self.sealed.iter().map(|segment| segment.bytes).sum()
    }

    pub(crate) fn push(&mut self, sealed: Sealed) {
        Arc::make_mut(&mut self.sealed).push(Arc::new(sealed));
    }

    /// Forgets the oldest segment, unless it is the only one.
    pub(crate) fn drop_oldest(&mut self) -> Option<Arc<Sealed>> {
        if self.segments() < 2 || self.sealed.is_empty() {
            return None;
        }
        let oldest = Arc::make_mut(&mut self.sealed).remove(0);
        self.floor = self.floor.max(oldest.index().summary.last);
        Some(oldest)
    }

    pub(crate) fn first(&self) -> Option<u64> {
        let sealed = self.sealed.iter().map(|segment| segment.index());
        sealed
            .filter(|index| index.summary.records > 0)
            .map(|index| index.summary.first)
            .next()
            .or_else(|| self.open.as_ref()?.numbers.first().map(|(number, _)| *number))
    }

    pub(crate) fn records(&self) -> u64 {
        let sealed: u64 = self.sealed.iter().map(|segment| segment.index().summary.records).sum();
        sealed + self.open.as_ref().map_or(0, |open| open.summary.records)
    }
}
