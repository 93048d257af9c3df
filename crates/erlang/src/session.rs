//! What a connected node tells us: frames, many at a time, out of one buffer.
//!
//! A batch is all whole frames that have come, in one allocation of about their length: a message
//! costs none, and what waits to be handled can be counted in bytes. Of large frames one is held at
//! a time, of all nodes; its place is free when the batch that it came in is dropped.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::sync::OwnedSemaphorePermit;
#[cfg(test)]
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::connections::Connections;
use crate::control::HEAD_BYTES_MAX;
use crate::limits::{
    FRAME_BYTES_MAX, LARGE_FRAME_BYTES, LARGE_FRAME_PAUSE_MAX, LARGE_FRAME_TIME_MAX, READ_BYTES,
};
use crate::peer::{End, Peer};

/// The reading end of a connection to a node. Dropping it ends the connection.
#[derive(Debug)]
pub struct Session {
    connections: Arc<Connections>,
    peer: Arc<Peer>,
    socket: OwnedReadHalf,
    silence_max: Duration,
    frames: Frames,
    /// When a large frame that is on its way must be here.
    large_until: Option<Instant>,
}

/// What a node has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// Whole frames, for [`frames`] to take apart.
    Frames(Bytes),
    /// What a frame that is passed over begins with, for [`caller`](crate::control::caller), and
    /// why it is.
    PassedOver(Bytes, PassedOver),
}

/// Why a frame is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassedOver {
    /// It is longer than any may be.
    TooLong,
    /// Another large frame had the place for too long.
    NoPlace,
}

impl Session {
    pub(super) fn new(
        connections: Arc<Connections>,
        peer: Arc<Peer>,
        socket: OwnedReadHalf,
        silence_max: Duration,
    ) -> Session {
        let frames = Frames::default();
        Session { connections, peer, socket, silence_max, frames, large_until: None }
    }

    /// The place for large frames.
    #[cfg(test)]
    pub(crate) fn large_frames(&self) -> &Arc<Semaphore> {
        self.connections.large_frames()
    }

    /// The node, as one tells it something.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// What comes next. Ticks are answered here.
    pub async fn read(&mut self) -> Result<Incoming, End> {
        loop {
            let next = self.frames.next();
            if mem::take(&mut self.frames.ticks) > 0 {
                self.peer.received_tick();
            }
            match next {
                Next::Frames(batch) => return Ok(Incoming::Frames(batch)),
                Next::TooLong => return Ok(self.pass_over(PassedOver::TooLong)),
                Next::WantsPlace => match self.place().await? {
                    Some(place) => {
                        debug_assert!(self.frames.place.is_none(), "it waited for its own place");
                        self.frames.place = Some(place);
                        self.large_until = Some(Instant::now() + LARGE_FRAME_TIME_MAX);
                    }
                    None => return Ok(self.pass_over(PassedOver::NoPlace)),
                },
                Next::Missing => {
                    self.fill().await.inspect_err(|&end| self.peer.close(end))?;
                }
            }
        }
    }

    fn pass_over(&mut self, why: PassedOver) -> Incoming {
        self.connections.count_oversized();
        Incoming::PassedOver(self.frames.pass_over(), why)
    }

    /// The place for a large frame, which is waited for a little. Others have it until what is in
    /// theirs is done: as long as it takes to come, and to store some million subscriptions.
    async fn place(&self) -> Result<Option<OwnedSemaphorePermit>, End> {
        let place = Arc::clone(self.connections.large_frames()).acquire_owned();
        tokio::select! {
            place = timeout(LARGE_FRAME_PAUSE_MAX, place) => Ok(place.ok().and_then(Result::ok)),
            end = self.peer.ended() => Err(end),
        }
    }

    async fn fill(&mut self) -> Result<(), End> {
        let Session { peer, socket, frames, silence_max, large_until, .. } = self;
        // A byte now and then would keep the place from all others.
        let left = large_until
            .filter(|_| frames.place.is_some())
            .map(|until| until.saturating_duration_since(Instant::now()));
        let (most, late) = match left {
            Some(left) if left < *silence_max => (left, End::Slow),
            _ => (*silence_max, End::Silent),
        };
        tokio::select! {
            read = timeout(most, socket.read_buf(frames.room())) => match read {
                Ok(Ok(0)) => Err(End::Closed),
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(End::Broken),
                Err(_) => Err(late),
            },
            end = peer.ended() => Err(end),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.peer.close(End::Stopped);
        self.connections.forget(&self.peer);
    }
}

/// Bytes on their way to being frames.
#[derive(Debug, Default)]
struct Frames {
    buffer: BytesMut,
    /// Bytes still to come of a frame that is passed over.
    skipping: usize,
    ticks: usize,
    /// For the large frame that comes next.
    place: Option<OwnedSemaphorePermit>,
}

/// What can be done with the bytes that have come.
#[derive(Debug)]
enum Next {
    /// All whole frames; ticks are counted and stay among them.
    Frames(Bytes),
    /// The next frame is too long, and its head is here.
    TooLong,
    /// The next frame is large, and its head is here.
    WantsPlace,
    /// Nothing before more has come.
    Missing,
}

impl Frames {
    /// Where further bytes go.
    fn room(&mut self) -> &mut BytesMut {
        let wanted = match length(&self.buffer) {
            Some(len) if self.may_be_whole(len) => 4 + len,
            _ => 0,
        };
        self.buffer.reserve(wanted.saturating_sub(self.buffer.len()).max(READ_BYTES));
        &mut self.buffer
    }

    /// Whether a frame of that length may be held.
    fn may_be_whole(&self, len: usize) -> bool {
        len <= LARGE_FRAME_BYTES || (len <= FRAME_BYTES_MAX && self.place.is_some())
    }

    fn next(&mut self) -> Next {
        let skipped = self.skipping.min(self.buffer.len());
        self.buffer.advance(skipped);
        self.skipping -= skipped;
        debug_assert!(self.skipping == 0 || self.buffer.is_empty(), "a payload is no frame");
        let (mut end, mut with_large) = (0, false);
        let next = loop {
            let Some(len) = length(&self.buffer[end..]) else { break Next::Missing };
            let here = self.buffer.len() - end;
            if !self.may_be_whole(len) {
                match len {
                    _ if here < 4 + HEAD_BYTES_MAX => break Next::Missing,
                    ..=FRAME_BYTES_MAX => break Next::WantsPlace,
                    _ => break Next::TooLong,
                }
            }
            if here < 4 + len {
                break Next::Missing;
            }
            with_large |= len > LARGE_FRAME_BYTES;
            self.ticks += usize::from(len == 0);
            end += 4 + len;
        };
        if end == 0 {
            return next;
        }
        debug_assert!(end <= self.buffer.len());
        let batch = self.split_to(end);
        debug_assert_eq!(batch.len(), end, "frames are handed out whole");
        Next::Frames(match self.place.take_if(|_| with_large) {
            Some(place) => Bytes::from_owner(BatchWithPlace { batch, _place: place }),
            None => batch,
        })
    }

    /// Passes over the frame that the buffer begins with; answers its head.
    fn pass_over(&mut self) -> Bytes {
        debug_assert!(self.skipping == 0 && self.buffer.len() >= 4 + HEAD_BYTES_MAX);
        self.skipping = 4 + length(&self.buffer).unwrap_or_default();
        Bytes::copy_from_slice(&self.buffer[4..4 + HEAD_BYTES_MAX])
    }

    /// Takes `end` bytes off. Few are copied, or a batch that waits would keep the whole buffer; of
    /// many what stands behind them is, or the buffer would keep the length of the longest frame.
    fn split_to(&mut self, end: usize) -> Bytes {
        if end > READ_BYTES / 2 {
            let behind = BytesMut::from(&self.buffer[end..]);
            let mut batch = mem::replace(&mut self.buffer, behind);
            batch.truncate(end);
            return batch.freeze();
        }
        let batch = Bytes::copy_from_slice(&self.buffer[..end]);
        self.buffer.advance(end);
        batch
    }
}

/// A batch with a large frame in it, which has the place of these until it is dropped.
struct BatchWithPlace {
    batch: Bytes,
    _place: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for BatchWithPlace {
    fn as_ref(&self) -> &[u8] {
        &self.batch
    }
}

/// The length of the frame that `bytes` begin with.
fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|len| u32::from_be_bytes(*len) as usize)
}

/// The frames of a batch, without their lengths and without ticks.
pub fn frames(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = batch;
    let next = move || {
        let (frame, behind) = rest.get(4..)?.split_at_checked(length(rest)?)?;
        rest = behind;
        Some(frame)
    };
    std::iter::from_fn(next).filter(|frame| !frame.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Frames {
        /// All whole frames.
        fn cut(&mut self) -> Bytes {
            match self.next() {
                Next::Frames(batch) => batch,
                _ => Bytes::new(),
            }
        }
    }

    fn frame(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    #[test]
    fn frames_come_out_whole_wherever_the_bytes_are_cut() {
        let wire = [frame(b"one"), frame(b""), frame(b"two"), frame(b"")].concat();
        for cut in 0..=wire.len() {
            let mut frames_in = Frames::default();
            let mut heard: Vec<Vec<u8>> = Vec::new();
            for piece in [&wire[..cut], &wire[cut..]] {
                frames_in.room().extend_from_slice(piece);
                let batch = frames_in.cut();
                heard.extend(frames(&batch).map(<[u8]>::to_vec));
            }
            assert_eq!(heard, [b"one", b"two"], "cut at {cut}");
            assert_eq!((frames_in.ticks, frames_in.buffer.len()), (2, 0));
        }
    }

    #[test]
    fn small_batch_that_waits_keeps_no_more_than_itself() {
        let mut frames_in = Frames::default();
        for _ in 0..100 {
            frames_in.room().extend_from_slice(&frame(b"small"));
            let batch = frames_in.cut();
            assert!(batch.len() == 9 && batch.is_unique());
        }
        let large = frame(&vec![1; READ_BYTES]);
        frames_in.room().extend_from_slice(&large);
        assert_eq!(frames_in.cut(), large);
    }

    /// A frame's length and its head.
    fn head(len: usize) -> Vec<u8> {
        [&(len as u32).to_be_bytes()[..], &[1; HEAD_BYTES_MAX]].concat()
    }

    #[test]
    fn frame_that_is_too_long_is_passed_over() {
        let mut frames_in = Frames::default();
        let long = FRAME_BYTES_MAX + 1;
        let wire = [frame(b"one"), head(long)].concat();
        frames_in.room().extend_from_slice(&wire[..wire.len() - 1]);
        assert_eq!(frames(&frames_in.cut()).next(), Some(&b"one"[..]));
        assert!(matches!(frames_in.next(), Next::Missing), "its head is not whole");
        frames_in.room().extend_from_slice(&wire[wire.len() - 1..]);
        assert!(matches!(frames_in.next(), Next::TooLong));
        assert_eq!(frames_in.pass_over(), &[1; HEAD_BYTES_MAX][..]);
        let mut left = long - HEAD_BYTES_MAX;
        while left > 0 {
            let piece = left.min(READ_BYTES);
            frames_in.room().extend_from_slice(&vec![0; piece]);
            left -= piece;
            assert!(frames_in.cut().is_empty());
            assert!(frames_in.buffer.capacity() <= 4 * READ_BYTES);
        }
        frames_in.room().extend_from_slice(&frame(b"two"));
        assert_eq!(frames(&frames_in.cut()).next(), Some(&b"two"[..]));
    }

    #[test]
    fn large_frame_has_its_place_until_its_batch_is_dropped() {
        let places = Arc::new(Semaphore::new(1));
        let mut frames_in = Frames::default();
        let large = vec![1; LARGE_FRAME_BYTES + 1];
        let wire = [frame(b"one"), frame(&large), frame(b"two")].concat();
        frames_in.room().extend_from_slice(&wire[..20 + HEAD_BYTES_MAX]);
        assert_eq!(frames_in.cut(), frame(b"one"));
        assert!(matches!(frames_in.next(), Next::WantsPlace));
        assert!(frames_in.room().capacity() < LARGE_FRAME_BYTES, "nothing is held for it yet");
        frames_in.place = Some(Arc::clone(&places).try_acquire_owned().unwrap());
        assert!(frames_in.cut().is_empty());
        frames_in.room().extend_from_slice(&wire[20 + HEAD_BYTES_MAX..]);
        let batch = frames_in.cut();
        assert!(frames(&batch).eq([&large[..], b"two"]));
        assert_eq!((places.available_permits(), frames_in.place.is_none()), (0, true));
        let part = batch.slice_ref(frames(&batch).next().unwrap());
        drop(batch);
        assert_eq!(places.available_permits(), 0, "a part of it keeps it");
        drop(part);
        assert_eq!(places.available_permits(), 1);
        assert!(frames_in.buffer.capacity() <= 4 * READ_BYTES, "the buffer is small again");
    }
}
