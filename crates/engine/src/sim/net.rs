//! A network of fake sockets, with room and faults as a test wants them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;

use crate::sockets::Sockets;

/// One connection, seen from both ends.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// Sent by the client, not yet received by the server.
    pub(super) to_server: VecDeque<u8>,
    /// Sent by the server, not yet read by the client.
    pub(super) to_client: VecDeque<u8>,
    /// How many bytes the server has received.
    pub(super) received: usize,
    /// How many bytes `to_client` may hold.
    pub(super) room: usize,
    /// Most bytes that one receive of the server gets.
    pub(super) piece: usize,
    pub(super) client_ended: bool,
    pub(super) client_reset: bool,
    pub(super) server_ended: bool,
    pub(super) server_closed: bool,
    /// The server was told that there is no room and waits for a report.
    pub(super) starved: bool,
    /// Edges that are still to be reported.
    pub(super) readable: bool,
    pub(super) writable: bool,
}

impl Wire {
    pub(super) fn new(room: usize, piece: usize) -> Wire {
        Wire { room, piece, ..Wire::default() }
    }

    pub(super) fn client_sends(&mut self, bytes: &[u8]) {
        self.to_server.extend(bytes);
        self.readable = true;
    }

    /// The client reads up to `len` bytes.
    pub(super) fn client_reads(&mut self, len: usize) -> Vec<u8> {
        let len = len.min(self.to_client.len());
        let read = self.to_client.drain(..len).collect();
        if len > 0 && std::mem::take(&mut self.starved) {
            self.writable = true;
        }
        read
    }

    pub(super) fn client_ends(&mut self) {
        self.client_ended = true;
        self.readable = true;
    }

    pub(super) fn client_resets(&mut self) {
        self.client_reset = true;
        self.to_server.clear();
        (self.readable, self.writable) = (true, true);
    }
}

/// All wires of one shard; the world and the shard both hold it.
#[derive(Clone, Debug, Default)]
pub(super) struct Net(pub(super) Rc<RefCell<Vec<Wire>>>);

impl Sockets for Net {
    type Socket = usize;

    fn receive(&mut self, &socket: &usize, buffer: &mut [u8]) -> io::Result<usize> {
        let wire = &mut self.0.borrow_mut()[socket];
        assert!(!wire.server_closed, "receive on a closed socket");
        if wire.client_reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if wire.to_server.is_empty() {
            return if wire.client_ended { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let len = wire.piece.min(buffer.len()).min(wire.to_server.len());
        for byte in &mut buffer[..len] {
            *byte = wire.to_server.pop_front().unwrap();
        }
        wire.received += len;
        // What a short read leaves behind is reported anew, as by a packet that came a bit later.
        wire.readable |= !wire.to_server.is_empty();
        Ok(len)
    }

    fn send(&mut self, &socket: &usize, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let wire = &mut self.0.borrow_mut()[socket];
        assert!(!wire.server_closed && !wire.server_ended, "send after the end");
        if wire.client_reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = wire.room - wire.to_client.len();
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        wire.to_client.extend(parts.iter().flat_map(|part| part.iter()).take(room));
        wire.starved |= room < whole;
        if room == 0 && whole > 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(whole.min(room)) }
    }

    fn shutdown(&mut self, &socket: &usize) {
        self.0.borrow_mut()[socket].server_ended = true;
    }

    fn close(&mut self, socket: usize, abort: bool) {
        let wire = &mut self.0.borrow_mut()[socket];
        assert!(!wire.server_closed, "closed twice");
        wire.server_closed = true;
        if abort {
            wire.to_client.clear();
        }
    }
}
