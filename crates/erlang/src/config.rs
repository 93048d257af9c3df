//! What our node must be told at start.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::lookup_host;

/// Our node's name, its place on the network, and its bounds.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's name, `name@host`.
    pub name: Box<str>,
    /// What proves that nodes may talk to each other.
    pub cookie: Box<str>,
    /// Where other nodes connect; the address of the node's host where it is `None`.
    pub listen: Option<IpAddr>,
    /// At which port. 0 lets the kernel choose.
    pub port: u16,
    /// The port of epmd, on each host.
    pub epmd: u16,
    /// Silence after which a node counts as gone, and the time in which it must take something of
    /// what is written to it.
    pub tick_time: Duration,
    /// How long a handshake may take, and an answer of epmd:
    /// [`SETUP_TIMEOUT`](crate::SETUP_TIMEOUT) unless there are reasons.
    pub setup_timeout: Duration,
    /// Bytes that may wait to be written to one node, past which it counts as too slow.
    pub queue_bytes_max: usize,
    /// Nodes that may be connected: [`NODES_MAX`](crate::NODES_MAX) unless there are reasons.
    pub nodes_max: usize,
}

impl NodeConfig {
    /// Where to listen: as is told, or where the node's host is. That may have many addresses, the
    /// first of which will do, and none at which other hosts reach us: whoever starts the node is
    /// told which it is.
    pub(crate) async fn listen_address(&self) -> io::Result<SocketAddr> {
        if let Some(ip) = self.listen {
            return Ok(SocketAddr::new(ip, self.port));
        }
        let host = self.name.split_once('@').map_or("", |(_, host)| host);
        let unknown = || io::Error::new(ErrorKind::NotFound, format!("{host} has no address"));
        lookup_host((host, self.port)).await.map_err(|_| unknown())?.next().ok_or_else(unknown)
    }

    /// The name by which this host's epmd knows us.
    pub(crate) fn alive(&self) -> &str {
        self.name.split_once('@').map_or(&self.name, |(alive, _)| alive)
    }
}
