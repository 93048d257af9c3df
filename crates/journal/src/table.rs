//! What is on disk for good: sealed segments with their indices, and the open one with its index in
//! memory.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::disk::{Disk, DiskFile, ReadAround, read_around};
use crate::format::index_path;
use crate::index::{Index, Summary, bytes_at_most, place};
use crate::left::Left;
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

/// Where a record of a key is, and the bytes of the key's records in its segment up to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Weighed {
    offset: u32,
    weight: u32,
}

/// The places of a key's records, ascending.
enum Places {
    One(Weighed),
    Many(Vec<Weighed>),
}

impl Places {
    fn as_slice(&self) -> &[Weighed] {
        match self {
            Places::One(place) => std::slice::from_ref(place),
            Places::Many(places) => places,
        }
    }

    fn push(&mut self, offset: u32, weight: u32) {
        let before = self.as_slice().last().copied();
        // The same key twice in a record is one place.
        let Some(before) = before.filter(|before| before.offset != offset) else { return };
        let place = Weighed { offset, weight: before.weight + weight };
        match self {
            Places::One(first) => *self = Places::Many(vec![*first, place]),
            Places::Many(places) => places.push(place),
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
    keys: HashMap<u32, Places>,
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
        (expires_ms, weight): (u64, u32),
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
                .and_modify(|places| places.push(offset, weight))
                .or_insert(Places::One(Weighed { offset, weight }));
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
        let places = self.places(hash, (above, below)).iter();
        let with_number = |place: &Weighed| self.number_of(*place);
        match newest_first {
            true => places.rev().take(most).filter_map(with_number).collect(),
            false => places.take(most).filter_map(with_number).collect(),
        }
    }

    /// Those of the key between the numbers, both exclusive.
    fn places(&self, hash: u32, (above, below): (u64, u64)) -> &[Weighed] {
        let places = self.keys.get(&hash).map_or(&[][..], Places::as_slice);
        let low = self.numbers.partition_point(|(number, _)| *number <= above);
        let high = self.numbers.partition_point(|(number, _)| *number < below);
        let offset = |at: usize| self.numbers.get(at).map_or(u32::MAX, |(_, offset)| *offset);
        let start = places.partition_point(|place| place.offset < offset(low));
        let end = places.partition_point(|place| place.offset < offset(high)).max(start);
        &places[start..end]
    }

    fn number_of(&self, place: Weighed) -> Option<(u64, u32)> {
        let found = self.numbers.binary_search_by_key(&place.offset, |(_, offset)| *offset).ok()?;
        Some(self.numbers[found])
    }

    /// Counts the records of the key below the number, from the newest back; the first one that is
    /// too many or too much.
    pub(crate) fn count(&self, hash: u32, below: u64, left: &mut Left) -> Option<u64> {
        let places = self.places(hash, (0, below));
        let over = left.take(places.len(), |at| u64::from(places[at].weight))?;
        self.number_of(places[over]).map(|(number, _)| number)
    }

    /// What its index will take on disk at most.
    pub(crate) fn index_bytes_at_most(&self) -> u64 {
        bytes_at_most(self.places, self.summary.end)
    }

    pub(crate) fn encode_index(&self) -> Vec<u8> {
        let mut places = Vec::with_capacity(self.places as usize);
        for (hash, of_key) in &self.keys {
            let of_key = of_key.as_slice().iter();
            places.extend(of_key.map(|at| (place(*hash, at.offset), at.weight)));
        }
        Index::encode(&self.summary, self.numbers.iter().copied(), places)
    }

    /// Gives the segment as a sealed one; its index is in memory if the disk does not take it.
    pub(crate) fn seal(&self, disk: &dyn Disk) -> Sealed {
        self.sealed_by(write_index(disk, &self.path, self.encode_index()))
    }

    /// As [`OpenSegment::seal`], where parts of it cannot be read now: a disk that reads them at
    /// the next start is believed then, so no index says on disk that they are lost.
    pub(crate) fn seal_for_now(&self) -> Sealed {
        self.sealed_by(in_memory(self.encode_index()))
    }

    fn sealed_by(&self, index: Index) -> Sealed {
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
        Ok(None) | Err(_) => in_memory(bytes),
    }
}

fn in_memory(bytes: Vec<u8>) -> Index {
    Index::in_memory(bytes).expect("what was just encoded is whole")
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
        let ReadAround { bytes, unread } = read_around(&*self.file, damaged.summary.end)?;
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
        // What cannot be read now may live as long as was known of it.
        open.summary.expires_ms = open.summary.expires_ms.max(old.expires_ms);
        let index = match unread {
            None => write_index(disk, &self.path, open.encode_index()),
            Some(_) => in_memory(open.encode_index()),
        };
        let index = Arc::new(index);
        *self.index.write() = Arc::clone(&index);
        Ok(index)
    }
}

impl OpenSegment {
    /// Takes in what a segment's bytes have.
    pub(crate) fn fill(&mut self, bytes: &[u8], bounds: Bounds) {
        let found = scan(bytes, bounds, &mut |offset, record| {
            let keys = record.keys().map(|key| hash(key, bounds.salt));
            let age = (record.expires_ms, record.weight());
            self.insert((record.number, offset), age, keys);
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

    /// Whether all that is known of the oldest segment has expired. One of which nothing can be
    /// read is as old as the next one, or those behind it would stay as long.
    pub(crate) fn has_expired(&self, now_ms: u64) -> bool {
        let is_known = |of: &Summary| of.records > 0 || of.expires_ms < u64::MAX;
        let mut indices = self.sealed.iter().map(|segment| segment.index());
        let known = indices.find(|index| is_known(&index.summary));
        known.is_some_and(|index| index.summary.expires_ms <= now_ms)
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
