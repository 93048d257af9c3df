//! A stream in use: what readers see of it, and who waits for more.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use crate::file::{FileName, Meta, file_name};
use crate::lifetime::Lifetime;
use crate::offset::Offset;
use crate::state::State;

/// Bytes of the last appends that are kept for live readers at most: some tokens, not a file.
const NEWEST_BYTES_MAX: usize = 4 << 10;

/// Appends of which they are at most: how far a reader may be behind and need no disk.
const NEWEST_MAX: usize = 32;

/// A path that is in use, whether there is a stream at it or not.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) path: Box<str>,
    /// Of its file.
    pub(crate) name: FileName,
    /// Held while a disk is waited for: one writer at a time. Without a state there is no stream,
    /// or it is not known yet.
    pub(crate) writer: Mutex<Option<State>>,
    /// Never held for long.
    pub(crate) public: Mutex<Public>,
}

/// What readers see.
#[derive(Debug, Default)]
pub(crate) struct Public {
    /// Whether the file was looked at.
    pub(crate) known: bool,
    /// Nothing where there is no stream.
    pub(crate) meta: Option<Arc<Meta>>,
    /// Up to here all is on disk.
    pub(crate) tail: u64,
    pub(crate) closed: bool,
    pub(crate) touched_ms: u64,
    /// Bytes of the writer's state, as the store has counted them.
    pub(crate) state_bytes: usize,
    /// What was counted of its file, if the disk has failed with it since.
    pub(crate) counted: Option<u64>,
    /// The last appends, one behind the other, if there are live readers and they are short.
    newest: VecDeque<Newest>,
    /// Live readers, which hold it alive.
    live: u32,
    /// Who waits, by number: one more costs the same however many there are.
    waiting: HashMap<u64, Waker>,
    /// The number of the next who waits.
    next_number: u64,
}

/// What one request has appended.
#[derive(Debug)]
struct Newest {
    from: Offset,
    end: u64,
    data: Arc<[u8]>,
}

/// A stream at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) meta: Arc<Meta>,
    pub(crate) tail: u64,
    pub(crate) closed: bool,
}

impl View {
    pub(crate) fn offset(&self, position: u64) -> Offset {
        Offset { id: self.meta.id, position }
    }
}

impl Public {
    pub(crate) fn view(&self) -> Option<View> {
        let meta = Arc::clone(self.meta.as_ref()?);
        Some(View { meta, tail: self.tail, closed: self.closed })
    }

    /// Whether its lifetime has ended.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        let Some(meta) = &self.meta else { return false };
        let is_held = self.live > 0 && matches!(meta.lifetime, Lifetime::Ttl(_));
        !is_held && meta.lifetime.end_ms(self.touched_ms).is_some_and(|end| end <= now_ms)
    }

    /// Wakes all who wait, once what they wait for is written here.
    pub(crate) fn wake(&mut self) {
        self.waiting.drain().for_each(|(_, waker)| waker.wake());
    }
}

impl Stream {
    pub(crate) fn new(path: &str) -> Arc<Stream> {
        let (writer, public) = (Mutex::new(None), Mutex::default());
        Arc::new(Stream { path: path.into(), name: file_name(path), writer, public })
    }

    /// Keeps what is appended between two places, so that live readers need no disk for it, and
    /// as much of what was before. They have it once the stream is shown up to there.
    pub(crate) fn keep_newest(&self, (from, end): (Offset, u64), data: &[u8]) {
        let mut public = self.public.lock();
        let is_kept = public.live > 0 && data.len() <= NEWEST_BYTES_MAX;
        let is_next =
            |last: &Newest| (last.from.id, last.end) == (from.id, from.position) && is_kept;
        let newest = &mut public.newest;
        if !newest.back().is_some_and(is_next) {
            newest.clear();
        }
        if !is_kept {
            return;
        }
        newest.push_back(Newest { from, end, data: data.into() });
        let mut bytes: usize = newest.iter().map(|newest| newest.data.len()).sum();
        while bytes > NEWEST_BYTES_MAX || newest.len() > NEWEST_MAX {
            bytes -= newest.pop_front().map_or(0, |oldest| oldest.data.len());
        }
    }
}

/// A reader that waits for more. As long as there is one, a stream with `Stream-TTL` lives.
#[derive(Debug)]
pub struct LiveReader {
    stream: Arc<Stream>,
    number: u64,
    clock: fn() -> u64,
}

impl LiveReader {
    pub(crate) fn new(stream: Arc<Stream>, clock: fn() -> u64) -> LiveReader {
        let mut public = stream.public.lock();
        public.live += 1;
        public.next_number += 1;
        let number = public.next_number;
        drop(public);
        LiveReader { stream, number, clock }
    }

    /// Waits until there is something behind `offset`, or the stream is closed, or it is gone.
    pub async fn changed(&mut self, offset: Offset) {
        let LiveReader { stream, number, .. } = self;
        poll_fn(|context| {
            let mut public = stream.public.lock();
            let is_same = public.meta.as_ref().is_some_and(|meta| meta.id == offset.id);
            if !is_same || public.closed || public.tail > offset.position {
                return Poll::Ready(());
            }
            public.waiting.insert(*number, context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// The stream, and the data of its last appends, if these are all that there is behind
    /// `offset`.
    pub(crate) fn newest(&self, offset: Offset) -> Option<(View, Vec<Arc<[u8]>>)> {
        let public = self.stream.public.lock();
        let newest = &public.newest;
        let first = newest.binary_search_by_key(&offset.position, |newest| newest.from.position);
        let first = first.ok().filter(|first| newest[*first].from == offset)?;
        let view = public.view().filter(|_| public.known && !public.is_over((self.clock)()))?;
        let last =
            newest.back().filter(|last| (last.from.id, last.end) == (view.meta.id, view.tail));
        let data = newest.iter().skip(first).map(|newest| Arc::clone(&newest.data));
        last.map(|_| (view, data.collect()))
    }
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        let now_ms = (self.clock)();
        let mut public = self.stream.public.lock();
        public.waiting.remove(&self.number);
        public.live -= 1;
        if public.live == 0 {
            public.newest = VecDeque::new();
        }
        public.touched_ms = public.touched_ms.max(now_ms);
    }
}
