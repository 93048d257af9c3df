//! A node and what a server is around it: replica, history, streams, and what is on its way.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::rooms::HostRooms;
use super::store::Graph;
use crate::{Deliver, LogMark, Node, Order, Ticket};

/// What is to be posted, in this order.
pub(super) enum Posting {
    Event(Deliver),
    Order { sequence: u64, order: Order },
}

/// An event that was posted here.
pub(super) struct Posted {
    pub(super) number: u64,
    pub(super) subject: usize,
    pub(super) send: usize,
}

/// A node by name; processes come and go.
pub(super) struct Host {
    pub(super) node: Option<Node>,
    /// Which name its process has, of as many as there are hosts.
    pub(super) name: usize,
    /// Which process of this host it is.
    pub(super) process: u64,
    pub(super) nonce: u64,
    /// Streams are taken.
    pub(super) open: bool,
    /// What survives a crash: the graph, and up to where in which log it is complete.
    pub(super) graph: Graph,
    pub(super) graph_at: LogMark,
    /// Where its follower has to begin for the graph's sake.
    pub(super) follow_at: u64,
    pub(super) epoch: u64,
    pub(super) history: Vec<Posted>,
    pub(super) posting: VecDeque<(u64, Posting)>,
    /// The number of the last event that was posted, or where the epoch or the history began.
    pub(super) last_posted: u64,
    /// The greatest number of the epochs before.
    pub(super) greatest: u64,
    /// The next sequence that its follower reads, and which follower it is.
    pub(super) follower: Option<u64>,
    pub(super) follower_run: u64,
    pub(super) cut_until_ms: u64,
    pub(super) paused_until_ms: u64,
    /// It was paused: its senders may wait longer.
    pub(super) was_paused: bool,
    /// Which send each ticket is, and since when.
    pub(super) tickets: BTreeMap<Ticket, (usize, u64)>,
    /// Changes that are answered when the replica has them: version, and which.
    pub(super) waiting: Vec<(u64, usize)>,
    /// Revocations that it goes by.
    pub(super) revoked: BTreeSet<usize>,
    /// So many events are handed out and not posted.
    pub(super) window: usize,
    /// When the last posting was asked for: they keep their order.
    pub(super) post_ms: u64,
    pub(super) rooms: HostRooms,
}

impl Host {
    pub(super) fn new() -> Host {
        Host {
            node: None,
            name: 0,
            process: 0,
            nonce: 0,
            open: false,
            graph: Graph::default(),
            graph_at: LogMark::default(),
            follow_at: 0,
            epoch: 0,
            history: Vec::new(),
            posting: VecDeque::new(),
            last_posted: 0,
            greatest: 0,
            follower: None,
            follower_run: 0,
            cut_until_ms: 0,
            paused_until_ms: 0,
            was_paused: false,
            tickets: BTreeMap::new(),
            waiting: Vec::new(),
            revoked: BTreeSet::new(),
            window: 0,
            post_ms: 0,
            rooms: HostRooms::default(),
        }
    }

    /// All that a process has and a crash ends.
    pub(super) fn crash(&mut self) {
        let (graph, graph_at) = (std::mem::take(&mut self.graph), self.graph_at);
        let (process, follower_run) = (self.process + 1, self.follower_run + 1);
        *self = Host { graph, graph_at, process, follower_run, ..Host::new() };
    }

    /// Whether a client with this id hears what is about `subject`.
    pub(super) fn hears(&self, id: usize, subject: usize) -> bool {
        id == subject || self.graph.has(id, subject)
    }
}
