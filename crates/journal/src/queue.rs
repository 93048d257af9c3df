//! What was appended and is not on disk for good: the bytes, and which of them have a key.
//!
//! Appending fills `fresh`; the writer takes it as a chunk, and both go on to be read here until
//! a sync covers them. A generation is what was appended between two syncs, so that a sync forgets
//! whole generations and looks at no record.
//!
//! Waking a thread is a system call, which costs more than all else that an append does. So the
//! writer says here what it does, and is woken only where it would not come by itself soon.

use std::collections::{HashMap, VecDeque};
use std::mem::{replace, take};
use std::sync::Arc;

use crate::Failed;
use crate::left::Left;
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

/// Where a record of a key is.
struct Place {
    number: u64,
    at: u64,
    /// Bytes of the key's records up to this one.
    weight: u64,
}

#[derive(Default)]
pub(crate) struct Generation {
    /// Chunks that the writer has taken.
    chunks: Vec<Chunk>,
    /// Of each key the records' places, ascending.
    keys: HashMap<u32, Vec<Place>>,
}

impl Generation {
    fn chunk(&self, at: u64) -> Option<&Chunk> {
        let next = self.chunks.partition_point(|chunk| chunk.at <= at);
        self.chunks.get(next.checked_sub(1)?).filter(|chunk| at < chunk.end())
    }

    fn places(&self, key: u32, (above, below): (u64, u64)) -> &[Place] {
        let places = self.keys.get(&key).map_or(&[][..], Vec::as_slice);
        let start = places.partition_point(|place| place.number <= above);
        let end = places.partition_point(|place| place.number < below);
        &places[start..end.max(start)]
    }
}

pub(crate) struct Waiter {
    pub(crate) number: u64,
    pub(crate) done: Box<dyn FnOnce(Result<(), Failed>) + Send>,
}

/// What the writer does, as those see it who append.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) enum WriterState {
    /// It looks into the queue before it rests.
    #[default]
    Works,
    /// It has written a moment ago, and looks into the queue a moment later.
    ShortSleep,
    /// It comes when it is woken.
    Waits,
}

/// Bytes that end a short sleep of the writer.
const SHORT_SLEEP_BYTES_MAX: usize = 1 << 20;

/// Bytes that are allocated for a group at most before they come.
const GROUP_BYTES: usize = 64 << 10;

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) writer: WriterState,
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

    /// Adds a record. Whether the writer is to be woken for it.
    pub(crate) fn append(&mut self, record: &Record<'_>) -> bool {
        assert!(record.number > self.last, "numbers ascend");
        self.last = record.number;
        let at = self.fresh_at + self.fresh.len() as u64;
        record.encode(self.salt, &mut self.fresh);
        for key in record.keys {
            let places = self.current.keys.entry(hash(key, self.salt)).or_default();
            let (number, weight) = places.last().map_or((0, 0), |last| (last.number, last.weight));
            if number != record.number || places.is_empty() {
                let weight = weight + record.weight() as u64;
                places.push(Place { number: record.number, at, weight });
            }
        }
        self.wakes(self.fresh.len() >= SHORT_SLEEP_BYTES_MAX)
    }

    /// Adds one who waits for the disk. Whether the writer is to be woken for it.
    pub(crate) fn wait(&mut self, waiter: Waiter) -> bool {
        self.waiters.push(waiter);
        self.wakes(true)
    }

    /// Whether the writer must be woken for what was just added. Who is told so wakes it; nobody
    /// else needs to until it rests again.
    fn wakes(&mut self, ends_short_sleep: bool) -> bool {
        let wakes = match self.writer {
            WriterState::Works => false,
            WriterState::ShortSleep => ends_short_sleep,
            WriterState::Waits => true,
        };
        if wakes {
            self.writer = WriterState::Works;
        }
        wakes
    }

    /// What was appended since the last call, and whether it belongs to the next sync.
    pub(crate) fn take(&mut self, freeze: bool) -> Option<Chunk> {
        let chunk = (!self.fresh.is_empty()).then(|| {
            let at = self.fresh_at;
            self.fresh_at += self.fresh.len() as u64;
            // The next group is about as long.
            let next = Vec::with_capacity(self.fresh.len().min(GROUP_BYTES));
            Chunk { at, bytes: Arc::new(replace(&mut self.fresh, next)) }
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
    /// on or from the newest back, at most that many, or as many as take that many bytes and one
    /// more, so that it is known whether there are more.
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
        let (mut found, mut copied, mut last) = (Vec::new(), 0, 0);
        for generation in generations {
            let places = generation.places(key, between);
            for step in 0..places.len() {
                let &Place { number, at, .. } =
                    &places[if newest_first { places.len() - 1 - step } else { step }];
                if found.len() >= records || copied >= bytes {
                    return found;
                }
                let (chunk, offset) = match generation.chunk(at) {
                    Some(chunk) => (chunk.clone(), (at - chunk.at) as usize),
                    None => (self.copy_fresh(at), 0),
                };
                copied += last;
                last = length(&chunk.bytes[offset..]).unwrap_or(0);
                found.push((number, chunk, offset));
            }
        }
        found
    }

    /// Counts the records of the key above the number, from the newest back; the first one that is
    /// too many or too much.
    pub(crate) fn count(&self, key: &[u8], above: u64, left: &mut Left) -> Option<u64> {
        let key = hash(key, self.salt);
        let frozen = self.frozen.iter().map(|generation| &**generation);
        frozen.chain([&self.current]).rev().find_map(|generation| {
            let places = generation.places(key, (above, u64::MAX));
            let before = places.first().map_or(0, |first| {
                let all = &generation.keys[&key];
                let at = all.partition_point(|place| place.number < first.number);
                at.checked_sub(1).map_or(0, |at| all[at].weight)
            });
            let over = left.take(places.len(), |at| places[at].weight - before)?;
            Some(places[over].number)
        })
    }

    fn copy_fresh(&self, at: u64) -> Chunk {
        let bytes = &self.fresh[(at - self.fresh_at) as usize..];
        let length = length(bytes).expect("a queued record has its length");
        Chunk { at, bytes: Arc::new(bytes[..length].to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(queue: &mut Queue, number: u64, body: &[u8]) -> bool {
        let keys: &[&[u8]] = &[b"k"];
        queue.append(&Record { number, at_ms: 1, expires_ms: 2, keys, kind: 0, body })
    }

    fn waiter(number: u64) -> Waiter {
        Waiter { number, done: Box::new(|_| {}) }
    }

    #[test]
    fn writer_that_waits_is_woken_once_and_one_that_sleeps_shortly_by_who_waits_or_by_many_bytes() {
        let mut queue = Queue::new(0, 7);
        assert!(!append(&mut queue, 1, b""), "it works");
        queue.writer = WriterState::Waits;
        assert!(append(&mut queue, 2, b""));
        assert!(!append(&mut queue, 3, b""), "it is on its way");
        queue.writer = WriterState::ShortSleep;
        assert!(!append(&mut queue, 4, b""));
        assert!(queue.wait(waiter(4)));
        assert!(!queue.wait(waiter(4)), "it is on its way");
        queue.writer = WriterState::ShortSleep;
        assert!(append(&mut queue, 5, &[0; SHORT_SLEEP_BYTES_MAX]));
    }

    #[test]
    fn records_that_take_the_bytes_are_found_with_one_more() {
        let mut queue = Queue::new(0, 7);
        for number in 1..=4 {
            append(&mut queue, number, b"body");
        }
        let bytes = length(&queue.fresh).unwrap();
        for (most, found) in [(1, 2), (bytes, 2), (bytes + 1, 3), (2 * bytes, 3), (9 * bytes, 4)] {
            for newest_first in [false, true] {
                let read = queue.find(b"k", (0, u64::MAX), newest_first, (9, most));
                assert_eq!(read.len(), found, "of {most} bytes");
            }
        }
    }
}
