//! The handle: one per node, cheap to clone.

use std::sync::Arc;

use tokio::sync::{Mutex, broadcast, mpsc, watch};

use crate::config::LedgerConfig;
use crate::error::LedgerError;
use crate::limits::{COMMITS_KEPT, QUEUE_MAX};
use crate::session::Session;
use crate::watch::Seen;
use crate::write::Request;
use crate::{Change, watch as poll, write};

/// The graph in PostgreSQL. Clones share its connections; when the last one is dropped they close.
#[derive(Clone, Debug)]
pub struct Ledger {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: mpsc::Sender<Request>,
    pub(crate) seen: watch::Receiver<Seen>,
}

/// What the handle and its two tasks have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: LedgerConfig,
    /// The connection for pages of changes and for status.
    pub(crate) reader: Mutex<Option<Session>>,
    pub(crate) seen: watch::Sender<Seen>,
    pub(crate) commits: broadcast::Sender<Arc<Change>>,
}

impl Ledger {
    /// Connects, makes the schema or migrates it, and returns a ledger that can be used. The tasks
    /// run on the current tokio runtime.
    pub async fn connect(config: LedgerConfig) -> Result<Ledger, LedgerError> {
        let session = Session::open(&config).await?;
        let place = session.place().await?;
        let ledger = Ledger::start_with(config, Some(session));
        ledger.shared.see(Seen::At(place));
        Ok(ledger)
    }

    /// Returns at once and connects in the background, again and again, with a bounded back-off;
    /// [`Ledger::versions`] says how that goes. Until it is done changes are refused as
    /// [`LedgerError::Away`].
    pub fn start(config: LedgerConfig) -> Ledger {
        Ledger::start_with(config, None)
    }

    fn start_with(config: LedgerConfig, session: Option<Session>) -> Ledger {
        let (seen, seen_receiver) = watch::channel(Seen::Starting);
        let (commits, _) = broadcast::channel(COMMITS_KEPT);
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let shared = Arc::new(Shared { config, reader: Mutex::default(), seen, commits });
        tokio::spawn(write::run(shared.clone(), requests));
        tokio::spawn(poll::run(Arc::downgrade(&shared), session));
        Ledger { shared, queue, seen: seen_receiver }
    }

    /// The configuration, without its secrets in `Debug`.
    pub fn config(&self) -> &LedgerConfig {
        &self.shared.config
    }
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
