//! The fake network with TLS on it: the shard's side is the real one, the clients' is cut down to
//! keys as well.
//!
//! What goes over the wire is cut anywhere: a read brings some of the bytes that are there, and the
//! others are there at once or come later, as a report of their own; a write for which there is too
//! little room is taken up to any byte. Text is on the [wire](super::net) when its record is whole.
//! So clients and the model see what they see without TLS.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use rcgen::generate_simple_self_signed;
use tls::rustls::crypto::aws_lc_rs::sign::any_supported_type;
use tls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tls::rustls::server::{ClientHello, ResolvesServerCert};
use tls::rustls::sign::CertifiedKey;
use tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tls::{Alert, Choice, Fault, Handshake, Keys, Opened, Step};

use super::net::Net;
use super::random::Random;
use crate::counters::Counters;
use crate::limits::work;
use crate::sockets::{Received, Sockets};
use crate::tls::{HandshakeLimits, Numbered, Tls};

const NAME: &str = "push.test";

/// Both sides' configurations, made once: certificates are none of a seed's business.
pub(super) fn configs() -> &'static (Arc<ServerConfig>, Arc<ClientConfig>) {
    static CONFIGS: OnceLock<(Arc<ServerConfig>, Arc<ClientConfig>)> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let made = generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let cert = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.clone()).unwrap();
        let certified = CertifiedKey::new(vec![cert], any_supported_type(&key).unwrap());
        let server = tls::server_config(Arc::new(Only(Arc::new(certified))), Choice::default());
        (server, tls::client_config(roots, Choice::default()).unwrap())
    })
}

#[derive(Debug)]
struct Only(Arc<CertifiedKey>);

impl ResolvesServerCert for Only {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

/// A shard's sockets: the fake network's, with TLS or without.
pub(super) struct SimSockets {
    net: Net,
    tls: Option<Tls<Relay>>,
}

impl SimSockets {
    pub(super) fn plain(net: Net) -> SimSockets {
        SimSockets { net, tls: None }
    }

    /// All of whose clients speak TLS, cut by `seed`.
    pub(super) fn secure(
        net: Net,
        seed: u64,
        limits: HandshakeLimits,
        counters: Arc<Counters>,
    ) -> SimSockets {
        let relay = Relay {
            net: net.clone(),
            clients: Rc::default(),
            alerts: Rc::default(),
            random: Random::new(seed),
        };
        let tls = Tls::new(relay, Some(configs().0.clone()), limits, counters);
        SimSockets { net, tls: Some(tls) }
    }

    pub(super) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// Clients that are not done with their handshake: those whose hello has come, and those whose
    /// hello has not.
    pub(super) fn unfinished(&self) -> (usize, usize) {
        self.tls.as_ref().map_or((0, 0), Tls::unfinished)
    }

    /// Whether the client of a socket is within its handshake.
    pub(super) fn shakes(&self, socket: usize) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.shakes(socket as u32))
    }

    /// Whether nothing is left of clients that have gone.
    pub(super) fn are_empty(&mut self) -> bool {
        self.tls.as_mut().is_none_or(Tls::is_empty)
    }

    /// A client sends bytes that its TLS has not made.
    pub(super) fn inject(&mut self, socket: usize, bytes: &[u8]) {
        self.relay().with(socket, |client, net, _| {
            client.there.extend(bytes);
            net.wire(socket).arrives(client.there.len());
        });
    }

    /// What a client was about to say it does not. Answers what that was.
    pub(super) fn say_nothing_more(&mut self, socket: usize) -> Vec<u8> {
        self.relay().with(socket, |client, _, _| client.there.drain(..).collect())
    }

    /// A client has this to say before what it was about to.
    pub(super) fn say_first(&mut self, socket: usize, bytes: &[u8]) {
        let rest = self.say_nothing_more(socket);
        self.inject(socket, &[bytes, &rest].concat());
    }

    /// Of what it was about to say a client says no more than so many bytes.
    pub(super) fn says_so_much(&mut self, socket: usize, bytes: usize) {
        self.relay().with(socket, |client, _, _| client.there.truncate(bytes));
    }

    /// A client says nothing to what it is answered.
    pub(super) fn answers_nothing(&mut self, socket: usize) {
        self.relay().with(socket, |client, _, _| client.is_mute = true);
    }

    /// Whether the handshake of a client that is within it has begun: its hello was answered.
    pub(super) fn has_begun(&self, socket: usize) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_begun(socket as u32))
    }

    /// Whether the server has closed that.
    pub(super) fn has_closed(&self, socket: usize) -> bool {
        self.net.wire(socket).server_closed
    }

    /// The alert that a client was sent last.
    pub(super) fn alert_to(&mut self, socket: usize) -> Option<Alert> {
        self.relay().alerts.borrow().iter().rfind(|(to, _)| *to == socket).map(|(_, alert)| *alert)
    }

    fn relay(&mut self) -> &mut Relay {
        self.tls.as_mut().unwrap().sockets()
    }
}

impl Sockets for SimSockets {
    type Socket = usize;

    fn receive(&mut self, socket: &usize, buffer: &mut [u8]) -> io::Result<Received> {
        let Some(tls) = &mut self.tls else { return self.net.receive(socket, buffer) };
        self.net.spend(work::READ);
        let received = tls.receive(socket, buffer)?;
        self.net.spend(received.len as u32 / work::BYTES);
        self.net.wire(*socket).received += received.len;
        Ok(received)
    }

    fn send(&mut self, socket: &usize, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return self.net.send(socket, parts) };
        self.net.spend(work::WRITE);
        let sent = tls.send(socket, parts)?;
        self.net.spend(sent as u32 / work::BYTES);
        Ok(sent)
    }

    fn shutdown(&mut self, socket: &usize) {
        match &mut self.tls {
            Some(tls) => tls.shutdown(socket),
            None => self.net.shutdown(socket),
        }
    }

    fn close(&mut self, socket: usize, abort: bool) {
        match &mut self.tls {
            Some(tls) => tls.close(socket, abort),
            None => self.net.close(socket, abort),
        }
    }

    fn secure(&mut self, socket: &usize, owner: u32, begun: &[u8]) {
        if let Some(tls) = &mut self.tls {
            tls.secure(socket, owner, begun);
        }
    }

    fn take_stalled(&mut self) -> Option<u32> {
        self.tls.as_mut().and_then(Tls::take_stalled)
    }

    fn shake(&mut self, socket: &usize) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.shake(socket))
    }

    fn kept_bytes(&self, socket: &usize) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.kept_bytes(socket))
    }

    fn take_work(&mut self) -> u32 {
        self.tls.as_mut().map_or(0, Tls::take_work)
    }
}

/// Between the shard's TLS and a wire of text: the clients' ends.
struct Relay {
    net: Net,
    clients: Rc<RefCell<Vec<Option<Client>>>>,
    /// Alerts that say that something is wrong, and to whom.
    alerts: Rc<RefCell<Vec<(usize, Alert)>>>,
    random: Random,
}

/// A client's end of TLS.
struct Client {
    handshake: Option<Handshake>,
    keys: Box<Keys>,
    /// Bytes on their way to the server.
    there: VecDeque<u8>,
    /// Bytes from it that are no whole record yet.
    back: Vec<u8>,
    /// It answers nothing.
    is_mute: bool,
}

impl Client {
    fn new() -> Client {
        let name = ServerName::try_from(NAME).unwrap();
        let mut handshake = Handshake::client(&configs().1, name).unwrap();
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
    fn with<R>(
        &mut self,
        socket: usize,
        work: impl FnOnce(&mut Client, &Net, &mut Random) -> R,
    ) -> R {
        let mut clients = self.clients.borrow_mut();
        if socket >= clients.len() {
            clients.resize_with(socket + 1, || None);
        }
        work(clients[socket].get_or_insert_with(Client::new), &self.net, &mut self.random)
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
        let alerts = self.alerts.clone();
        self.with(socket, |client, net, random| {
            let mut wire = net.wire(socket);
            assert!(wire.is_open(), "send after the end");
            if wire.client_reset {
                return Err(ErrorKind::BrokenPipe.into());
            }
            let bytes: Vec<u8> = parts.iter().flat_map(|part| part.iter()).copied().collect();
            assert!(!bytes.is_empty(), "a call for nothing");
            let taken = match wire.room.saturating_sub(wire.to_client.len()) {
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
        // Who was never read has no end of TLS.
        self.clients.borrow_mut().get_mut(socket).map(Option::take);
        self.net.close(socket, abort);
    }
}

#[cfg(test)]
mod stalled;
#[cfg(test)]
mod tests;
