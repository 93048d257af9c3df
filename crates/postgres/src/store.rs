//! The handle: one per node, cheap to clone.

use std::sync::Arc;

use tokio::sync::{Mutex, broadcast, mpsc, oneshot, watch};

use crate::config::PostgresConfig;
use crate::error::PostgresError;
use crate::limits::{CHANGE_PAIRS_MAX, COMMITS_KEPT, QUEUE_MAX};
use crate::pair::{Pair, integer_of};
use crate::session::Session;
use crate::shared::{Change, Changed, Request, Seen, Shared};
use crate::{watch as poll, write};

/// The graph in PostgreSQL. Clones share its connections; when the last one is dropped they close.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) queue: mpsc::Sender<Request>,
    pub(crate) seen: watch::Receiver<Seen>,
}

impl PostgresStore {
    /// Connects, makes the schema or migrates it, and returns when the graph can be used. The tasks
    /// run on the current tokio runtime.
    pub async fn connect(config: PostgresConfig) -> Result<PostgresStore, PostgresError> {
        let session = Session::open(&config).await?;
        let place = session.place().await?;
        let store = PostgresStore::start_with(config, Some(session));
        store.shared.see(Seen::At(place));
        Ok(store)
    }

    /// Returns at once and connects in the background, again and again, with a bounded back-off;
    /// [`PostgresStore::versions`] says how that goes. Until it is done changes are refused as
    /// [`PostgresError::Away`].
    pub fn start(config: PostgresConfig) -> PostgresStore {
        PostgresStore::start_with(config, None)
    }

    fn start_with(config: PostgresConfig, session: Option<Session>) -> PostgresStore {
        let (seen, seen_receiver) = watch::channel(Seen::Starting);
        let (commits, _) = broadcast::channel(COMMITS_KEPT);
        let (queue, requests) = mpsc::channel(QUEUE_MAX);
        let shared = Arc::new(Shared { config, reader: Mutex::default(), seen, commits });
        tokio::spawn(write::run(shared.clone(), requests));
        tokio::spawn(poll::run(Arc::downgrade(&shared), session));
        PostgresStore { shared, queue, seen: seen_receiver }
    }

    /// The configuration, without its secrets in `Debug`.
    pub fn config(&self) -> &PostgresConfig {
        &self.shared.config
    }

    /// Removes and then adds pairs, durably. Waits for a place in the queue, then for the
    /// transaction; a caller that is dropped before that begins has changed nothing.
    pub async fn change(
        &self,
        added: Vec<Pair>,
        removed: Vec<Pair>,
    ) -> Result<Changed, PostgresError> {
        let pairs = added.len() + removed.len();
        if pairs > CHANGE_PAIRS_MAX {
            return Err(PostgresError::Refused(format!(
                "a change has at most {CHANGE_PAIRS_MAX} pairs, this one has {pairs}: send parts"
            )));
        }
        for (a, b) in added.iter().chain(&removed) {
            integer_of(a)?;
            integer_of(b)?;
        }
        let (reply, answer) = oneshot::channel();
        let gone = |_| PostgresError::Away("this node is stopping".into());
        self.queue.send(Request { added, removed, reply }).await.map_err(|_| gone(()))?;
        // The writer ends early only when the runtime does, maybe in the middle of a commit.
        answer.await.unwrap_or_else(|_| Err(PostgresError::Unknown("this node is stopping".into())))
    }

    /// Each transaction of this node that changed something, once, in order, from now on.
    pub fn commits(&self) -> Commits {
        Commits(self.shared.commits.subscribe())
    }

    /// Where the graph is, now and whenever that changes.
    pub fn versions(&self) -> Versions {
        let mut seen = self.seen.clone();
        seen.mark_changed();
        Versions(seen)
    }
}

/// See [`PostgresStore::commits`].
#[derive(Debug)]
pub struct Commits(broadcast::Receiver<Arc<Change>>);

impl Commits {
    /// The next one; `None` when the last [`PostgresStore`] is dropped. Who lags far behind misses
    /// some: versions that are left out are in [`PostgresStore::changes_after`].
    pub async fn next(&mut self) -> Option<Arc<Change>> {
        loop {
            match self.0.recv().await {
                Ok(change) => return Some(change),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// See [`PostgresStore::versions`].
#[derive(Clone, Debug)]
pub struct Versions(watch::Receiver<Seen>);

impl Versions {
    /// What is known now.
    pub fn now(&self) -> Seen {
        self.0.borrow().clone()
    }

    /// The next news; the first time what is known now. Who is slow gets the newest alone. `None`
    /// when the last [`PostgresStore`] is dropped.
    pub async fn next(&mut self) -> Option<Seen> {
        self.0.changed().await.ok()?;
        Some(self.0.borrow_and_update().clone())
    }
}
