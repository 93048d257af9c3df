//! The end of a server, within its grace time.
//!
//! A server that is alone closes the API, finishes the requests that it has, delivers what is
//! posted, and ends all streams at once. A node whose cluster goes on sends its clients there
//! first, a few at a time, and is a member until the last stream is gone. So each stream hears all
//! of the log until its end, and is counted as long as it hears. Only then it leaves, and nobody
//! waits for its counts. The last traces are sent while the streams end.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use dispatch::cluster::Cluster;
use dispatch::traces::limits::FLUSH_TIME_MAX;
use engine::Engine;
use gateway::ErlangTask;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::Server;

/// The part of the grace time in which clients are sent to other nodes, at most.
const MOVE_SHARE: f64 = 0.6;

/// The part of what is left of it that API requests in progress may use; so long, too, may leaving
/// the cluster take, and what Erlang nodes are still sent.
const API_SHARE: f64 = 0.3;

/// Clients a second that each other node is sent: a TLS handshake, a token and a resume are some
/// 0.2 ms of its processor, so less than half a core, while its own clients are served.
const MOVED_PER_SECOND: u64 = 2_000;

/// How long to wait for the last clients that were sent away to close their side.
const LAST_ONES: Duration = Duration::from_millis(500);

/// How long a node waits for webhooks to take what it has for them: what they have not taken then,
/// another node tells.
const HOOKS_TIME_MAX: Duration = Duration::from_secs(2);

/// How often it is looked whether all are gone.
const LOOK: Duration = Duration::from_millis(20);

impl Server {
    /// Ends everything within `grace`.
    pub async fn stop(self, grace: Duration) -> Result<()> {
        // An upgrade that is under way fails, and all is as before. Where it has succeeded, only
        // requests are left that are passed on.
        self.upgrades.end().await;
        let erlang_task = self.take_erlang();
        let Server { engine, graph, keeping, cluster, pusher_hooks, running, stop, .. } = self;
        let (mut api_task, upgrades_task) = (self.api_task, self.upgrades_task);
        let (traces, passing_task) = (self.traces, self.passing_task);
        let (deadline, in_cluster) = (Instant::now() + grace, cluster.is_some());
        if let Some(cluster) = cluster.as_ref().filter(|_| !stop.is_cancelled()) {
            move_clients(&engine, cluster, grace.mul_f64(MOVE_SHARE)).await;
        }
        let share = deadline.saturating_duration_since(Instant::now()).mul_f64(API_SHARE);
        drop(running);
        // It takes its socket away.
        let _ = upgrades_task.await;
        if timeout(share, &mut api_task).await.is_err() {
            tracing::warn!("API requests in progress did not end in time and are cut off");
            api_task.abort();
        }
        if let Some(mut task) = passing_task
            && timeout(share, &mut task).await.is_err()
        {
            task.abort();
        }
        if let Some(ErlangTask { mut task, .. }) = erlang_task
            && timeout(share, &mut task).await.is_err()
        {
            tracing::warn!("Erlang nodes did not take what they were sent in time");
            task.abort();
        }
        if let Some(hooks) = pusher_hooks.filter(|_| in_cluster)
            && timeout(share.min(HOOKS_TIME_MAX), hooks.end()).await.is_err()
        {
            tracing::warn!("webhooks of apps did not take in time what waits for them");
        }
        if let Some(cluster) = cluster
            && timeout(share, cluster.leave()).await.is_err()
        {
            tracing::warn!("this node has not left its cluster in time: the others will notice");
        }
        let blocking = spawn_blocking(move || {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut engine = engine.write().unwrap_or_else(PoisonError::into_inner);
            engine.drain(left.as_millis() as u64);
            let event_ids = engine.router().event_ids();
            let (last, posted) = (event_ids.last(), event_ids.posted());
            drop(engine);
            if let Some(keeping) = keeping {
                graph.while_ours(|| match in_cluster {
                    true => keeping.end_of_node(posted),
                    false => keeping.end(last),
                });
            }
            // The last owner closes the file, unless a request that was cut off still has it; then
            // the process' end does, and what was acknowledged is on disk already.
            drop(graph);
        });
        let left = deadline.saturating_duration_since(Instant::now()).min(FLUSH_TIME_MAX);
        let last_traces = async {
            if let Some(traces) = traces {
                traces.end(left).await;
            }
        };
        let (drained, ()) = tokio::join!(blocking, last_traces);
        drained.context("the server did not stop in order")
    }
}

/// Sends all clients to the other nodes, if there are any, within `most`.
async fn move_clients(engine: &RwLock<Engine>, cluster: &Arc<Cluster>, most: Duration) {
    // From now on it is not ready, so that a balancer turns away.
    let others = cluster.begin_to_end().await;
    let open = || match engine.try_read() {
        Ok(engine) => engine.snapshot().whole().connections_open,
        Err(_) => 0,
    };
    let clients = open();
    if others == 0 || clients == 0 {
        return;
    }
    let wanted = cluster.drain().unwrap_or_else(|| time_for(clients, others));
    let over = wanted.min(most);
    let seconds = over.as_secs_f64();
    tracing::info!(clients, others, seconds, "clients are sent to the other nodes");
    if over < wanted {
        tracing::warn!(
            "they would be given {:.0} s if --grace were {:.0}",
            wanted.as_secs_f64(),
            (wanted.as_secs_f64() / MOVE_SHARE).ceil()
        );
    }
    if let Ok(engine) = engine.try_read() {
        engine.move_away(over.as_millis() as u64);
    }
    let end = Instant::now() + over + LAST_ONES.min(most - over);
    while open() > 0 && Instant::now() < end {
        sleep(LOOK).await;
    }
}

/// The time in which `others` take so many clients.
fn time_for(clients: u64, others: usize) -> Duration {
    let per_second = MOVED_PER_SECOND * others as u64;
    Duration::from_millis(clients.saturating_mul(1_000) / per_second.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_grows_with_the_clients_and_falls_with_the_nodes_that_take_them() {
        assert_eq!(time_for(4_000, 1), Duration::from_secs(2));
        assert_eq!(time_for(4_000, 2), Duration::from_secs(1));
        assert_eq!(time_for(1_000_000, 9), Duration::from_millis(55_555));
        assert_eq!(time_for(u64::MAX, 0).as_millis(), u128::from(u64::MAX));
    }
}
