//! What a shard can do to the world: five calls on a socket.
//!
//! Two implementers: the epoll worker, and the simulator in which whole crowds run by seed.

use std::io::{self, IoSlice};

/// The sockets of a shard.
pub(crate) trait Sockets {
    /// An open connection. Whoever holds it must [`Sockets::close`] it.
    type Socket;

    /// Receives into `buffer`; 0 is the end of the client's side, `WouldBlock` is nothing yet.
    fn receive(&mut self, socket: &Self::Socket, buffer: &mut [u8]) -> io::Result<usize>;

    /// Sends the start of `parts`, as much as there is room for; `WouldBlock` is no room at all.
    fn send(&mut self, socket: &Self::Socket, parts: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Ends our side: the client reads the end of the stream.
    fn shutdown(&mut self, socket: &Self::Socket);

    /// Closes. With `abort` the client gets a reset and the kernel forgets what is unsent.
    fn close(&mut self, socket: Self::Socket, abort: bool);
}
