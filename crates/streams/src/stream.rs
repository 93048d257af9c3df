//! A stream in use: what readers see of it, and who waits for more.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

use crate::file::Meta;
use crate::lifetime::Lifetime;
use crate::offset::Offset;
use crate::state::State;

/// A path that is in use, whether there is a stream at it or not.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) path: Box<str>,
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
    /// Live readers, which hold it alive.
    live: u32,
    /// Who waits, by number: one more costs the same however many there are.
    waiting: HashMap<u64, Waker>,
    /// The number of the next who waits.
    next_number: u64,
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

    /// Whether what is here now is known not to be the stream of `meta`.
    pub(crate) fn is_another(&self, meta: &Meta) -> bool {
        self.known && self.meta.as_ref().is_none_or(|here| here.id != meta.id)
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
        Arc::new(Stream { path: path.into(), writer, public })
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
}

impl Drop for LiveReader {
    fn drop(&mut self) {
        let now_ms = (self.clock)();
        let mut public = self.stream.public.lock();
        public.waiting.remove(&self.number);
        public.live -= 1;
        public.touched_ms = public.touched_ms.max(now_ms);
    }
}
