//! The fake network with TLS on it: the shard's side is the real one, the clients' is cut down to
//! keys as well, see [`relay`].

mod records;
mod relay;
mod stalled;
mod tests;

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

use rcgen::generate_simple_self_signed;
use tls::rustls::crypto::aws_lc_rs::sign::any_supported_type;
use tls::rustls::pki_types::PrivateKeyDer;
use tls::rustls::server::{ClientHello, ResolvesServerCert};
use tls::rustls::sign::CertifiedKey;
use tls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tls::{Alert, Choice};

pub(super) use self::relay::Ends;
use self::relay::{Client, Relay};
use super::net::Net;
use super::random::Random;
use crate::counters::Counters;
use crate::limits::work;
use crate::sockets::{Received, Sockets, Unwritable};
use crate::state::Secured;
use crate::tls::{HandshakeLimits, Tls};

const NAME: &str = "push.test";

/// In which a directory of certificates looks at one (RFC 8737).
const OTHER_PROTOCOL: &[u8] = b"acme-tls/1";

/// All sides' configurations.
pub(super) struct TlsConfigs {
    pub(super) server: Arc<ServerConfig>,
    pub(super) client: Arc<ClientConfig>,
    /// Of a client that comes for a certificate alone.
    looking: Arc<ClientConfig>,
}

/// They are made once: certificates are none of a seed's business.
pub(super) fn configs() -> &'static TlsConfigs {
    static CONFIGS: OnceLock<TlsConfigs> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        let made = generate_simple_self_signed([NAME.to_owned()]).unwrap();
        let cert = made.cert.der().clone();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(cert.clone()).unwrap();
        let certified = CertifiedKey::new(vec![cert], any_supported_type(&key).unwrap());
        let resolver = Arc::new(Only(Arc::new(certified)));
        let choice = |protocols| Choice { protocols, ..Choice::default() };
        TlsConfigs {
            server: tls::server_config(resolver, choice(&[b"http/1.1", OTHER_PROTOCOL])),
            client: tls::client_config(roots.clone(), choice(&[b"http/1.1"])).unwrap(),
            looking: tls::client_config(roots, choice(&[OTHER_PROTOCOL])).unwrap(),
        }
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
        ends: Ends,
        seed: u64,
        limits: HandshakeLimits,
        counters: Arc<Counters>,
    ) -> SimSockets {
        let relay = Relay::new(net.clone(), ends, Random::new(seed));
        let tls = Tls::new(relay, Some(configs().server.clone()), limits, counters);
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

    /// A client that has said nothing yet comes for a certificate alone.
    pub(super) fn only_looks(&mut self, socket: usize) {
        self.relay().with(socket, |client, net, _| {
            *client = Client::new(&configs().looking);
            net.wire(socket).arrives(client.there.len());
        });
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
        self.relay().alert_to(socket)
    }

    /// A socket of another process is under the shard's epoll: what has come to it is reported.
    pub(super) fn watch(&mut self, socket: usize) {
        if self.is_secure() {
            self.relay().with(socket, |client, net, _| {
                net.wire(socket).arrives(client.there.len());
            });
        }
    }

    /// The process ends without having given a socket away.
    pub(super) fn lose(&mut self, socket: usize) {
        if self.is_secure() {
            self.relay().forget(socket);
        }
        self.net.wire(socket).server_closed = true;
    }

    fn relay(&mut self) -> &mut Relay {
        self.tls.as_mut().unwrap().below()
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

    fn handshake(&mut self, socket: &usize, hung_up: bool) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.handshake(socket, hung_up))
    }

    /// There is none: what is handed out gets one that is no connection.
    fn descriptor<'s>(&self, _socket: &'s usize) -> Option<BorrowedFd<'s>> {
        static NONE: OnceLock<File> = OnceLock::new();
        Some(NONE.get_or_init(|| File::open("/dev/null").unwrap()).as_fd())
    }

    fn let_go(&mut self, socket: usize) {
        match &mut self.tls {
            Some(tls) => tls.let_go(socket),
            None => self.net.let_go(socket),
        }
    }

    fn write_down(&self, socket: &usize) -> Result<Option<Secured>, Unwritable> {
        self.tls.as_ref().map_or(Ok(None), |tls| tls.write_down(socket))
    }

    fn take_over(&mut self, socket: &usize, owner: u32, secured: Secured) -> bool {
        self.tls.as_mut().is_some_and(|tls| tls.take_over(socket, owner, secured))
    }

    fn kept_bytes(&self, socket: &usize) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.kept_bytes(socket))
    }

    fn unsent_bytes(&self, socket: &usize) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.unsent_bytes(socket))
    }

    fn take_work(&mut self) -> u32 {
        self.tls.as_mut().map_or(0, Tls::take_work)
    }
}
