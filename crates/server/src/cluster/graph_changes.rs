//! Subscriptions that are changed through a node of a cluster: by the store of record, and answered
//! when every later send obeys them.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Ledger, LedgerError};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The same pairs as text.
fn pairs_of(pairs: Vec<graph::Pair>) -> Vec<ledger::Pair> {
    let text = |id: &graph::OwnedId| id.as_text().to_string();
    pairs.iter().map(|pair| (text(&pair.subscriber), text(&pair.subscribee))).collect()
}

/// Shared by those who change subscriptions: the store of record, and how far this node is.
#[derive(Debug)]
pub(crate) struct GraphChanges {
    pub(super) ledger: Ledger,
    /// The last version that all later sends obey, on whichever node.
    pub(super) obeyed: tokio::sync::watch::Receiver<u64>,
    /// The server ends.
    pub(super) stop: CancellationToken,
}

/// How long a change may take from PostgreSQL to this node's replica.
const OBEYED_TIMEOUT: Duration = Duration::from_secs(10);

/// How long it may take when the server ends: thousands of times what it takes where PostgreSQL
/// answers, and not all of the grace time where that is silent.
const LAST_CHANGES: Duration = Duration::from_secs(1);

impl GraphChanges {
    /// Adds or removes `pairs`; answers how many were new, or were there, once every later send
    /// obeys.
    pub(crate) async fn change(
        self: &Arc<Self>,
        add: bool,
        pairs: Vec<graph::Pair>,
    ) -> Result<u64, GraphTrouble> {
        let pairs = pairs_of(pairs);
        let (added, removed) = if add { (pairs, Vec::new()) } else { (Vec::new(), pairs) };
        let changed = tokio::select! {
            changed = self.ledger.change(added, removed) => changed?,
            () = self.ended() => return Err(GraphTrouble::Ending),
        };
        let mut obeyed = self.obeyed.clone();
        let version = changed.place.version;
        let is_news = !changed.added.is_empty() || !changed.removed.is_empty();
        // What was so before may be the change of another node, which only that one knows to be in
        // the log: so it is put there again, which does no harm. One that is no longer kept has
        // been there for days.
        if !is_news
            && *obeyed.borrow() < version
            && !self.ledger.commit_again(changed.place).await?
        {
            return Ok(0);
        }
        let heard = obeyed.wait_for(|obeyed| *obeyed >= version);
        tokio::select! {
            heard = timeout(OBEYED_TIMEOUT, heard) => match heard {
                Ok(Ok(_)) => Ok((changed.added.len() + changed.removed.len()) as u64),
                _ => Err(GraphTrouble::NotHeard),
            },
            () = self.ended() => Err(GraphTrouble::NotHeard),
        }
    }

    /// Resolves when the server ends and the last changes have had their time.
    async fn ended(&self) {
        self.stop.cancelled().await;
        sleep(LAST_CHANGES).await;
    }
}

/// Why subscriptions were not changed, or not everywhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GraphTrouble {
    /// There is no store of record.
    #[error("the nodes of this cluster have no --postgres, so their graph stands still")]
    StandsStill,
    /// PostgreSQL.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// It is stored, and the log has not brought it in time.
    #[error("the change is stored, and not all nodes obey it yet; they will")]
    NotHeard,
    /// The server ends before PostgreSQL has answered.
    #[error(
        "this node is ending, and the graph's database has not said whether it was changed. Send \
         the same change again, at another node: that does no harm"
    )]
    Ending,
}
