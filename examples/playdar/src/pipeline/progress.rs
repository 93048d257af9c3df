//! How a query's results are heard as they come.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::model::{Found, Query};
use crate::queries::{Progress, Queries};

/// Tells new results of one query, each once, in the order in which they came.
pub struct Watch {
    pub(super) queries: Arc<Queries>,
    pub(super) query: Arc<Query>,
    pub(super) progress: watch::Receiver<Progress>,
    pub(super) seen: usize,
}

impl Watch {
    /// What was asked.
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// How far the query is.
    pub fn progress(&self) -> Progress {
        *self.progress.borrow()
    }

    /// Waits until there are results that were not told yet; false once the query has ended.
    pub async fn has_more(&mut self) -> bool {
        let seen = self.seen;
        self.progress.wait_for(|progress| progress.results > seen).await.is_ok()
    }

    /// Waits for the query's end.
    pub async fn ended(&mut self) {
        while self.progress.changed().await.is_ok() {}
    }

    /// The results that came since the last call, at least one; nothing once the query has ended.
    pub async fn next(&mut self) -> Option<Vec<Arc<Found>>> {
        if !self.has_more().await {
            return None;
        }
        let new = self.queries.results_after(&self.query.qid, self.seen)?;
        self.seen += new.len();
        Some(new)
    }

    /// Waits until the query is solved, or has ended, or the time is over.
    pub async fn solved_within(&mut self, wait: Duration) {
        // Each of the three is an answer.
        let _ = timeout(wait, self.progress.wait_for(|progress| progress.is_solved)).await;
    }
}
