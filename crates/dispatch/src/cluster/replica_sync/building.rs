//! A replica that is made anew out of what PostgreSQL has.

use anyhow::{Context, Result};
use graph::replica::{Built, ReplicaState};
use tokio::task::spawn_blocking;

use super::{Answer, Kept, Question, ReplicaSync};
use crate::cluster::build::{build, catch_up};

impl ReplicaSync {
    /// Builds the replica out of all that PostgreSQL has, beside the one that answers.
    pub(super) fn rebuild(&mut self, why: &str) {
        if !self.asked.insert(Question::All) {
            return;
        }
        let store = self.store.clone();
        match self.replica().begin_rebuild() {
            Ok(rebuild) => {
                tracing::warn!("the replica of the graph is built anew: {why}");
                self.says.send_replace(Some(why.to_owned()));
                self.answers.spawn(async move { Answer::Built(build(store, rebuild).await) });
            }
            Err(error) => {
                tracing::error!("{error}");
                self.asked.remove(&Question::All);
            }
        }
    }

    /// Puts `built` into the replica's place.
    pub(super) async fn replace(&mut self, built: Built) -> Result<Vec<Kept>> {
        // What the log has brought meanwhile must not go out of the graph again.
        let built = catch_up(&self.store, built).await?;
        let (before, mut replica) = (self.state(), self.replica.take().expect("it is there"));
        let replacing = spawn_blocking(move || {
            let done = replica.finish_rebuild(built);
            (replica, done)
        });
        let (replica, done) = replacing.await.context("the replica could not be replaced")?;
        self.replica = Some(replica);
        let ReplicaState { lineage, version, set_hash, .. } = done?;
        self.checks.send_modify(|checks| checks.rebuilt += 1);
        tracing::info!(version, "the replica of the graph is built");
        let mut kept = vec![Kept::Renewed(self.place()), Kept::Latest { ask: 0, version }];
        // Another lineage has begun with the next version, in which all was replaced. So that the
        // log says it, too: who has the version before finds that its hash is another one.
        if ![0, lineage].contains(&before.lineage) && version == before.version + 1 {
            let (added, removed) = (Vec::new(), Vec::new());
            kept.push(Kept::Change(cluster::Change { version, hash: set_hash, added, removed }));
        }
        Ok(kept)
    }
}
