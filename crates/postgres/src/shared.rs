//! What the handle and its two tasks have in common.

use std::sync::Arc;

use tokio::sync::{Mutex, broadcast, oneshot, watch};

use crate::config::PostgresConfig;
use crate::error::PostgresError;
use crate::pair::Pair;
use crate::place::Place;
use crate::session::Session;

/// What this node knows of the database.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Seen {
    /// It has not answered yet.
    Starting,
    /// The graph is there, as of the last poll or the last commit of this node.
    At(Place),
    /// It does not answer; it is tried again with a bounded back-off, whatever the error.
    Away(PostgresError),
}

/// One version of the graph.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Where it leads.
    pub place: Place,
    /// Pairs that were not there before.
    pub added: Vec<Pair>,
    /// Pairs that were there before.
    pub removed: Vec<Pair>,
}

/// What a change did, as of its transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Changed {
    /// Where the graph is now, or was already where nothing was to do. Changes that shared the
    /// transaction have the same.
    pub place: Place,
    /// The pairs that were not there before.
    pub added: Vec<Pair>,
    /// The pairs that were there before.
    pub removed: Vec<Pair>,
}

/// Pairs to change, and where the answer goes.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) added: Vec<Pair>,
    pub(crate) removed: Vec<Pair>,
    pub(crate) reply: oneshot::Sender<Result<Changed, PostgresError>>,
}

impl Request {
    pub(crate) fn pairs(&self) -> usize {
        self.added.len() + self.removed.len()
    }
}

/// Of a handle and its tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: PostgresConfig,
    /// The connection for pages of changes and for status.
    pub(crate) reader: Mutex<Option<Session>>,
    pub(crate) seen: watch::Sender<Seen>,
    pub(crate) commits: broadcast::Sender<Arc<Change>>,
}

impl Shared {
    /// Tells where the graph is, if that is news.
    pub(crate) fn see(&self, now: Seen) {
        self.seen.send_if_modified(|seen| {
            let news = *seen != now;
            *seen = now;
            news
        });
    }
}
