//! The daily check: all pairs of the replica against all rows of PostgreSQL.
//!
//! Each change is compared by the hash of the whole set, which both ends carry on. Here the pairs
//! themselves are read and summed up, by bucket. The two are summed one after the other, and what
//! was changed between is added, so nothing waits for it. It runs on a thread of its own that gives
//! way to all others.

use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use graph::Graph;
use hub::{BUCKETS, pair_hash};
use postgres::{BucketSums, Differences, Pair, Place, PostgresStore};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::build::place_in_store;

/// How far the check gives way to other threads: as far as one can.
const NICE: u8 = 19;

/// How long a replica may take until it is where PostgreSQL was.
const BEHIND_MAX: Duration = Duration::from_secs(60);

/// Pairs that are named where a table of the application differs from the graph.
const NAMED: u32 = 5;

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a check has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Compared {
    /// Both have the same pairs: so many.
    Equal { pairs: u64 },
    /// So many of the buckets differ: the replica is to be built anew.
    Differ { buckets: usize },
    /// Both have the same pairs, which are not those of the application's table that is the graph.
    TableDiffers,
    /// Both have the same pairs. The table that is the graph could not be read.
    TableUnread,
    /// The rows of PostgreSQL are not those that its changes have made: they were made right, and
    /// replicas are to be built anew.
    Mended,
}

/// Compares them.
pub(super) async fn compare(store: PostgresStore, graph: Graph) -> Result<Compared> {
    let (mut tell, told) = oneshot::channel();
    let run = move || {
        // Without it the check takes from others what it needs.
        let _ = sys::priority::give_way(NICE);
        let runtime = Builder::new_current_thread().enable_all().build();
        let compared = match runtime {
            Ok(runtime) => runtime.block_on(async {
                tokio::select! {
                    compared = sum_both(&store, &graph) => compared,
                    () = tell.closed() => Err(anyhow!("nobody waits for it any more")),
                }
            }),
            Err(error) => Err(error.into()),
        };
        let _ = tell.send(compared);
    };
    std::thread::Builder::new().name("graph-check".into()).spawn(run)?;
    told.await.context("the check was given up")?
}

async fn sum_both(store: &PostgresStore, graph: &Graph) -> Result<Compared> {
    let mut theirs = store.bucket_sums().await?;
    if !theirs.add_up() {
        store.mend().await?;
        return Ok(Compared::Mended);
    }
    let place = || place_in_store(graph.replica_state().unwrap_or_default());
    let waiting = async {
        while !is_reached(theirs.place, place()) {
            sleep(LOOK_EVERY).await;
        }
    };
    timeout(BEHIND_MAX, waiting).await.context("the replica is behind, or is built anew")?;
    let ours = graph.bucket_sums()?;
    let place = place_in_store(ours.state);
    ensure!(is_reached(theirs.place, place), "the replica was replaced meanwhile");
    carry_on(store, &mut theirs, place).await?;
    let table = compare_source(store, theirs.pairs).await;
    debug_assert_eq!(ours.sums.len(), theirs.sums.len(), "a bucket would be compared with none");
    let buckets = ours.sums.iter().zip(&theirs.sums).filter(|(a, b)| a != b).count();
    Ok(match buckets {
        0 => table,
        buckets => Compared::Differ { buckets },
    })
}

/// Whether a replica at `ours` is where PostgreSQL was, or further.
fn is_reached(theirs: Place, ours: Place) -> bool {
    ours.lineage == theirs.lineage && ours.version >= theirs.version
}

/// Whether a table of the application is the graph and has other pairs, since no trigger has seen a
/// change of it. That is told here. Both others have so many `pairs`.
async fn compare_source(store: &PostgresStore, pairs: u64) -> Compared {
    match store.source_differences(NAMED).await {
        Ok(Differences { total: 0, .. }) => Compared::Equal { pairs },
        Ok(differences) => {
            tracing::error!(
                "the graph is not what the table says that is the graph: {differences}; encke \
                 postgres status says more, encke postgres install mends it"
            );
            Compared::TableDiffers
        }
        Err(error) => {
            tracing::warn!("the table that is the graph was not compared: {error}");
            Compared::TableUnread
        }
    }
}

/// Adds to `sums` what was changed up to `place`.
async fn carry_on(store: &PostgresStore, sums: &mut BucketSums, place: Place) -> Result<()> {
    while sums.place.version < place.version {
        let page = store.changes_after(sums.place).await?;
        if page.changes.is_empty() {
            bail!("PostgreSQL has gone back meanwhile");
        }
        for change in page.changes {
            if change.place.version > place.version {
                break;
            }
            count(sums, &change.added, u64::wrapping_add);
            count(sums, &change.removed, u64::wrapping_sub);
            sums.place = change.place;
        }
    }
    debug_assert_eq!(sums.place.version, place.version, "the replica was waited for");
    Ok(())
}

fn count(sums: &mut BucketSums, pairs: &[Pair], with: fn(u64, u64) -> u64) {
    for (subscriber, subscribee) in pairs {
        let found = pair_hash(subscriber, subscribee);
        let sum = &mut sums.sums[found.bucket % BUCKETS];
        *sum = with(*sum, found.hash);
    }
}

/// How long until the next check of the node called `name`, if there is one every `interval`: nodes
/// of other names have other times.
pub(super) fn until_next(name: &str, interval: Duration, now_ms: u64) -> Duration {
    let interval_ms = u64::try_from(interval.as_millis()).unwrap_or(u64::MAX).max(1);
    let own_ms = pair_hash(name, "check").hash % interval_ms;
    let since_ms = (now_ms % interval_ms + interval_ms - own_ms) % interval_ms;
    debug_assert!(since_ms < interval_ms, "a check would follow at once");
    Duration::from_millis(interval_ms - since_ms)
}

#[cfg(test)]
mod tests {
    use postgres::Lineage;

    use super::*;

    #[test]
    fn replica_is_compared_at_or_behind_the_place_of_what_was_summed_and_in_its_lineage_only() {
        let place = |lineage, version| Place { lineage: Lineage([lineage; 16]), version, hash: 0 };
        for (lineage, version, reached) in
            [(1, 5, true), (1, 7, true), (1, 4, false), (2, 7, false)]
        {
            assert_eq!(is_reached(place(1, 5), place(lineage, version)), reached, "{version}");
        }
    }

    #[test]
    fn checks_come_once_an_interval_and_nodes_have_their_own_times() {
        let day = Duration::from_secs(86_400);
        let mut firsts = Vec::new();
        for name in ["a", "b", "c"] {
            let first = until_next(name, day, 1_700_000_000_000);
            assert!(!first.is_zero() && first <= day);
            let at_ms = 1_700_000_000_000 + first.as_millis() as u64;
            assert_eq!(until_next(name, day, at_ms), day);
            assert_eq!(until_next(name, day, at_ms - 1), Duration::from_millis(1));
            firsts.push(first);
        }
        firsts.dedup();
        assert_eq!(firsts.len(), 3);
    }
}
