//! A network of fake sockets, with room and faults as a test wants them, and reports as the kernel
//! makes them (epoll(7), `EPOLLET`).
//!
//! A report comes once per edge: bytes of the client have come, its end has, or there is room again
//! after there was too little. It then says all that is so at that moment. What a shard leaves
//! unread is reported to nobody: it has to remember. A read is short only when it has emptied the
//! socket.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;

use crate::limits::work;
use crate::slab::Key;
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
    /// How many bytes the server has sent, and how many of them went out before its last turn.
    pub(super) sent: usize,
    /// How many bytes `to_client` may hold.
    pub(super) room: usize,
    pub(super) client_ended: bool,
    pub(super) client_reset: bool,
    pub(super) server_ended: bool,
    pub(super) server_closed: bool,
    /// The server was told that there is no room and waits for a report.
    pub(super) starved: bool,
    /// There was an edge since the last report.
    edge: bool,
    /// Which connection of the shard it is.
    key: Option<Key>,
}

/// What a report of a connection says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) slot: u32,
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) hung_up: bool,
}

impl Wire {
    fn new(room: usize) -> Wire {
        // Who is put under an epoll is reported at once if there is room.
        Wire { room, edge: true, ..Wire::default() }
    }

    pub(super) fn client_sends(&mut self, bytes: &[u8]) {
        self.to_server.extend(bytes);
        self.edge |= !bytes.is_empty();
    }

    /// The client reads up to `len` bytes.
    pub(super) fn client_reads(&mut self, len: usize) -> Vec<u8> {
        let len = len.min(self.to_client.len());
        let read = self.to_client.drain(..len).collect();
        if len > 0 {
            self.edge |= std::mem::take(&mut self.starved);
        }
        read
    }

    pub(super) fn client_ends(&mut self) {
        self.client_ended = true;
        self.edge = true;
    }

    pub(super) fn client_resets(&mut self) {
        self.client_reset = true;
        self.to_server.clear();
        self.edge = true;
    }

    /// What epoll says of it, if it has to say anything.
    pub(super) fn report(&mut self) -> Option<Report> {
        let slot = self.key?.slot;
        if self.server_closed || !std::mem::take(&mut self.edge) {
            return None;
        }
        let hung_up = self.client_ended || self.client_reset;
        let readable = hung_up || !self.to_server.is_empty();
        let writable = self.client_reset || self.to_client.len() < self.room;
        Some(Report { slot, readable, writable, hung_up })
    }

    /// Whether the server may still be sending on it.
    pub(super) fn is_open(&self) -> bool {
        !self.server_closed && !self.server_ended
    }
}

/// All wires of one shard, which holds them too.
#[derive(Clone, Debug, Default)]
pub(super) struct Net {
    wires: Rc<RefCell<Vec<Wire>>>,
    /// What the calls have cost, as [`work`] counts them.
    cost: Rc<Cell<u32>>,
}

impl Net {
    /// A client connects, for whom the kernel takes so many bytes. Answers its socket.
    pub(super) fn connect(&self, room: usize) -> usize {
        self.wires.borrow_mut().push(Wire::new(room));
        self.wires.borrow().len() - 1
    }

    /// The shard has accepted a socket as this connection.
    pub(super) fn accepted(&self, socket: usize, key: Key) {
        self.wire(socket).key = Some(key);
    }

    pub(super) fn wire(&self, socket: usize) -> RefMut<'_, Wire> {
        RefMut::map(self.wires.borrow_mut(), |wires| &mut wires[socket])
    }

    pub(super) fn wires(&self) -> usize {
        self.wires.borrow().len()
    }

    /// What the calls since the last time that somebody asked have cost.
    pub(super) fn take_cost(&self) -> u32 {
        self.cost.take()
    }

    fn spend(&self, cost: u32) {
        self.cost.set(self.cost.get().saturating_add(cost));
    }
}

impl Sockets for Net {
    type Socket = usize;

    fn receive(&mut self, &socket: &usize, buffer: &mut [u8]) -> io::Result<usize> {
        let mut wire = self.wire(socket);
        assert!(!wire.server_closed, "receive on a closed socket");
        self.spend(work::READ);
        if wire.client_reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if wire.to_server.is_empty() {
            return if wire.client_ended { Ok(0) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let len = buffer.len().min(wire.to_server.len());
        for byte in &mut buffer[..len] {
            *byte = wire.to_server.pop_front().unwrap();
        }
        wire.received += len;
        self.spend(len as u32 / work::BYTES);
        Ok(len)
    }

    fn send(&mut self, &socket: &usize, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut wire = self.wire(socket);
        assert!(wire.is_open(), "send after the end");
        self.spend(work::WRITE);
        if wire.client_reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = wire.room - wire.to_client.len();
        let whole: usize = parts.iter().map(|part| part.len()).sum();
        wire.to_client.extend(parts.iter().flat_map(|part| part.iter()).take(room));
        wire.sent += room.min(whole);
        wire.starved |= room < whole;
        if room == 0 && whole > 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(whole.min(room)) }
    }

    fn shutdown(&mut self, &socket: &usize) {
        self.wire(socket).server_ended = true;
    }

    fn close(&mut self, socket: usize, abort: bool) {
        let mut wire = self.wire(socket);
        assert!(!wire.server_closed, "closed twice");
        wire.server_closed = true;
        if abort {
            wire.to_client.clear();
        }
    }
}
