//! What a shard can do to the world: a few calls on a socket.
//!
//! Three implementers: the kernel's sockets, the simulator's, in which whole crowds run by seed,
//! and [TLS](crate::tls) on either of them.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;

use crate::state::Secured;

/// The sockets of a shard.
pub(crate) trait Sockets {
    /// An open connection. Whoever holds it must [`Sockets::close`] it.
    type Socket;

    /// Receives into `buffer`; 0 bytes are the end of the client's side, `WouldBlock` is nothing
    /// yet, and `InvalidData` that what came breaks the rules.
    fn receive(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> io::Result<Received>;

    /// Sends the start of `parts`, as much as there is room for; `WouldBlock` is no room at all.
    /// Whoever is told that it was not all sends exactly the rest next, before anything else.
    fn send(&mut self, socket: &Self::Socket, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Ends our side: the client reads the end of the stream.
    fn shutdown(&mut self, socket: &Self::Socket);

    /// The other end, where that is an address.
    fn peer(&self, _socket: &Self::Socket) -> Option<SocketAddr> {
        None
    }

    /// Closes. With `abort` the client gets a reset and the kernel forgets what is unsent.
    fn close(&mut self, socket: Self::Socket, abort: bool);

    /// The descriptor of a connection, of which a copy goes to whoever else in this process goes on
    /// with it; `None` where it has none.
    fn descriptor<'s>(&self, _socket: &'s Self::Socket) -> Option<BorrowedFd<'s>> {
        None
    }

    /// Lets go of a connection that somebody else in this process has a copy of, and goes on with.
    fn let_go(&mut self, socket: Self::Socket) {
        self.close(socket, false);
    }

    /// The connection, which is `owner`'s, goes on with a handshake, of which `begun` is received
    /// already.
    fn secure(&mut self, _socket: &Self::Socket, _owner: u32, _begun: &[u8]) {}

    /// The owner of a connection that is to be closed before its handshake is done, because more
    /// have begun one than may. To be asked until there is none.
    fn take_stalled(&mut self) -> Option<u32> {
        None
    }

    /// Goes on with that, as far as its client lets it. `false` is that it is not done yet;
    /// `UnexpectedEof` that the client has ended its side, which is found where it `hung_up`.
    fn handshake(&mut self, _socket: &Self::Socket, _hung_up: bool) -> io::Result<bool> {
        Ok(true)
    }

    /// What there is below of the connection beside the socket, for another process; an error where
    /// that cannot be written down.
    fn write_down(&self, _socket: &Self::Socket) -> Result<Option<Secured>, Unwritable> {
        Ok(None)
    }

    /// Goes on with that, on a connection of `owner`. Whether there is something to read that
    /// nobody will report.
    fn take_over(&mut self, _socket: &Self::Socket, _owner: u32, _secured: Secured) -> bool {
        false
    }

    /// The bytes that are kept below for the connection, beside what a silent one has.
    fn kept_bytes(&self, _socket: &Self::Socket) -> usize {
        0
    }

    /// The bytes that were taken of us and are kept below since the kernel has no room for them.
    fn unsent_bytes(&self, _socket: &Self::Socket) -> usize {
        0
    }

    /// What the calls since the last time have cost beside themselves, as
    /// [`work`](crate::limits::work) counts.
    fn take_work(&mut self) -> u32 {
        0
    }
}

/// What is below cannot be written down: rustls is in the midst of a handshake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Unwritable;

/// What was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Received {
    /// Bytes in the buffer.
    pub(crate) len: usize,
    /// There was no more: what comes later is reported anew.
    pub(crate) emptied: bool,
}

impl Received {
    /// What was read of a socket into `room` bytes: a short read has emptied it.
    pub(crate) fn of(len: usize, room: usize) -> Received {
        Received { len, emptied: len < room }
    }
}
