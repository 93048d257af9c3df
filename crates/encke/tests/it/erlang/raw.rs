//! A node that knows the cookie and sends what no Erlang node would.

use std::sync::Arc;
use std::time::Duration;

use erlang::control::send_to_name;
use erlang::{Incoming, Node, NodeConfig, OwnPid, Peer, Session, frames};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::node::{COOKIE, World};
use crate::harness::{DEADLINE, wait_for};

/// Bytes that wait in this node's own memory for Encke to take them.
const QUEUE_BYTES_MAX: usize = 512 << 20;

/// A time that no test waits for.
const NEVER: Duration = Duration::from_secs(3600);

/// A node that is connected to Encke. It reads only when it is told to.
pub(super) struct RawNode {
    runtime: Runtime,
    node: Arc<Node>,
    peer: Arc<Peer>,
    session: Session,
}

impl RawNode {
    /// The node `name@127.0.0.1`, which keeps quiet about silence.
    pub(super) fn connect(world: &World, name: &str) -> RawNode {
        let config = NodeConfig {
            name: format!("{name}@127.0.0.1").into(),
            cookie: COOKIE.into(),
            listen: None,
            port: 0,
            epmd: world.port(),
            tick_time: NEVER,
            setup_timeout: DEADLINE,
            queue_bytes_max: QUEUE_BYTES_MAX,
            nodes_max: 10,
        };
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let (node, peer, session) = runtime.block_on(async {
            let (node, mut sessions) = Node::start(config).await.unwrap();
            let peer = node.connect("encke@127.0.0.1").await.unwrap();
            let session = timeout(DEADLINE, sessions.recv()).await.unwrap().unwrap();
            (node, peer, session)
        });
        RawNode { runtime, node, peer, session }
    }

    /// One of its processes.
    pub(super) fn pid(&self) -> OwnPid<'_> {
        self.node.pid(1)
    }

    /// Sends `content` as a frame, and says whether the connection stands.
    pub(super) fn frame(&self, content: &[u8]) -> bool {
        self.peer.send(|out| {
            out.extend((content.len() as u32).to_be_bytes());
            out.extend_from_slice(content);
        })
    }

    /// Sends `bytes`, which may be anything.
    pub(super) fn bytes(&self, bytes: &[u8]) -> bool {
        self.peer.send(|out| out.extend_from_slice(bytes))
    }

    /// Sends `payload`, a term, to Encke's process `name`.
    pub(super) fn send(&self, name: &str, payload: &[u8]) -> bool {
        self.peer.send(|out| {
            send_to_name(out, self.pid(), name, |out| out.extend_from_slice(payload));
        })
    }

    /// Waits until Encke has taken all that was sent.
    #[track_caller]
    pub(super) fn wait_taken(&self) {
        wait_for("all is taken", || self.peer.waiting_bytes() == 0);
    }

    /// The next frame that Encke sends.
    pub(super) fn read(&mut self) -> Vec<u8> {
        let RawNode { runtime, session, .. } = self;
        let batch = runtime.block_on(async { timeout(DEADLINE, session.read()).await });
        let incoming = batch.expect("something comes").expect("the connection stands");
        let Incoming::Frames(batch) = incoming else { panic!("a frame that is too long") };
        frames(&batch).next().unwrap().to_vec()
    }
}
