//! Our node among others: it listens, is registered with epmd, and connects.
//!
//! Two nodes have one connection. Where both begin one at a time, the node whose name is the
//! greater goes on, and the other gives its own up; where a node comes back before its old
//! connection is known to be dead, it says so and the old one ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::time::{sleep, timeout};

use super::control::OwnPid;
use super::epmd;
use super::handshake::{Introduction, Status, flag};
use super::limits;
use super::meet::{self, Door, MeetError};
use super::peer::{End, Peer};
use super::session::Session;

/// What our node must be told at start.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// `name@host`.
    pub name: Box<str>,
    /// What proves that nodes may talk to each other.
    pub cookie: Box<str>,
    /// Where other nodes connect. Port 0 lets the kernel choose.
    pub port: u16,
    /// The port of epmd, on each host.
    pub epmd: u16,
    /// Silence after which a node counts as gone.
    pub tick_time: Duration,
    /// Bytes that may wait to be written to one node, past which it counts as too slow.
    pub queue_bytes_max: usize,
}

/// Our node.
#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    introduction: Introduction,
    port: u16,
    places: Mutex<HashMap<Box<str>, Place>>,
    /// Rung whenever a place changes.
    changed: Notify,
    sessions: mpsc::Sender<Session>,
    /// Relaxed, all: each stands for itself.
    numbers: AtomicU32,
    is_registered: AtomicBool,
    oversized: AtomicU64,
    refused: AtomicU64,
}

/// What there is between us and another node.
#[derive(Debug)]
enum Place {
    /// We are connecting to it, in the attempt of that number.
    Dialing(u32),
    /// It is connecting to us.
    Accepting(u32),
    Up(Arc<Peer>),
}

impl Node {
    /// Starts to listen and to register. Nodes that are connected come out of the queue.
    pub async fn start(config: NodeConfig) -> io::Result<(Arc<Node>, mpsc::Receiver<Session>)> {
        let listener = TcpListener::bind(listen_address(&config)).await?;
        let port = listener.local_addr()?.port();
        let (sessions, queue) = mpsc::channel(limits::SESSIONS_WAITING_MAX);
        // Numbers up to 3 were those of old incarnations, which epmd gave out.
        let creation = getrandom::u32().map_err(io::Error::other)?.max(4);
        let name = config.name.clone();
        let node = Arc::new(Node {
            introduction: Introduction { flags: flag::OURS, creation, name },
            config,
            port,
            places: Mutex::default(),
            changed: Notify::new(),
            sessions,
            numbers: AtomicU32::new(0),
            is_registered: AtomicBool::new(false),
            oversized: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        tokio::spawn(Arc::clone(&node).listen(listener));
        tokio::spawn(Arc::clone(&node).keep_registered());
        Ok((node, queue))
    }

    /// Our name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Where other nodes connect.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// One of our processes.
    pub fn pid(&self, id: u32) -> OwnPid<'_> {
        OwnPid { node: &self.config.name, creation: self.introduction.creation, id }
    }

    /// The connected node of that name.
    pub fn peer(&self, name: &str) -> Option<Arc<Peer>> {
        match self.lock().get(name) {
            Some(Place::Up(peer)) => Some(Arc::clone(peer)),
            _ => None,
        }
    }

    /// All connected nodes.
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        let up = |place: &Place| match place {
            Place::Up(peer) => Some(Arc::clone(peer)),
            Place::Dialing(_) | Place::Accepting(_) => None,
        };
        self.lock().values().filter_map(up).collect()
    }

    /// Whether epmd knows us.
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Frames that were too long to be read.
    pub fn oversized(&self) -> u64 {
        self.oversized.load(Ordering::Relaxed)
    }

    /// Handshakes that failed: strangers, other cookies, old nodes.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn count_oversized(&self, more: u64) {
        self.oversized.fetch_add(more, Ordering::Relaxed);
    }

    pub(super) fn silence_max(&self) -> Duration {
        self.config.tick_time
    }

    /// The node of that name, connected to if it is not yet.
    pub async fn connect(self: &Arc<Node>, name: &str) -> Result<Arc<Peer>, MeetError> {
        let attempt = self.number();
        let mut has_waited = false;
        loop {
            let changed = self.changed.notified();
            match self.lock().entry(name.into()) {
                Entry::Occupied(place) => {
                    if let Place::Up(peer) = place.get() {
                        return Ok(Arc::clone(peer));
                    }
                }
                // Whom we waited for has failed, and would fail for us.
                Entry::Vacant(_) if has_waited => return Err(MeetError::Busy),
                Entry::Vacant(place) => {
                    place.insert(Place::Dialing(attempt));
                    break;
                }
            }
            has_waited = true;
            timeout(limits::SETUP_TIMEOUT, changed).await.map_err(|_| MeetError::TimedOut)?;
        }
        let claim = Claim { node: self, name, attempt };
        let dialed = timeout(limits::SETUP_TIMEOUT, self.dial(name)).await;
        let (stream, theirs) = dialed.map_err(|_| MeetError::TimedOut)??;
        claim.up(stream, theirs).await.ok_or(MeetError::Busy)
    }

    async fn dial(&self, name: &str) -> Result<(TcpStream, Introduction), MeetError> {
        let (alive, host) = name.split_once('@').ok_or(MeetError::Garbled)?;
        let port = epmd::port_of(host, self.config.epmd, alive).await?;
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let NodeConfig { cookie, .. } = &self.config;
        let theirs = meet::connect(&mut stream, &self.introduction, cookie, name).await?;
        Ok((stream, theirs))
    }

    async fn listen(self: Arc<Node>, listener: TcpListener) {
        let places = Arc::new(Semaphore::new(limits::HANDSHAKES_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned().await;
            let place = place.expect("the semaphore is never closed");
            match listener.accept().await {
                Ok((stream, from)) => {
                    let node = Arc::clone(&self);
                    tokio::spawn(async move {
                        node.let_in(stream, from).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of an Erlang node");
                    sleep(limits::ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn let_in(self: &Arc<Node>, mut stream: TcpStream, from: SocketAddr) {
        let attempt = self.number();
        let mut who = None;
        let handshake = timeout(limits::SETUP_TIMEOUT, self.greet(&mut stream, attempt, &mut who));
        let outcome = handshake.await.unwrap_or(Err(MeetError::TimedOut));
        let name = who.as_ref().map_or("?", |theirs: &Introduction| &*theirs.name);
        let claim = Claim { node: self, name, attempt };
        match outcome {
            Ok(()) => {
                if let Some(theirs) = who.clone() {
                    claim.up(stream, theirs).await;
                }
            }
            Err(MeetError::Busy) => {}
            Err(error) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%from, "the Erlang node {name} was not let in: {error}");
            }
        }
    }

    async fn greet(
        &self,
        stream: &mut TcpStream,
        attempt: u32,
        who: &mut Option<Introduction>,
    ) -> Result<(), MeetError> {
        stream.set_nodelay(true)?;
        let theirs = who.insert(meet::introduction(stream).await?);
        let mut claiming = Claiming { node: self, attempt };
        meet::accept(stream, &self.introduction, &self.config.cookie, theirs, &mut claiming).await
    }

    /// Registers with epmd, and again whenever that ends.
    async fn keep_registered(self: Arc<Node>) {
        let NodeConfig { epmd, name, .. } = &self.config;
        let alive = name.split_once('@').map_or(&**name, |(alive, _)| alive);
        let mut pause = limits::RETRY_FIRST;
        loop {
            match epmd::register(*epmd, alive, self.port).await {
                Ok(mut kept) => {
                    pause = limits::RETRY_FIRST;
                    self.is_registered.store(true, Ordering::Relaxed);
                    tracing::info!("the Erlang node {name} is registered at port {}", self.port);
                    // epmd says nothing more: this ends with its end.
                    let _ = kept.read_u8().await;
                    self.is_registered.store(false, Ordering::Relaxed);
                    tracing::warn!("epmd is gone: other Erlang nodes cannot find {name} now");
                }
                Err(error) => {
                    tracing::warn!(
                        "cannot register the Erlang node {name} with epmd at port {epmd}: {error}; \
                         other nodes cannot find it. Start epmd; this goes on trying"
                    );
                }
            }
            sleep(pause).await;
            pause = (2 * pause).min(limits::RETRY_MAX);
        }
    }

    pub(super) fn forget(&self, peer: &Arc<Peer>) {
        let mut places = self.lock();
        if matches!(places.get(peer.name()), Some(Place::Up(up)) if Arc::ptr_eq(up, peer)) {
            places.remove(peer.name());
        }
        drop(places);
        self.changed.notify_waiters();
    }

    fn number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Each change of the table is one insert or remove.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Place>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where to listen: at the address that the node's host is, or, as Erlang nodes do, at all when
/// that is a name, since it may stand for another one here than elsewhere.
fn listen_address(config: &NodeConfig) -> SocketAddr {
    let host = config.name.split_once('@').map_or("", |(_, host)| host);
    let ip = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    SocketAddr::new(ip, config.port)
}

/// An attempt that has a place. Dropping it gives the place back.
struct Claim<'n> {
    node: &'n Arc<Node>,
    name: &'n str,
    attempt: u32,
}

impl Claim<'_> {
    /// The handshake is done. `None` when another attempt has taken the place meanwhile.
    async fn up(self, stream: TcpStream, theirs: Introduction) -> Option<Arc<Peer>> {
        let Introduction { flags, creation, name } = theirs;
        let is_published = flags & flag::PUBLISHED != 0;
        let bytes_max = self.node.config.queue_bytes_max;
        let number = self.node.number();
        let peer = Arc::new(Peer::new(name.clone(), creation, is_published, number, bytes_max));
        {
            let mut places = self.node.lock();
            let place = places.get_mut(&name).filter(|place| place.is_of(self.attempt))?;
            *place = Place::Up(Arc::clone(&peer));
        }
        let (read, write) = stream.into_split();
        let session = Session::new(Arc::clone(self.node), Arc::clone(&peer), read);
        let (writer, tick) = (Arc::clone(&peer), self.node.config.tick_time / limits::TICKS);
        tokio::spawn(async move { writer.write(write, tick).await });
        // Fails when the owner is gone, and then the session is dropped and with it the connection.
        let _ = self.node.sessions.send(session).await;
        Some(peer)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut places = self.node.lock();
        if places.get(self.name).is_some_and(|place| place.is_of(self.attempt)) {
            places.remove(self.name);
        }
        drop(places);
        self.node.changed.notify_waiters();
    }
}

impl Place {
    fn is_of(&self, attempt: u32) -> bool {
        matches!(self, Place::Dialing(n) | Place::Accepting(n) if *n == attempt)
    }
}

/// A node that connects, and the place that it asks for.
struct Claiming<'n> {
    node: &'n Node,
    attempt: u32,
}

impl Door for Claiming<'_> {
    fn knock(&mut self, name: &str) -> Status {
        let mut places = self.node.lock();
        if name == self.node.name() {
            return Status::NotAllowed;
        }
        match places.get_mut(name) {
            None => {
                places.insert(name.into(), Place::Accepting(self.attempt));
                Status::Ok
            }
            Some(place @ Place::Dialing(_)) if name > self.node.name() => {
                *place = Place::Accepting(self.attempt);
                Status::OkSimultaneous
            }
            Some(Place::Dialing(_) | Place::Accepting(_)) => Status::Nok,
            Some(Place::Up(_)) => Status::Alive,
        }
    }

    fn replace(&mut self, name: &str) {
        let mut places = self.node.lock();
        if let Some(Place::Up(old)) = places.get(name) {
            old.close(End::Superseded);
        }
        places.insert(name.into(), Place::Accepting(self.attempt));
    }
}
