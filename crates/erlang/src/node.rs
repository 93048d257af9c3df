//! Our node among others: it listens, is registered with epmd, and connects.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::TcpListener;
use tokio::sync::futures::Notified;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, yield_now};

use crate::config::NodeConfig;
use crate::control::OwnPid;
use crate::establish::Establisher;
use crate::handshake::ConnectError;
use crate::peer::Peer;
use crate::session::Session;
use crate::{epmd, limits, listener};

/// Our node among the others.
#[derive(Debug)]
pub struct Node {
    establisher: Arc<Establisher>,
    listen: SocketAddr,
    /// Relaxed: it stands for itself.
    is_registered: Arc<AtomicBool>,
    /// Those that let nodes in, and keep us registered.
    tasks: [AbortHandle; 2],
}

impl Node {
    /// Starts to listen and to register. Nodes that are connected come out of the queue.
    pub async fn start(config: NodeConfig) -> io::Result<(Arc<Node>, mpsc::Receiver<Session>)> {
        let socket = TcpListener::bind(config.listen_address().await?).await?;
        let listen = socket.local_addr()?;
        let port = listen.port();
        let (sessions, queue) = mpsc::channel(limits::SESSIONS_WAITING_MAX);
        // Numbers up to 3 were those of old incarnations, which epmd gave out.
        let creation = getrandom::u32().map_err(io::Error::other)?.max(4);
        let establisher = Arc::new(Establisher::new(config, creation, sessions));
        let listening = tokio::spawn(listener::run(socket, Arc::clone(&establisher)));
        let is_registered = Arc::<AtomicBool>::default();
        let (ours, registered) = (Arc::clone(&establisher), Arc::clone(&is_registered));
        let registering = tokio::spawn(async move {
            let said = |is| registered.store(is, Ordering::Relaxed);
            epmd::keep_registered(&ours.config, port, said).await;
        });
        let tasks = [listening.abort_handle(), registering.abort_handle()];
        Ok((Arc::new(Node { establisher, listen, is_registered, tasks }), queue))
    }

    /// Gives up port and name, for another process that takes both. Nodes that are connected stay
    /// so until their sessions end.
    pub async fn give_up(&self) {
        self.tasks.iter().for_each(AbortHandle::abort);
        while !self.tasks.iter().all(AbortHandle::is_finished) {
            yield_now().await;
        }
        self.is_registered.store(false, Ordering::Relaxed);
    }

    /// Our node's name.
    pub fn name(&self) -> &str {
        &self.establisher.config.name
    }

    /// The address and the port where other nodes connect.
    pub fn listens(&self) -> SocketAddr {
        self.listen
    }

    /// One of our processes.
    pub fn pid(&self, id: u32) -> OwnPid<'_> {
        let creation = self.establisher.introduction.creation;
        OwnPid { node: self.name(), creation, id }
    }

    /// The connected node of that name.
    pub fn peer(&self, name: &str) -> Option<Arc<Peer>> {
        self.establisher.connections.peer(name)
    }

    /// All connected nodes.
    pub fn peers(&self) -> Vec<Arc<Peer>> {
        self.establisher.connections.peers()
    }

    /// Comes true when a node connects or goes, or an attempt to connect fails.
    pub fn changed(&self) -> Notified<'_> {
        self.establisher.connections.changed().notified()
    }

    /// Whether epmd knows us.
    pub fn is_registered(&self) -> bool {
        self.is_registered.load(Ordering::Relaxed)
    }

    /// Frames that were too long to be read.
    pub fn oversized(&self) -> u64 {
        self.establisher.connections.oversized()
    }

    /// Handshakes that failed: foreign nodes, other cookies, old nodes.
    pub fn refused(&self) -> u64 {
        self.establisher.connections.refused()
    }

    /// The node of that name, connected to if it is not yet.
    pub async fn connect(&self, name: &str) -> Result<Arc<Peer>, ConnectError> {
        self.establisher.connect(name).await
    }
}
