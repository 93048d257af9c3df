//! TLS on the sockets of a shard: handshakes on boxes that go, and then keys alone.
//!
//! To the shard this is a network like any other: it reads text and writes text. What it knows of
//! TLS is one state before the first request. A silent connection has its [keys](places) and
//! nothing else. What is under way lies in a box that goes when nothing is left: a handshake, a
//! part of a record, ciphertext that the kernel has not taken.
//!
//! **Writing.** Text is sealed into the worker's buffer, a record at a time, and sent. What is
//! sealed has used up its number, so it is sent or the connection ends. What the kernel does not
//! take of a record is kept as ciphertext and goes first next time. Until it has gone, the last
//! byte of the text is reported as not sent. So the caller that writes knows that something waits,
//! comes again when there is room, and is told then that the byte has gone. Nobody above needs to
//! know that text and bytes are not the same.
//!
//! **Reading.** One read of the kernel's at a time, opened in the worker's buffer and handed on. A
//! read is told to have emptied the socket when the kernel's was short and nothing is left that
//! could be opened. What is wrong with a record is told behind the text that came before it.
//!
//! **Handshakes.** A client's hello is gathered before rustls hears of it, so that half of one
//! costs its own bytes and no more. How many may be under way, and who goes when there are more,
//! says [`queue`].
//!
//! Cost for sockets without TLS: a look at their place, which is not there unless TLS has been
//! spoken near it.

mod handing;
mod handshake;
mod places;
mod queue;
mod receive;
mod send;

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use tls::limits::{ALERT_BYTES_MAX, RECORD_BYTES_MAX, SEALED_BYTES_MAX};
use tls::rustls::ServerConfig;
use tls::{Alert, Fault, Handshake, Keys};

use self::places::Places;
pub(crate) use self::queue::HandshakeLimits;
use self::queue::HandshakeQueue;
use crate::counters::Counters;
use crate::sockets::{Received, Sockets, Unwritable};
use crate::state::Secured;

/// A record's most bytes, be it received or sealed.
const WIRE_BYTES: usize =
    if RECORD_BYTES_MAX > SEALED_BYTES_MAX { RECORD_BYTES_MAX } else { SEALED_BYTES_MAX };

/// Sockets that have numbers, small ones first.
pub(crate) trait Numbered: Sockets {
    /// The number of a socket: no two that are open have the same.
    fn number(socket: &Self::Socket) -> u32;
}

/// Sockets some of which speak TLS.
pub(crate) struct Tls<S> {
    io: S,
    /// How new clients are met.
    config: Option<Arc<ServerConfig>>,
    places: Places,
    /// By the number of the socket; who is in it has [`UNDER_WAY`] noted with its keys.
    under_way: UnderWays,
    /// The one buffer for what is sealed.
    wire: Box<[u8]>,
    /// Clients whose hello is not whole.
    hellos: HandshakeQueue,
    /// Handshakes that rustls has begun.
    handshakes: HandshakeQueue,
    /// How often a client has begun to wait.
    stamp: u64,
    /// What was done since somebody asked, as [`work`](crate::limits::work) counts.
    work: u32,
    counters: Arc<Counters>,
}

/// What is under way on one connection.
#[derive(Default)]
struct UnderWay {
    phase: TlsPhase,
    /// Whose connection it is, and its place among those who wait.
    owner: u32,
    stamp: u64,
    /// Bytes of its client that are not opened: a part of its hello, or of a record, or what there
    /// was no room for.
    sealed: Vec<u8>,
    /// Text that is opened and not taken, and how much of it was. Before the handshake: what of it
    /// came along with something else.
    text: Vec<u8>,
    taken: usize,
    /// What its client has broken, behind text that was not heard yet.
    fault: Option<Fault>,
    /// Bytes for its client that the kernel has not taken, and how many of them it has.
    unsent: Vec<u8>,
    sent: usize,
    /// They end with a byte of text that was not reported as sent.
    owes_byte: bool,
}

/// How far the handshake has come.
#[derive(Default)]
enum TlsPhase {
    /// Its client's hello is not whole.
    Hello,
    Handshaking(Handshake),
    #[default]
    Done,
}

impl UnderWay {
    /// Whether nothing is.
    fn is_over(&self) -> bool {
        matches!(self.phase, TlsPhase::Done)
            && self.sealed.is_empty()
            && self.text.is_empty()
            && self.fault.is_none()
            && self.unsent.is_empty()
            && !self.owes_byte
    }

    fn kept_bytes(&self) -> usize {
        let handshake = match &self.phase {
            TlsPhase::Handshaking(handshake) => handshake.kept_bytes() + HANDSHAKE_BYTES,
            _ => 0,
        };
        let vectors = self.sealed.capacity() + self.text.capacity() + self.unsent.capacity();
        size_of::<UnderWay>() + vectors + handshake
    }
}

type UnderWays = HashMap<u32, Box<UnderWay>>;

/// Noted with a socket's keys: something is under way on it.
const UNDER_WAY: u8 = 1;

/// Noted with a socket's keys: its peer has broken the rules, and has been told so.
const FAULTY: u8 = 2;

/// What rustls keeps of a handshake on its heap, measured.
const HANDSHAKE_BYTES: usize = 4 * 1024;

impl<S: Numbered> Tls<S> {
    /// What is under way on a connection, without a look into the map where nothing is.
    fn look_at(&self, number: u32) -> Option<&UnderWay> {
        let keys = self.places.look_at(number)?;
        if keys.note & UNDER_WAY == 0 {
            return None;
        }
        self.under_way.get(&number).map(Box::as_ref)
    }

    /// TLS on `io`, for those who are told to begin with it.
    pub(crate) fn new(
        io: S,
        config: Option<Arc<ServerConfig>>,
        limits: HandshakeLimits,
        counters: Arc<Counters>,
    ) -> Tls<S> {
        // Without TLS nothing is ever sealed.
        let wire_bytes = if config.is_some() { WIRE_BYTES } else { 0 };
        Tls {
            io,
            config,
            places: Places::default(),
            under_way: HashMap::new(),
            wire: vec![0; wire_bytes].into(),
            hellos: HandshakeQueue::new(limits.hellos, limits.own),
            handshakes: HandshakeQueue::new(limits.handshakes, limits.own),
            stamp: 0,
            work: 0,
            counters,
        }
    }

    /// Handshakes that are under way, and clients whose hello is not whole.
    #[cfg(test)]
    pub(crate) fn unfinished(&self) -> (usize, usize) {
        (self.handshakes.len(), self.hellos.len())
    }

    /// Whether a socket's client is within its handshake, for the simulator.
    #[cfg(test)]
    pub(crate) fn shakes(&self, number: u32) -> bool {
        self.under_way.get(&number).is_some_and(|under| !matches!(under.phase, TlsPhase::Done))
    }

    /// Whether rustls has begun it.
    #[cfg(test)]
    pub(crate) fn has_begun(&self, number: u32) -> bool {
        let phase = self.under_way.get(&number).map(|under| &under.phase);
        matches!(phase, Some(TlsPhase::Handshaking(_)))
    }

    /// Whether nothing is left of sockets that are closed, for the simulator.
    #[cfg(test)]
    pub(crate) fn is_empty(&mut self) -> bool {
        self.under_way.is_empty()
            && self.hellos.is_empty()
            && self.handshakes.is_empty()
            && self.places.are_empty()
    }

    /// The sockets below.
    pub(crate) fn below(&mut self) -> &mut S {
        &mut self.io
    }

    /// The keys of a socket that speaks TLS, or is to.
    fn speaks(&mut self, number: u32) -> Option<&mut Keys> {
        self.places.at(number).filter(|keys| keys.are_set() || keys.note != 0)
    }

    /// Sends `alert` if nothing stands before it, as far as the kernel takes it.
    fn alert(&mut self, socket: &S::Socket, alert: Alert) {
        let number = S::number(socket);
        let waits = self.under_way.get(&number).is_some_and(|under| !under.unsent.is_empty());
        let Some(keys) = self.places.at(number).filter(|keys| keys.are_set() && !waits) else {
            return;
        };
        let mut out = [0; ALERT_BYTES_MAX];
        let bytes = keys.sealer().alert(alert, &mut out);
        if bytes > 0 {
            // Who is told why it ends is not waited for.
            let _ = self.io.send(socket, &[IoSlice::new(&out[..bytes])]);
        }
    }

    /// Takes note of whether anything is left under way.
    fn tidy(&mut self, number: u32) {
        if self.under_way.get(&number).is_some_and(|under| under.is_over()) {
            self.under_way.remove(&number);
            if let Some(keys) = self.places.at(number) {
                keys.note &= !UNDER_WAY;
            }
        }
    }

    /// What is under way on a socket, from now on if nothing was.
    fn begin(&mut self, number: u32) -> &mut UnderWay {
        self.places.make(number).note |= UNDER_WAY;
        self.under_way.entry(number).or_default()
    }
}

impl<S: Numbered> Sockets for Tls<S> {
    type Socket = S::Socket;

    fn receive(&mut self, socket: &S::Socket, buffer: &mut [u8]) -> io::Result<Received> {
        match self.speaks(S::number(socket)) {
            Some(keys) if keys.note & FAULTY == 0 => self.receive_text(socket, buffer),
            // What follows a fault is read to be forgotten.
            _ => self.io.receive(socket, buffer),
        }
    }

    fn send(&mut self, socket: &S::Socket, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.speaks(S::number(socket)) {
            Some(_) => self.send_text(socket, parts),
            None => self.io.send(socket, parts),
        }
    }

    fn shutdown(&mut self, socket: &S::Socket) {
        if self.speaks(S::number(socket)).is_some_and(|keys| keys.note & FAULTY == 0) {
            self.alert(socket, Alert::CLOSE_NOTIFY);
        }
        self.io.shutdown(socket);
    }

    fn close(&mut self, socket: S::Socket, abort: bool) {
        let number = S::number(&socket);
        if !abort && self.speaks(number).is_some_and(|keys| keys.note & FAULTY == 0) {
            self.alert(&socket, Alert::CLOSE_NOTIFY);
        }
        if let Some(under) = self.under_way.remove(&number) {
            self.waits_no_more(&under.phase);
        }
        if let Some(keys) = self.places.at(number) {
            keys.clear();
        }
        self.io.close(socket, abort);
    }

    fn descriptor<'s>(&self, socket: &'s S::Socket) -> Option<BorrowedFd<'s>> {
        self.io.descriptor(socket)
    }

    /// Without an alert: it is no end.
    fn let_go(&mut self, socket: S::Socket) {
        let number = S::number(&socket);
        self.under_way.remove(&number);
        if let Some(keys) = self.places.at(number) {
            keys.clear();
        }
        self.io.let_go(socket);
    }

    fn secure(&mut self, socket: &S::Socket, owner: u32, begun: &[u8]) {
        self.wait_for_hello(S::number(socket), owner, begun);
    }

    fn take_stalled(&mut self) -> Option<u32> {
        self.stalled()
    }

    fn handshake(&mut self, socket: &S::Socket, hung_up: bool) -> io::Result<bool> {
        self.shake_hands(socket, hung_up)
    }

    fn peer(&self, socket: &S::Socket) -> Option<SocketAddr> {
        self.io.peer(socket)
    }

    fn write_down(&self, socket: &S::Socket) -> Result<Option<Secured>, Unwritable> {
        self.secured(S::number(socket))
    }

    fn take_over(&mut self, socket: &S::Socket, owner: u32, secured: Secured) -> bool {
        self.go_on(S::number(socket), owner, secured)
    }

    fn kept_bytes(&self, socket: &S::Socket) -> usize {
        self.look_at(S::number(socket)).map_or(0, UnderWay::kept_bytes)
    }

    fn unsent_bytes(&self, socket: &S::Socket) -> usize {
        self.look_at(S::number(socket)).map_or(0, |under| under.unsent.len() - under.sent)
    }

    fn take_work(&mut self) -> u32 {
        std::mem::take(&mut self.work)
    }
}
