//! Where records lie, in memory: the segments, and of each key the places of its records.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use crate::disk::DiskFile;
use crate::record::{RecordRead, decode};

#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
}

pub(crate) struct Segment {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) path: PathBuf,
    pub(crate) last: u64,
    pub(crate) bytes: u64,
    pub(crate) expires_ms: u64,
}

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) segments: BTreeMap<u32, Segment>,
    keys: HashMap<Box<[u8]>, VecDeque<Place>>,
    /// Nothing above it was dropped or found lost at the start.
    pub(crate) floor: u64,
}

/// How much one read answers at most, and the time that decides what has expired.
#[derive(Clone, Copy, Debug)]
pub struct Most {
    /// Records at most.
    pub records: usize,
    /// Stops once the records read take that many bytes on disk.
    pub bytes: usize,
    /// Records that expire at this time or before are passed over, in milliseconds since 1970.
    pub now_ms: u64,
}

/// What a read says about the records it gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Nothing of the key above this number was dropped or lost.
    pub from: u64,
    /// Whether there are more in that direction.
    pub more: bool,
}

impl Table {
    pub(crate) fn insert(&mut self, record: &RecordRead, place: Place) {
        for key in &record.keys {
            match self.keys.get_mut(key.as_slice()) {
                Some(places) => places.push_back(place),
                None => {
                    self.keys.insert(key.as_slice().into(), VecDeque::from([place]));
                }
            }
        }
        if let Some(segment) = self.segments.get_mut(&place.segment) {
            segment.last = record.number;
            segment.expires_ms = segment.expires_ms.max(record.expires_ms);
            segment.bytes = place.offset + u64::from(place.bytes);
        }
    }

    /// Forgets the places above the number: their bytes are about to be written elsewhere.
    pub(crate) fn forget_above(&mut self, number: u64) {
        self.keys.retain(|_, places| {
            while places.back().is_some_and(|place| place.number > number) {
                places.pop_back();
            }
            !places.is_empty()
        });
    }

    /// Forgets the oldest segment and gives its path.
    pub(crate) fn drop_oldest(&mut self) -> Option<PathBuf> {
        let (_, segment) = self.segments.pop_first()?;
        self.floor = self.floor.max(segment.last);
        self.keys.retain(|_, places| {
            while places.front().is_some_and(|place| place.number <= segment.last) {
                places.pop_front();
            }
            !places.is_empty()
        });
        Some(segment.path)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes).sum()
    }

    pub(crate) fn last_of(&self, key: &[u8]) -> Option<u64> {
        self.keys.get(key)?.back().map(|place| place.number)
    }

    /// The places of a key between the numbers, both exclusive, as files to read; whether there
    /// are more; the newest first or the oldest.
    pub(crate) fn places(
        &self,
        key: &[u8],
        (above, below): (u64, u64),
        most: usize,
        newest_first: bool,
    ) -> Vec<(Place, Arc<dyn DiskFile>)> {
        let Some(all) = self.keys.get(key) else { return Vec::new() };
        let start = all.partition_point(|place| place.number <= above);
        let end = all.partition_point(|place| place.number < below).max(start);
        let with_file = |place: &Place| {
            let segment = self.segments.get(&place.segment)?;
            Some((*place, Arc::clone(&segment.file)))
        };
        match newest_first {
            true => all.range(start..end).rev().take(most).filter_map(with_file).collect(),
            false => all.range(start..end).take(most).filter_map(with_file).collect(),
        }
    }
}

/// Reads the record at a place; none if its bytes are not what was written.
pub(crate) fn read(place: &Place, file: &dyn DiskFile) -> std::io::Result<Option<RecordRead>> {
    let mut bytes = vec![0; place.bytes as usize];
    match file.read_at(&mut bytes, place.offset) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    Ok(decode(&bytes).map(|(record, _)| record).filter(|record| record.number == place.number))
}
