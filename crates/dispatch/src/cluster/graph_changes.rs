//! Subscriptions that are changed through a node of a cluster: by the store of record, and answered
//! when every later send obeys them.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use postgres::{Place, PostgresError, PostgresStore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Pairs as text.
fn pairs_of(pairs: Vec<graph::Pair>) -> Vec<postgres::Pair> {
    let text = |id: &graph::OwnedId| id.as_text().to_string();
    pairs.iter().map(|pair| (text(&pair.subscriber), text(&pair.subscribee))).collect()
}

/// How many versions are remembered that all sends obey: of more than may be on their way at once.
const OBEYED_MAX: usize = 4_096;

/// The last changes of this node that all later sends obey. A greater version says nothing of a
/// smaller one, since the store of record may be put back to an older state.
#[derive(Debug, Default)]
pub(super) struct Obeyed {
    places: HashSet<(u64, u64)>,
    order: VecDeque<(u64, u64)>,
}

impl Obeyed {
    /// All later sends obey the version that has this hash.
    pub(super) fn note(&mut self, version: u64, hash: u64) {
        if self.places.insert((version, hash)) {
            self.order.push_back((version, hash));
            if self.order.len() > OBEYED_MAX {
                self.order.pop_front().inspect(|oldest| {
                    self.places.remove(oldest);
                });
            }
            debug_assert_eq!(
                self.places.len(),
                self.order.len(),
                "one is forgotten with its place"
            );
        }
    }

    fn has(&self, version: u64, hash: u64) -> bool {
        self.places.contains(&(version, hash))
    }
}

/// Shared by those who change subscriptions: the store of record, and how far this node is.
#[derive(Debug)]
pub(super) struct GraphChanges {
    pub(super) store: PostgresStore,
    /// What all later sends obey, on whichever node.
    pub(super) obeyed: tokio::sync::watch::Receiver<Obeyed>,
    /// The server ends.
    pub(super) stop: CancellationToken,
}

/// How long a change may take from PostgreSQL to this node's replica, once it was told twice.
const OBEYED_TIMEOUT: Duration = Duration::from_secs(9);

/// When it is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long it may take when the server ends: thousands of times what it takes where PostgreSQL
/// answers, and not all of the grace time where that is silent.
const LAST_CHANGES: Duration = Duration::from_secs(1);

/// How long a change waits for the log before it is refused: longer than a node takes to be
/// connected to another server of NATS.
const LOG_TIMEOUT: Duration = Duration::from_secs(2);

/// How often the log is looked for meanwhile.
const LOG_PAUSE: Duration = Duration::from_millis(50);

/// Waits until the log can be reached, as `is_there` says, but not when the server ends.
async fn wait_for_log(
    is_there: impl Fn() -> bool,
    stop: &CancellationToken,
) -> Result<(), GraphTrouble> {
    let deadline = Instant::now() + LOG_TIMEOUT;
    while !is_there() {
        if Instant::now() >= deadline || stop.is_cancelled() {
            return Err(GraphTrouble::LogAway);
        }
        sleep(LOG_PAUSE).await;
    }
    Ok(())
}

impl GraphChanges {
    /// Waits until the log can be reached, as `is_there` says. What is changed while it is away is
    /// obeyed by no later send, and its records would wait here: so PostgreSQL is not asked then.
    pub(super) async fn wait_for_log(
        &self,
        is_there: impl Fn() -> bool,
    ) -> Result<(), GraphTrouble> {
        wait_for_log(is_there, &self.stop).await
    }

    /// Adds or removes `pairs`; answers how many were new, or were there, once every later send
    /// obeys.
    pub(super) async fn change(
        self: &Arc<Self>,
        add: bool,
        pairs: Vec<graph::Pair>,
    ) -> Result<u64, GraphTrouble> {
        let pairs = pairs_of(pairs);
        let (added, removed) = if add { (pairs, Vec::new()) } else { (Vec::new(), pairs) };
        let changed = tokio::select! {
            changed = self.store.change(added, removed) => changed?,
            () = self.ended() => return Err(GraphTrouble::Ending),
        };
        let mut obeyed = self.obeyed.clone();
        let Place { version, hash, .. } = changed.place;
        let is_new = !changed.added.is_empty() || !changed.removed.is_empty();
        // What was so before may be the change of another node, which only that one knows to be in
        // the log: so it is put there again, which does no harm. One that is no longer kept has
        // been there for days.
        if !is_new
            && !obeyed.borrow().has(version, hash)
            && !self.store.commit_again(changed.place).await?
        {
            return Ok(0);
        }
        let mut heard = async |within| {
            let heard = obeyed.wait_for(|obeyed| obeyed.has(version, hash));
            matches!(timeout(within, heard).await, Ok(Ok(_)))
        };
        let heard = async {
            // Word of a commit is lost where too many come at once.
            Ok(heard(AGAIN_AFTER).await
                || self.store.commit_again(changed.place).await? && heard(OBEYED_TIMEOUT).await)
        };
        let heard: Result<bool, PostgresError> = tokio::select! {
            heard = heard => heard,
            () = self.ended() => Ok(false),
        };
        match heard? {
            true => Ok((changed.added.len() + changed.removed.len()) as u64),
            false => Err(GraphTrouble::NotHeard),
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
pub enum GraphTrouble {
    /// There is no store of record.
    #[error("the nodes of this cluster have no --postgres, so their graph stands still")]
    StandsStill,
    /// The log cannot be reached, so PostgreSQL was not asked.
    #[error("the cluster's log cannot be reached, and nothing was changed")]
    LogAway,
    /// PostgreSQL.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// By a clock that goes on while nothing else is done.
    #[tokio::test(start_paused = true)]
    async fn change_waits_for_the_log_for_a_while_and_is_refused_then() {
        let stop = CancellationToken::new();
        let looks = Cell::new(0);
        let there_at_third = || looks.replace(looks.get() + 1) == 2;
        wait_for_log(there_at_third, &stop).await.unwrap();
        assert_eq!(looks.get(), 3);
        let refused = wait_for_log(|| false, &stop).await.unwrap_err();
        assert!(matches!(refused, GraphTrouble::LogAway), "{refused}");
        assert!(refused.to_string().contains("nothing was changed"), "{refused}");
        stop.cancel();
        let looks = Cell::new(0);
        let never = || looks.replace(looks.get() + 1) > 9;
        wait_for_log(never, &stop).await.unwrap_err();
        assert_eq!(looks.get(), 1, "who ends waits for nothing");
    }
}
