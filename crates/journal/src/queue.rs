//! What was appended and is not on disk for good: the bytes, and which of them have a key.
//!
//! Appending fills `fresh`; the writer takes it as a chunk, and both go on to be read here until
//! a sync covers them. A generation is what was appended between two syncs, so that a sync forgets
//! whole generations and looks at no record.

use std::collections::{HashMap, VecDeque};
use std::mem::take;
use std::sync::Arc;

use crate::Failed;
use crate::record::{Record, hash, length};

/// Bytes of records as they go to the disk; `at` counts from the start of the process.
#[derive(Clone)]
pub(crate) struct Chunk {
    pub(crate) at: u64,
    pub(crate) bytes: Arc<Vec<u8>>,
}

impl Chunk {
    pub(crate) fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// A record in memory: its number and its bytes from there on.
pub(crate) type Recent = (u64, Chunk, usize);

#[derive(Default)]
pub(crate) struct Generation {
    /// Chunks that the writer has taken.
    chunks: Vec<Chunk>,
    /// Of each key the records' numbers and places, ascending.
    keys: HashMap<u32, Vec<(u64, u64)>>,
}

impl Generation {
    fn chunk(&self, at: u64) -> Option<&Chunk> {
        let next = self.chunks.partition_point(|chunk| chunk.at <= at);
        self.chunks.get(next.checked_sub(1)?).filter(|chunk| at < chunk.end())
    }

    fn places(&self, key: u32, (above, below): (u64, u64)) -> &[(u64, u64)] {
        let places = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        let start = places.partition_point(|(number, _)| *number <= above);
        let end = places.partition_point(|(number, _)| *number < below);
        &places[start..end.max(start)]
    }
}

pub(crate) struct Waiter {
    pub(crate) number: u64,
    pub(crate) done: Box<dyn FnOnce(Result<(), Failed>) + Send>,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) waiters: Vec<Waiter>,
    /// The greatest number that was appended.
    pub(crate) last: u64,
    pub(crate) closing: bool,
    salt: u32,
    fresh: Vec<u8>,
    fresh_at: u64,
    current: Generation,
    /// What the next sync covers, or the one that is under way.
    frozen: VecDeque<Arc<Generation>>,
}

impl Queue {
    pub(crate) fn new(last: u64, salt: u32) -> Queue {
        Queue { last, salt, ..Queue::default() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.fresh.is_empty() && self.waiters.is_empty() && !self.closing
    }

    pub(crate) fn append(&mut self, record: &Record<'_>) {
        assert!(record.number > self.last, "numbers ascend");
        self.last = record.number;
        let at = self.fresh_at + self.fresh.len() as u64;
        record.encode(self.salt, &mut self.fresh);
        for key in record.keys {
            let places = self.current.keys.entry(hash(key, self.salt)).or_default();
            if places.last().is_none_or(|(number, _)| *number != record.number) {
                places.push((record.number, at));
            }
        }
    }

    /// What was appended since the last call, and whether it belongs to the next sync.
    pub(crate) fn take(&mut self, freeze: bool) -> Option<Chunk> {
        let chunk = (!self.fresh.is_empty()).then(|| {
            let at = self.fresh_at;
            self.fresh_at += self.fresh.len() as u64;
            Chunk { at, bytes: Arc::new(take(&mut self.fresh)) }
        });
        self.current.chunks.extend(chunk.clone());
        if freeze && !self.current.chunks.is_empty() {
            self.frozen.push_back(Arc::new(take(&mut self.current)));
        }
        chunk
    }

    /// What a sync has covered; it is given so that no lock is held while it is dropped.
    pub(crate) fn forget_frozen(&mut self) -> VecDeque<Arc<Generation>> {
        take(&mut self.frozen)
    }

    /// Records that may have the key, of numbers between the two, both exclusive: from the oldest
    /// on or from the newest back, at most that many, or as many as take that many bytes.
    pub(crate) fn find(
        &self,
        key: &[u8],
        between: (u64, u64),
        newest_first: bool,
        (records, bytes): (usize, usize),
    ) -> Vec<Recent> {
        let key = hash(key, self.salt);
        let frozen = self.frozen.iter().map(|generation| &**generation);
        let mut generations: Vec<&Generation> = frozen.chain([&self.current]).collect();
        if newest_first {
            generations.reverse();
        }
        let (mut found, mut copied) = (Vec::new(), 0);
        for generation in generations {
            let places = generation.places(key, between);
            for step in 0..places.len() {
                let (number, at) =
                    places[if newest_first { places.len() - 1 - step } else { step }];
                if found.len() >= records || copied >= bytes {
                    return found;
                }
                let (chunk, offset) = match generation.chunk(at) {
                    Some(chunk) => (chunk.clone(), (at - chunk.at) as usize),
                    None => (self.copy_fresh(at), 0),
                };
                copied += length(&chunk.bytes[offset..]).unwrap_or(0);
                found.push((number, chunk, offset));
            }
        }
        found
    }

    fn copy_fresh(&self, at: u64) -> Chunk {
        let bytes = &self.fresh[(at - self.fresh_at) as usize..];
        let length = length(bytes).expect("a queued record has its length");
        Chunk { at, bytes: Arc::new(bytes[..length].to_vec()) }
    }
}
