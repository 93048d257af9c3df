//! The clients' ends of TLS, and what goes to them and comes from them over the fake network.
//!
//! It is cut anywhere. A read brings some of the bytes that are there, and the others are there at
//! once or come later, as a report of their own. A write for which there is too little room is
//! taken up to any byte. Text is on the [wire](crate::sim::net) when its record is whole. So
//! clients and the model see what they see without TLS.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;

use tls::rustls::ClientConfig;
use tls::rustls::pki_types::ServerName;
use tls::{Alert, Fault, Handshake, Keys, Opened, Step};

use super::{NAME, configs};
use crate::sim::net::{Net, gathered};
use crate::sim::random::Random;
use crate::sockets::{Received, Sockets};
use crate::tls::Numbered;

/// The clients' ends of TLS, by socket. They stay when the server's side is another process'.
#[derive(Clone, Default)]
pub(in crate::sim) struct Ends {
    clients: Rc<RefCell<Vec<Option<Client>>>>,
    /// Alerts that say that something is wrong, and to whom.
    alerts: Rc<RefCell<Vec<(usize, Alert)>>>,
}

/// Between the shard's TLS and a wire of text.
pub(super) struct Relay {
    net: Net,
    ends: Ends,
    random: Random,
}

/// A client's end of TLS.
pub(super) struct Client {
    handshake: Option<Handshake>,
    keys: Box<Keys>,
    /// Bytes on their way to the server.
    pub(super) there: VecDeque<u8>,
    /// Bytes from it that are no whole record yet.
    back: Vec<u8>,
    /// It answers nothing.
    pub(super) is_mute: bool,
}

impl Client {
    pub(super) fn new(config: &ClientConfig) -> Client {
        let name = ServerName::try_from(NAME).unwrap();
        let mut handshake = Handshake::client(config, name).unwrap();
        let (mut hello, mut keys) = (Vec::new(), Box::default());
        handshake.step(&[], &mut hello, &mut keys).unwrap();
        let (there, back) = (hello.into(), Vec::new());
        Client { handshake: Some(handshake), keys, there, back, is_mute: false }
    }

    /// Takes bytes of the server, and gives the text that is whole with them, and the alert.
    fn hear(&mut self, bytes: &[u8]) -> (Vec<u8>, Option<Alert>) {
        if self.is_mute {
            return (Vec::new(), None);
        }
        if let Some(handshake) = &mut self.handshake {
            let mut out = Vec::new();
            let step = handshake.step(bytes, &mut out, &mut self.keys).unwrap();
            self.there.extend(out);
            let Step::Done { rest, .. } = step else { return (Vec::new(), None) };
            (self.handshake, self.back) = (None, rest);
        } else {
            self.back.extend_from_slice(bytes);
        }
        let (mut text, mut used, mut alert) = (Vec::new(), 0, None);
        let mut opener = self.keys.opener();
        loop {
            match opener.next(&mut self.back[used..]) {
                Ok(Opened::NeedMore { .. } | Opened::Closed) => break,
                Ok(Opened::Idle { record }) => used += record,
                Ok(Opened::Data { record, text: range }) => {
                    text.extend_from_slice(&self.back[used..][range]);
                    used += record;
                }
                Err(Fault::Received(said)) => alert = Some(said),
                Err(fault) => panic!("the server's TLS is wrong: {fault}"),
            }
        }
        self.back.drain(..used);
        (text, alert)
    }

    /// Seals text of the client, in records of every size.
    fn say(&mut self, text: &[u8], random: &mut Random) {
        let mut rest = text;
        let mut out = vec![0; tls::limits::SEALED_BYTES_MAX];
        while !rest.is_empty() {
            let most = if random.one_in(3) { 3 } else { rest.len() };
            let (some, others) = rest.split_at(1 + random.below(most.min(rest.len())));
            let sealed = self.keys.sealer().seal(&[some], 0, &mut out).unwrap();
            self.there.extend(&out[..sealed.bytes]);
            rest = others;
        }
    }
}

impl Relay {
    pub(super) fn new(net: Net, ends: Ends, random: Random) -> Relay {
        Relay { net, ends, random }
    }

    /// The alert that a client was sent last.
    pub(super) fn alert_to(&self, socket: usize) -> Option<Alert> {
        let alerts = self.ends.alerts.borrow();
        alerts.iter().rfind(|(to, _)| *to == socket).map(|(_, alert)| *alert)
    }

    /// The connection is at its end.
    pub(super) fn forget(&mut self, socket: usize) {
        // Who was never read has no end of TLS.
        self.ends.clients.borrow_mut().get_mut(socket).map(Option::take);
    }

    pub(super) fn with<R>(
        &mut self,
        socket: usize,
        work: impl FnOnce(&mut Client, &Net, &mut Random) -> R,
    ) -> R {
        let mut clients = self.ends.clients.borrow_mut();
        if socket >= clients.len() {
            clients.resize_with(socket + 1, || None);
        }
        let client = clients[socket].get_or_insert_with(|| Client::new(&configs().client));
        work(client, &self.net, &mut self.random)
    }
}

impl Numbered for Relay {
    fn number(socket: &usize) -> u32 {
        *socket as u32
    }
}

impl Sockets for Relay {
    type Socket = usize;

    fn receive(&mut self, &socket: &usize, buffer: &mut [u8]) -> io::Result<Received> {
        self.with(socket, |client, net, random| {
            let mut wire = net.wire(socket);
            assert!(!wire.server_closed, "receive on a closed socket");
            if wire.client_reset {
                return Err(ErrorKind::ConnectionReset.into());
            }
            if client.handshake.is_none() {
                let text: Vec<u8> = wire.to_server.drain(..).collect();
                client.say(&text, random);
            }
            if client.there.is_empty() {
                let has_ended = wire.client_ended && wire.to_server.is_empty();
                let end = Received::of(0, buffer.len());
                return if has_ended { Ok(end) } else { Err(ErrorKind::WouldBlock.into()) };
            }
            let len = 1 + random.below(client.there.len().min(buffer.len()));
            for byte in &mut buffer[..len] {
                *byte = client.there.pop_front().unwrap();
            }
            // What is left is there already, or comes later and is reported then.
            let comes_later = random.one_in(2);
            if comes_later {
                wire.arrives(client.there.len());
            }
            let emptied = len < buffer.len() && (comes_later || client.there.is_empty());
            Ok(Received { len, emptied })
        })
    }

    fn send(&mut self, &socket: &usize, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let alerts = self.ends.alerts.clone();
        self.with(socket, |client, net, random| {
            let mut wire = net.wire(socket);
            assert!(wire.is_open(), "send after the end");
            if wire.client_reset {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let bytes = gathered(parts);
            assert!(!bytes.is_empty(), "a call for nothing");
            let taken = match wire.room_left() {
                0 => 0,
                room if room >= bytes.len() => bytes.len(),
                room => 1 + random.below(room),
            };
            let (text, alert) = client.hear(&bytes[..taken]);
            alerts.borrow_mut().extend(alert.map(|alert| (socket, alert)));
            wire.arrives(client.there.len());
            net.hear(&mut wire, &text);
            wire.hides = taken < bytes.len();
            if taken < bytes.len() {
                wire.starve();
            }
            if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
        })
    }

    fn shutdown(&mut self, socket: &usize) {
        self.net.shutdown(socket);
    }

    fn close(&mut self, socket: usize, abort: bool) {
        self.forget(socket);
        self.net.close(socket, abort);
    }
}
