//! What our node must be told at start.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Our node's name, its place on the network, and its bounds.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The node's name, `name@host`.
    pub name: Box<str>,
    /// What proves that nodes may talk to each other.
    pub cookie: Box<str>,
    /// Where other nodes connect. Port 0 lets the kernel choose.
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
    /// Where to listen: at the address that the node's host is, or, as Erlang nodes do, at all when
    /// that is a name, since it may stand for another one here than elsewhere.
    pub(crate) fn listen_address(&self) -> SocketAddr {
        let host = self.name.split_once('@').map_or("", |(_, host)| host);
        let ip = host.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        SocketAddr::new(ip, self.port)
    }

    /// The name by which this host's epmd knows us.
    pub(crate) fn alive(&self) -> &str {
        self.name.split_once('@').map_or(&self.name, |(alive, _)| alive)
    }
}
