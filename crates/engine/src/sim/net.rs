//! A network of fake sockets, with room and faults as a test wants them, and reports as the kernel
//! makes them (epoll(7), `EPOLLET`).
//!
//! A report comes once per edge: bytes of the client have come, its end has, or there is room again
//! after there was too little. It then says all that is so at that moment. What a shard leaves
//! unread is reported to nobody: it has to remember. A read is short only when it has emptied the
//! socket.
//!
//! It sees what calls cost, and when streams are silent: for too long, or not long enough for the
//! keep-alive that a shard sends.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;

use proto::{Carrier, Transport};

use super::scene::STREAMS;
use crate::limits::work;
use crate::reports::Report;
use crate::slab::Key;
use crate::sockets::{Received, Sockets};
use crate::timer::TICK_MS;

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
    /// Bytes of TLS that have come after the server has looked.
    arrived: usize,
    /// A part of a record is sent, whose text the client cannot read yet.
    pub(super) hides: bool,
    /// What the server sends has no end of its own.
    streams: bool,
    /// When the server sent last, as far as it knows what time it is.
    sent_ms: u64,
    /// The kernel had no room for all that it was to send then.
    cut: bool,
    /// At which shard it is, and which connection of that.
    worker: usize,
    key: Option<Key>,
}

impl Wire {
    fn new(worker: usize, room: usize) -> Wire {
        // Who is put under an epoll is reported at once if there is room.
        Wire { worker, room, edge: true, ..Wire::default() }
    }

    pub(super) fn client_sends(&mut self, bytes: &[u8]) {
        self.to_server.extend(bytes);
        self.edge |= !bytes.is_empty();
    }

    /// The client reads up to `len` bytes.
    pub(super) fn client_reads(&mut self, len: usize) -> Vec<u8> {
        let len = len.min(self.to_client.len());
        let read = self.to_client.make_contiguous()[..len].to_vec();
        self.to_client.drain(..len);
        // A record may have brought more text than there was room for.
        if len > 0 && self.to_client.len() < self.room {
            self.edge |= std::mem::take(&mut self.starved);
        }
        read
    }

    /// So many bytes of TLS come to the server later.
    pub(super) fn arrives(&mut self, bytes: usize) {
        self.arrived = bytes;
        self.edge |= bytes > 0;
    }

    /// What there is room for: nothing where there was no room for all, until the client reads.
    pub(super) fn room_left(&self) -> usize {
        if self.starved { 0 } else { self.room.saturating_sub(self.to_client.len()) }
    }

    /// There was no room for all. There is some again when the client reads, or at once where it
    /// has nothing to read.
    pub(super) fn starve(&mut self) {
        self.starved = !self.to_client.is_empty();
        self.edge |= !self.starved;
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
        let readable = hung_up || !self.to_server.is_empty() || self.arrived > 0;
        let writable = self.client_reset || self.to_client.len() < self.room;
        Some(Report { slot, readable, writable, hung_up })
    }

    /// The slot of whom it is, if there is something to report of it.
    pub(super) fn slot(&self) -> Option<u32> {
        Some(self.key.filter(|_| self.has_news())?.slot)
    }

    /// The server sends `bytes` at `now_ms`, of which there is room for so many.
    fn note(&mut self, bytes: &[u8], room: usize, now_ms: u64, keepalive_ms: u64) {
        if self.sent == 0 {
            let is_whole = bytes.windows(16).any(|window| window == b"Content-Length: ");
            self.streams = bytes.starts_with(b"HTTP/1.1 101") || !is_whole;
        }
        // The rest of something that was cut may look like one.
        if !self.cut && is_keep_alive(bytes) {
            let due_ms = self.sent_ms + keepalive_ms;
            assert!(now_ms + TICK_MS > due_ms, "a keep-alive at {now_ms}, due at {due_ms}");
        }
        (self.sent_ms, self.cut) = (now_ms, room < bytes.len());
    }

    /// Whether there is a stream on it that the server could send more on, as the server knows.
    fn flows(&self) -> bool {
        let is_left = self.client_ended || self.client_reset;
        self.streams && self.is_open() && !self.starved && !self.edge && !is_left
    }

    /// Whether there is something to report of it.
    pub(super) fn has_news(&self) -> bool {
        self.edge && !self.server_closed
    }

    /// Whether the server may still be sending on it.
    pub(super) fn is_open(&self) -> bool {
        !self.server_closed && !self.server_ended
    }
}

/// Whether that is all that says that a stream is alive.
fn is_keep_alive(bytes: &[u8]) -> bool {
    let carriers = [Carrier::Chunked, Carrier::Close];
    let of = |transport: &Transport| carriers.map(|carrier| transport.format().keep_alive(carrier));
    STREAMS.iter().flat_map(of).any(|keep_alive| keep_alive == bytes)
}

/// All that a call sends, in one piece.
pub(super) fn gathered(parts: &[IoSlice<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// What a shard sees of all wires, which holds them too.
#[derive(Clone, Debug)]
pub(super) struct Net {
    worker: usize,
    /// Those of all shards: one may be another's when there is a new version of the server.
    wires: Rc<RefCell<Vec<Wire>>>,
    /// What the calls have cost, as [`work`] counts them.
    cost: Rc<Cell<u32>>,
    /// What time it is, as the shard was told.
    now_ms: Rc<Cell<u64>>,
    /// After so much silence a stream is to be kept alive; 0 is never.
    keepalive_ms: u64,
}

impl Net {
    /// A network, as each of so many shards sees it.
    pub(super) fn new(shards: usize, keepalive_ms: u64) -> Vec<Net> {
        let wires = Rc::default();
        let net = |worker| Net {
            worker,
            wires: Rc::clone(&wires),
            cost: Rc::default(),
            now_ms: Rc::default(),
            keepalive_ms,
        };
        (0..shards).map(net).collect()
    }

    /// The same network, for whoever takes the shard's place.
    pub(super) fn for_successor(&self) -> Net {
        Net { cost: Rc::default(), now_ms: Rc::default(), ..self.clone() }
    }

    /// The shard is told what time it is.
    pub(super) fn tell(&self, now_ms: u64) {
        self.now_ms.set(now_ms);
    }

    /// The shard has done all that was due: no stream that flows is silent for too long.
    pub(super) fn check_silence(&self) {
        let now_ms = self.now_ms.get();
        let flows = |wire: &&Wire| self.keepalive_ms > 0 && wire.flows();
        let wires = self.wires.borrow();
        for wire in wires.iter().filter(|wire| wire.worker == self.worker).filter(flows) {
            let silent_ms = now_ms - wire.sent_ms;
            assert!(silent_ms < self.keepalive_ms, "{silent_ms} ms of silence: {wire:?}");
        }
    }

    /// A client connects, for whom the kernel takes so many bytes. Answers its socket.
    pub(super) fn connect(&self, room: usize) -> usize {
        self.wires.borrow_mut().push(Wire::new(self.worker, room));
        self.wires.borrow().len() - 1
    }

    /// The shard has accepted a socket as this connection.
    pub(super) fn accepted(&self, socket: usize, key: Key) {
        self.wire(socket).key = Some(key);
    }

    /// The process to which all connections belonged is gone, and with it what it had under its
    /// epolls.
    pub(super) fn forget_keys(&self) {
        self.wires.borrow_mut().iter_mut().for_each(|wire| wire.key = None);
    }

    /// The shard has put a socket of another process under its epoll, as this connection.
    pub(super) fn taken_over(&self, socket: usize, key: Key) {
        let mut wire = self.wire(socket);
        (wire.worker, wire.key, wire.edge) = (self.worker, Some(key), true);
        // There is room later, and then it is reported.
        wire.starved = wire.to_client.len() >= wire.room;
    }

    /// At which shard a socket is, and which connection of that, as long as it is one.
    pub(super) fn owner(&self, socket: usize) -> Option<(usize, Key)> {
        let wire = self.wire(socket);
        wire.key.map(|key| (wire.worker, key))
    }

    pub(super) fn wire(&self, socket: usize) -> RefMut<'_, Wire> {
        RefMut::map(self.wires.borrow_mut(), |wires| &mut wires[socket])
    }

    /// The sockets of the shard, open or not.
    pub(super) fn sockets(&self) -> Vec<usize> {
        let wires = self.wires.borrow();
        let own = wires.iter().enumerate().filter(|(_, wire)| wire.worker == self.worker);
        own.map(|(socket, _)| socket).collect()
    }

    /// What the calls since the last time that somebody asked have cost.
    pub(super) fn take_cost(&self) -> u32 {
        self.cost.take()
    }

    /// The client has heard `text` of the server, which was sealed.
    pub(super) fn hear(&self, wire: &mut Wire, text: &[u8]) {
        if !text.is_empty() {
            wire.note(text, text.len(), self.now_ms.get(), self.keepalive_ms);
            wire.to_client.extend(text);
            wire.sent += text.len();
        }
    }

    pub(super) fn spend(&self, cost: u32) {
        self.cost.set(self.cost.get().saturating_add(cost));
    }
}

impl Sockets for Net {
    type Socket = usize;

    fn receive(&mut self, &socket: &usize, buffer: &mut [u8]) -> io::Result<Received> {
        let mut wire = self.wire(socket);
        assert!(!wire.server_closed, "receive on a closed socket");
        self.spend(work::READ);
        if wire.client_reset {
            return Err(ErrorKind::ConnectionReset.into());
        }
        if wire.to_server.is_empty() {
            let end = Received::of(0, buffer.len());
            return if wire.client_ended { Ok(end) } else { Err(ErrorKind::WouldBlock.into()) };
        }
        let len = buffer.len().min(wire.to_server.len());
        buffer[..len].copy_from_slice(&wire.to_server.make_contiguous()[..len]);
        wire.to_server.drain(..len);
        wire.received += len;
        self.spend(len as u32 / work::BYTES);
        Ok(Received::of(len, buffer.len()))
    }

    fn send(&mut self, &socket: &usize, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut wire = self.wire(socket);
        assert!(wire.is_open(), "send after the end");
        self.spend(work::WRITE);
        if wire.client_reset {
            return Err(ErrorKind::BrokenPipe.into());
        }
        let room = wire.room - wire.to_client.len();
        let bytes = gathered(parts);
        let whole = bytes.len();
        wire.note(&bytes, room, self.now_ms.get(), self.keepalive_ms);
        wire.to_client.extend(&bytes[..room.min(whole)]);
        wire.sent += room.min(whole);
        self.spend(room.min(whole) as u32 / work::BYTES);
        wire.starved |= room < whole;
        if room == 0 && whole > 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(whole.min(room)) }
    }

    fn shutdown(&mut self, &socket: &usize) {
        self.wire(socket).server_ended = true;
    }

    fn close(&mut self, socket: usize, abort: bool) {
        let mut wire = self.wire(socket);
        assert!(!wire.server_closed, "closed twice");
        self.spend(work::END);
        wire.server_closed = true;
        if abort {
            wire.to_client.clear();
        }
    }
}
