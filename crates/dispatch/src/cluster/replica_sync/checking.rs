//! When all pairs are compared, what comes of it, and what others may see of that.

use std::time::Duration;

use anyhow::Result;
use postgres::Versions;
use tokio::sync::watch;
use tokio::time::Instant;

use super::super::compare::{Compared, compare, until_next};
use super::{Answer, Question, ReplicaSync};

/// How long a comparison may take when the next one is due: its connection may be dead.
const CHECK_MAX: Duration = Duration::from_secs(3600);

/// What others may see of the graph's replica.
#[derive(Clone, Debug)]
pub(in super::super) struct GraphStatus {
    /// Where the store of record is.
    pub(in super::super) versions: Versions,
    /// Why the replica is built anew, while it is.
    pub(in super::super) building: watch::Receiver<Option<String>>,
    pub(in super::super) checks: watch::Receiver<Checks>,
}

/// Comparisons of all pairs with those of the store of record, by what came of them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Checks {
    /// No pair differed.
    pub equal: u64,
    /// Some did.
    pub differed: u64,
    /// None did, and the application's table that is the graph has others.
    pub table_differed: u64,
    /// They, or that table, could not be compared.
    pub failed: u64,
    /// Replicas that were built out of the store of record.
    pub rebuilt: u64,
}

impl ReplicaSync {
    /// What others may see of it.
    pub(in super::super) fn told(&self) -> GraphStatus {
        let (building, checks) = (self.says.subscribe(), self.checks.subscribe());
        GraphStatus { versions: self.store.versions(), building, checks }
    }

    /// Compares all pairs `every` so often, unless that is zero.
    pub(in super::super) fn checking(self, node: String, every: Duration) -> ReplicaSync {
        ReplicaSync { checking: Some((node, every)).filter(|_| !every.is_zero()), ..self }
    }

    pub(super) fn until_check(&self) -> Duration {
        let until =
            |(node, every): &(String, Duration)| until_next(node, *every, sys::clock::unix_ms());
        self.checking.as_ref().map_or(Duration::MAX, until)
    }

    /// Compares all pairs with those of PostgreSQL, beside everything else.
    pub(super) fn check(&mut self) {
        let busy = self.asked.contains(&Question::All) || self.must_rebuild().is_some();
        if busy {
            return;
        }
        if !self.asked.insert(Question::Check) {
            if self.check_under_way.as_ref().is_some_and(|(_, since)| since.elapsed() < CHECK_MAX) {
                return;
            }
            tracing::warn!(
                "the graph was not compared with PostgreSQL: the check before has no answer and is \
                 given up"
            );
            self.checks.send_modify(|checks| checks.failed += 1);
        }
        let (store, graph) = (self.store.clone(), self.graph());
        let check =
            self.answers.spawn(async move { Answer::Compared(compare(store, graph).await) });
        if let Some((before, _)) = self.check_under_way.replace((check, Instant::now())) {
            // One that has its answer is over.
            before.abort();
        }
    }

    pub(super) fn compared(&mut self, compared: Result<Compared>) {
        self.asked.remove(&Question::Check);
        self.checks.send_modify(|checks| match compared {
            Ok(Compared::Equal { .. }) => checks.equal += 1,
            Ok(Compared::Differ { .. } | Compared::Mended) => checks.differed += 1,
            Ok(Compared::TableDiffers) => checks.table_differed += 1,
            Ok(Compared::TableUnread) | Err(_) => checks.failed += 1,
        });
        match compared {
            Ok(Compared::Equal { pairs }) => {
                tracing::info!(pairs, "the graph has the pairs that PostgreSQL has");
            }
            Ok(Compared::Differ { buckets }) => {
                let of = hub::BUCKETS;
                let why = format!("{buckets} of {of} parts differ from what PostgreSQL has");
                tracing::error!("the graph is not what it should be: {why}");
                self.rebuild(&why);
            }
            Ok(Compared::Mended) => tracing::error!(
                "rows of the graph in PostgreSQL were changed otherwise than by Encke: they are \
                 taken as they are, and all replicas are built anew"
            ),
            // It has told that.
            Ok(Compared::TableDiffers | Compared::TableUnread) => {}
            Err(error) => tracing::warn!("the graph was not compared with PostgreSQL: {error:#}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::iter::empty;
    use std::net::TcpListener;
    use std::path::Path;

    use graph::replica::{LogPlace, Origin, PairBatch, Replica, ReplicaOptions};
    use postgres::PostgresConfig;
    use tokio::time::advance;

    use super::*;
    use crate::captured_log::CapturedLog;

    /// One with a graph, whose database takes connections and says nothing.
    async fn deaf(dir: &Path, database: &TcpListener) -> ReplicaSync {
        let mut replica = Replica::open(dir, &ReplicaOptions::default()).unwrap();
        let origin = Origin { lineage: 7, version: 1, at: LogPlace::default(), set_hash: None };
        let none = || empty::<Result<PairBatch, String>>();
        replica.rebuild(&origin, none(), none()).unwrap();
        drop(replica);
        let url = format!("postgresql://u@{}/d", database.local_addr().unwrap());
        ReplicaSync::open(dir.to_owned(), PostgresConfig::from_url(&url).unwrap()).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn check_without_an_answer_is_given_up_by_the_next_one_after_its_time() {
        let (log, _guard) = CapturedLog::start();
        let (dir, database) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0"));
        let mut sync = deaf(dir.path(), database.as_ref().unwrap()).await;
        let failed = |sync: &ReplicaSync| sync.checks.borrow().failed;
        sync.check();
        advance(CHECK_MAX - Duration::from_secs(1)).await;
        sync.check();
        assert_eq!((failed(&sync), sync.answers.len()), (0, 1), "it has time still");
        advance(Duration::from_secs(1)).await;
        sync.check();
        assert_eq!((failed(&sync), sync.answers.len()), (1, 2), "there is another one");
        assert!(log.text().contains("the check before has no answer and is given up"));
        let given_up = sync.answers.join_next().await.unwrap();
        assert!(given_up.is_err_and(|error| error.is_cancelled()));
        // That one has its own time.
        sync.check();
        assert_eq!((failed(&sync), sync.answers.len()), (1, 1));
    }
}
