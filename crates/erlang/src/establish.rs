//! Connections are made here, from both sides, up to the [`Session`] that whoever owns the node is
//! handed.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::config::NodeConfig;
use crate::connections::{Begun, Connections};
use crate::epmd;
use crate::handshake::{self, ConnectError, Introduction, flag};
use crate::limits;
use crate::log_limit::LogLimit;
use crate::peer::Peer;
use crate::session::Session;

/// What making connections takes.
#[derive(Debug)]
pub(crate) struct Establisher {
    pub(crate) config: NodeConfig,
    pub(crate) introduction: Introduction,
    pub(crate) connections: Arc<Connections>,
    sessions: mpsc::Sender<Session>,
    refusals: LogLimit,
}

impl Establisher {
    pub(crate) fn new(
        config: NodeConfig,
        creation: u32,
        sessions: mpsc::Sender<Session>,
    ) -> Establisher {
        let name = config.name.clone();
        let connections = Arc::new(Connections::new(name.clone(), config.nodes_max));
        let introduction = Introduction { flags: flag::OURS, creation, name };
        Establisher { config, introduction, connections, sessions, refusals: LogLimit::default() }
    }

    /// The node of that name, connected to if it is not yet.
    pub(crate) async fn connect(&self, name: &str) -> Result<Arc<Peer>, ConnectError> {
        let mut has_waited = false;
        let attempt = loop {
            let changed = self.connections.changed().notified();
            match self.connections.dial(name) {
                Begun::Connected(peer) => return Ok(peer),
                // Whom we waited for has failed, and would fail for us.
                Begun::Attempt(_) if has_waited => return Err(ConnectError::Busy),
                Begun::Attempt(attempt) => break attempt,
                Begun::Full => return Err(ConnectError::NotAllowed),
                Begun::Waiting => {}
            }
            has_waited = true;
            let waited = timeout(self.config.setup_timeout, changed).await;
            waited.map_err(|_| ConnectError::TimedOut)?;
        };
        let dialed = timeout(self.config.setup_timeout, self.dial(name)).await;
        let (stream, theirs) = dialed.map_err(|_| ConnectError::TimedOut)??;
        let peer = self.peer(theirs);
        if !attempt.done(&peer) {
            // It has connected to us meanwhile, and that connection is the one.
            return self.connections.peer(name).ok_or(ConnectError::Busy);
        }
        self.hand_over(stream, &peer);
        Ok(peer)
    }

    async fn dial(&self, name: &str) -> Result<(TcpStream, Introduction), ConnectError> {
        let (alive, host) = name.split_once('@').ok_or(ConnectError::Malformed)?;
        let port = epmd::port_of(host, self.config.epmd, alive).await?;
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        let NodeConfig { cookie, .. } = &self.config;
        let theirs = handshake::connect(&mut stream, &self.introduction, cookie, name).await?;
        Ok((stream, theirs))
    }

    /// Plays the handshake with a node that has connected to us.
    pub(crate) async fn accept(&self, mut stream: TcpStream, from: SocketAddr) {
        let mut name = None;
        let handshake = timeout(self.config.setup_timeout, self.handshake(&mut stream, &mut name));
        let error = match handshake.await.unwrap_or(Err(ConnectError::TimedOut)) {
            Ok(theirs) => {
                let peer = self.peer(theirs);
                if self.connections.admit(&peer) {
                    return self.hand_over(stream, &peer);
                }
                ConnectError::NotAllowed
            }
            Err(ConnectError::Busy) => return,
            Err(error) => error,
        };
        self.connections.count_refused();
        if self.refusals.permits() {
            let name = name.as_deref().unwrap_or("?");
            tracing::warn!(%from, "the Erlang node {name} was not let in: {error}");
        }
    }

    async fn handshake(
        &self,
        stream: &mut TcpStream,
        name: &mut Option<Box<str>>,
    ) -> Result<Introduction, ConnectError> {
        stream.set_nodelay(true)?;
        let theirs = handshake::introduction(stream).await?;
        *name = Some(theirs.name.clone());
        let status = self.connections.status(&theirs.name);
        let NodeConfig { cookie, .. } = &self.config;
        handshake::accept(stream, &self.introduction, cookie, status).await?;
        Ok(theirs)
    }

    fn peer(&self, theirs: Introduction) -> Arc<Peer> {
        let Introduction { flags, creation, name } = theirs;
        let is_published = flags & flag::PUBLISHED != 0;
        let (number, bytes_max) = (self.connections.number(), self.config.queue_bytes_max);
        Arc::new(Peer::new(name, creation, is_published, number, bytes_max))
    }

    /// Begins to write to the node of `peer`, and hands on what reads from it.
    fn hand_over(&self, stream: TcpStream, peer: &Arc<Peer>) {
        let (read, write) = stream.into_split();
        let tick_time = self.config.tick_time;
        let connections = Arc::clone(&self.connections);
        let session = Session::new(connections, Arc::clone(peer), read, tick_time);
        let writer = Arc::clone(peer);
        let tick = tick_time / limits::TICKS;
        tokio::spawn(async move { writer.write(write, tick, tick_time).await });
        let sessions = self.sessions.clone();
        // A task, so that a handshake ends here. It fails when the owner is gone, and then the
        // session is dropped and with it the connection.
        tokio::spawn(async move { sessions.send(session).await });
    }
}
