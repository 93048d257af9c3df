//! What a connected node tells us: frames, many at a time, out of one buffer.
//!
//! A batch is all whole frames that have come, in one allocation of about their length: a message
//! costs none, and what waits to be handled can be counted in bytes.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

use crate::connections::Connections;
use crate::limits::{FRAME_BYTES_MAX, READ_BYTES};
use crate::peer::{End, Peer};

/// The reading end of a connection to a node. Dropping it ends the connection.
#[derive(Debug)]
pub struct Session {
    connections: Arc<Connections>,
    peer: Arc<Peer>,
    socket: OwnedReadHalf,
    silence_max: Duration,
    frames: Frames,
}

impl Session {
    pub(super) fn new(
        connections: Arc<Connections>,
        peer: Arc<Peer>,
        socket: OwnedReadHalf,
        silence_max: Duration,
    ) -> Session {
        Session { connections, peer, socket, silence_max, frames: Frames::default() }
    }

    /// The node, as one tells it something.
    pub fn peer(&self) -> &Arc<Peer> {
        &self.peer
    }

    /// The next frames, for [`frames`] to take apart. Ticks are answered here.
    pub async fn read(&mut self) -> Result<Bytes, End> {
        loop {
            let batch = self.frames.cut();
            if std::mem::take(&mut self.frames.ticks) > 0 {
                self.peer.received_tick();
            }
            self.connections.count_oversized(std::mem::take(&mut self.frames.oversized));
            if !batch.is_empty() {
                return Ok(batch);
            }
            self.fill(self.silence_max).await.inspect_err(|&end| self.peer.close(end))?;
        }
    }

    async fn fill(&mut self, silence_max: Duration) -> Result<(), End> {
        let Session { peer, socket, frames, .. } = self;
        tokio::select! {
            read = timeout(silence_max, socket.read_buf(frames.room())) => match read {
                Ok(Ok(0)) => Err(End::Closed),
                Ok(Ok(_)) => Ok(()),
                Ok(Err(_)) => Err(End::Broken),
                Err(_) => Err(End::Silent),
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
    /// Bytes still to come of a frame that is too long.
    skipping: usize,
    ticks: usize,
    oversized: u64,
}

impl Frames {
    /// Where further bytes go.
    fn room(&mut self) -> &mut BytesMut {
        let wanted = length(&self.buffer).map_or(0, |len| (4 + len).min(4 + FRAME_BYTES_MAX));
        let more = wanted.saturating_sub(self.buffer.len()).max(READ_BYTES);
        self.buffer.reserve(more);
        &mut self.buffer
    }

    /// All whole frames; ticks are counted and stay among them.
    fn cut(&mut self) -> Bytes {
        loop {
            let skipped = self.skipping.min(self.buffer.len());
            self.buffer.advance(skipped);
            self.skipping -= skipped;
            let mut end = 0;
            let next = loop {
                let Some(len) = length(&self.buffer[end..]) else { break None };
                if len > FRAME_BYTES_MAX || self.buffer.len() - end < 4 + len {
                    break Some(len);
                }
                self.ticks += usize::from(len == 0);
                end += 4 + len;
            };
            if end > 0 || next.is_none_or(|len| len <= FRAME_BYTES_MAX) {
                return self.split_to(end);
            }
            self.oversized += 1;
            self.skipping = 4 + next.unwrap_or_default();
        }
    }
}

impl Frames {
    /// Takes `end` bytes off. Few are copied, or a batch that waits would keep the whole buffer.
    fn split_to(&mut self, end: usize) -> Bytes {
        if end > READ_BYTES / 2 {
            return self.buffer.split_to(end).freeze();
        }
        let batch = Bytes::copy_from_slice(&self.buffer[..end]);
        self.buffer.advance(end);
        batch
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

    #[test]
    fn frame_that_is_too_long_is_passed_over_and_counted() {
        let mut frames_in = Frames::default();
        let long = FRAME_BYTES_MAX + 1;
        let head = [frame(b"one"), (long as u32).to_be_bytes().to_vec()].concat();
        frames_in.room().extend_from_slice(&head);
        assert_eq!(frames(&frames_in.cut()).next(), Some(&b"one"[..]));
        assert!(frames_in.cut().is_empty());
        let mut left = long;
        while left > 0 {
            let piece = left.min(READ_BYTES);
            frames_in.room().extend_from_slice(&vec![0; piece]);
            left -= piece;
            assert!(frames_in.cut().is_empty());
            assert!(frames_in.buffer.capacity() <= 4 * READ_BYTES);
        }
        frames_in.room().extend_from_slice(&frame(b"two"));
        assert_eq!(frames(&frames_in.cut()).next(), Some(&b"two"[..]));
        assert_eq!(frames_in.oversized, 1);
    }
}
