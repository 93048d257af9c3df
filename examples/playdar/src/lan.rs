//! Other daemons on the local network, asked by multicast.
//!
//! It speaks with the daemons of old. A query goes to the group as one datagram of JSON, each
//! result comes back as one, and the song is played from `/sid/` of the daemon that has it. Off
//! unless asked for, since everybody on the network can then learn which songs there are here.
//!
//! Everything that is heard is checked as [`foreign`](crate::foreign) says. A query and a ping
//! count only where they were sent to the group, which routers do not pass on. So nobody far away
//! can make a daemon send its answers to somebody else.

mod answering;
mod message;
mod node;
mod roster;
mod sockets;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::pipeline::Pipeline;
use crate::resolver::{Profile, Queue};
use node::LanNode;
pub use roster::Peer;
use roster::Roster;

/// The group and the port of every Playdar.
pub const GROUP: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(239, 255, 0, 1), 60210);

/// Queries that wait to be sent. They wait for nothing but the loop's turn.
const ASKED_MAX: usize = 256;

/// How the LAN is asked.
#[derive(Clone, Debug)]
pub struct LanConfig {
    /// Where all listen: [`GROUP`], unless a test wants one of its own.
    pub group: SocketAddrV4,
    /// Our own address there; the one through which the system would send, unless given.
    pub interface: Option<Ipv4Addr>,
    /// What we call ourselves.
    pub name: String,
    /// Where we serve `/sid/`.
    pub http_port: u16,
}

/// The LAN, as long as it is listened to.
pub struct Lan {
    roster: Arc<Mutex<Roster>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Begins to listen to the LAN, and to ask it what `pipeline` is asked.
///
/// # Errors
/// There is no way to the group: the message says what to look at.
pub fn start(config: LanConfig, pipeline: &Pipeline) -> Result<Lan> {
    let sockets = sockets::open(config.group, config.interface).with_context(|| {
        format!(
            "cannot use the LAN ({}): see that the network is up and has a route for multicast, \
             name our address on it with --lan-interface, or start without --lan",
            config.group
        )
    })?;
    let (sender, asked) = mpsc::channel(ASKED_MAX);
    let (roster, stop) = (Arc::new(Mutex::new(Roster::default())), CancellationToken::new());
    let node = LanNode::new(config, pipeline.clone(), sockets, roster.clone());
    pipeline.add(Arc::new(Queue { profile: profile(), sender }));
    let task = tokio::spawn(node.run(asked, stop.clone()));
    Ok(Lan { roster, stop, task })
}

impl Lan {
    /// Who else is there, by name.
    pub fn roster(&self) -> Vec<Peer> {
        self.roster.lock().peers(Instant::now())
    }

    /// Says that we go, and ends.
    pub async fn stop(self) {
        self.stop.cancel();
        // A panic of the task was told when it happened.
        let _ = self.task.await;
    }
}

/// The LAN as the pipeline sees it: weight and time as the old daemon has them.
fn profile() -> Profile {
    Profile {
        name: "LAN".to_owned(),
        weight: 95,
        target_time: Duration::from_millis(50),
        is_local_only: false,
        preference: 95,
    }
}
