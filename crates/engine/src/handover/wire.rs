//! Frames between a worker that gives and one that takes, over a Unix stream socket.
//!
//! A frame is twelve bytes and a body: its kind, the length of the body and how many descriptors go
//! with it, in little-endian order. Descriptors travel with the first byte of their frame, and are
//! counted off in their order.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use sys::passing;
use zeroize::{Zeroize, Zeroizing};

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Who gives: the number of the worker, a `u32`. Comes first.
    Sender = 1,
    /// Copies of descriptors, with the number of each at the sender, a `u32`.
    Copies = 2,
    /// Listeners, and of each a byte: whether TLS is spoken there.
    Listeners = 3,
    /// States of connections whose descriptors were copied.
    States = 4,
    /// States of connections, and the descriptor of each.
    Newcomers = 5,
    /// The end, with how many connections there were, a `u64`.
    End = 6,
    /// Lists of grants that connections behind it have, one in each line
    /// ([`topics::Topics::expect_list`]).
    Lists = 7,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Copies, End, Listeners, Lists, Newcomers, Sender, States};
        let kinds = [Sender, Copies, Listeners, States, Newcomers, End, Lists];
        kinds.into_iter().find(|kind| *kind as u8 == byte)
    }
}

const HEAD_BYTES: usize = 12;

/// The longest body: more than the longest state, which holds a client's buffers.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Bytes that are read at a time.
const READ_BYTES: usize = 256 << 10;

/// Sends one frame to its end. On a socket that does not wait `false` is that there is no room, and
/// nothing was sent.
pub(super) fn send(
    way: &mut Way,
    kind: Kind,
    body: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<bool> {
    if !way.flush()? {
        return Ok(false);
    }
    let mut head = [0; HEAD_BYTES];
    head[0] = kind as u8;
    head[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[8..12].copy_from_slice(&(descriptors.len() as u32).to_le_bytes());
    let parts = [IoSlice::new(&head), IoSlice::new(body)];
    let sent = match passing::send(&way.socket, &parts, descriptors) {
        Ok(sent) => sent,
        // So many may be on their way at a time.
        Err(error) if error.kind() == ErrorKind::WouldBlock || passing::is_crowded(&error) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let whole = head.len() + body.len();
    if sent < whole {
        let rest = head.iter().chain(body).skip(sent);
        *way.unsent = rest.copied().collect();
    }
    Ok(true)
}

/// The way to one who takes.
pub(super) struct Way {
    pub(super) socket: UnixStream,
    /// What there was no room for of a frame that has begun.
    unsent: Zeroizing<Vec<u8>>,
}

impl Way {
    pub(super) fn new(socket: UnixStream) -> Way {
        Way { socket, unsent: Zeroizing::default() }
    }

    /// Sends what is left of a frame. Whether it is all gone.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while !self.unsent.is_empty() {
            match passing::send(&self.socket, &[IoSlice::new(&self.unsent)], &[]) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// What comes of one who gives.
pub(super) struct Source {
    pub(super) socket: UnixStream,
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// What comes may have keys in it.
impl Drop for Source {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

/// A whole frame.
pub(super) struct Frame {
    pub(super) kind: Kind,
    pub(super) body: Zeroizing<Vec<u8>>,
    pub(super) descriptors: VecDeque<OwnedFd>,
}

impl Source {
    pub(super) fn new(socket: UnixStream) -> Source {
        Source { socket, bytes: Vec::new(), descriptors: Vec::new() }
    }

    /// Reads what is there; `false` at the end of it all.
    pub(super) fn read(&mut self) -> io::Result<bool> {
        let len = self.bytes.len();
        self.bytes.resize(len + READ_BYTES, 0);
        let read = passing::receive(&self.socket, &mut self.bytes[len..], &mut self.descriptors);
        self.bytes.truncate(len + read.as_ref().copied().unwrap_or_default());
        match read {
            Ok(read) => Ok(read > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// All frames that are whole.
    pub(super) fn frames(&mut self) -> io::Result<Vec<Frame>> {
        let broken = || io::Error::new(ErrorKind::InvalidData, "a frame that cannot be");
        let (mut frames, mut used) = (Vec::new(), 0);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &b| sum << 8 | usize::from(b));
        while let Some(head) = self.bytes.get(used..used + HEAD_BYTES) {
            let kind = Kind::of(head[0]).ok_or_else(broken)?;
            let (len, count) = (number(&head[4..8]), number(&head[8..12]));
            if len > BODY_BYTES_MAX || count > passing::DESCRIPTORS_MAX {
                return Err(broken());
            }
            let body = used + HEAD_BYTES..used + HEAD_BYTES + len;
            let Some(bytes) = self.bytes.get(body.clone()) else { break };
            if count > self.descriptors.len() {
                return Err(broken());
            }
            let descriptors = self.descriptors.drain(..count).collect();
            frames.push(Frame { kind, body: Zeroizing::new(bytes.to_vec()), descriptors });
            used = body.end;
        }
        self.bytes.drain(..used);
        Ok(frames)
    }
}
