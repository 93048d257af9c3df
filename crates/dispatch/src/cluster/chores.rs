//! What goes on beside the node loop, as long as the node lives.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use anyhow::{Result, bail};
use engine::Engine;
use nats::NatsClient;
use tokio::sync::watch;

use super::loop_ends::LoopEnds;
use super::{Cluster, Command, Membership, NodeStatus, questions};
use crate::outcome::LogTrouble;

/// How often it is looked for logs of epochs that have ended.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// How often it is looked for another node of the same name, and how often in all.
const DOUBLE_LOOK: Duration = Duration::from_millis(500);
const DOUBLE_LOOKS: u32 = 8;

/// How often this node's connections are counted for the others.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// While the graph is being built nothing can be sent. Returns when the node is to leave.
pub(super) async fn refuse_all(ends: &mut LoopEnds) {
    while let Some(command) = ends.commands.recv().await {
        match command {
            // Who has gone away does not need it.
            Command::Send(.., reply) | Command::Order(_, reply) => {
                let _ = reply.send(Err(LogTrouble::Away));
            }
            Command::Rooms(..) => {}
            Command::Leave => break,
        }
    }
    ends.tell.send_modify(|status| status.membership = Membership::Gone);
}

/// Looks whether another node of this name is there. Where one is that is about to end it is waited
/// for a little.
///
/// # Errors
/// It stays: the two would throw each other out, again and again where they are started again.
pub(super) async fn refuse_double(nats: &NatsClient, node: &str) -> Result<()> {
    let mut looks = 0;
    loop {
        let Some(other) = questions::node_called(nats, node).await else { return Ok(()) };
        looks += 1;
        if looks == DOUBLE_LOOKS {
            bail!(
                "another node called {node} is in the cluster, at {}: give this one another name \
                 (--node), or end that one first",
                other.address
            );
        }
        tokio::time::sleep(DOUBLE_LOOK).await;
    }
}

/// Deletes the logs of epochs that have ended, once they are empty, for as long as the node lives.
pub(super) async fn forget_logs(nats: NatsClient, status: watch::Receiver<NodeStatus>) {
    while status.has_changed().is_ok() {
        tokio::time::sleep(FORGET_EVERY).await;
        let epoch = status.borrow().epoch;
        match nats.delete_logs_before(epoch).await {
            Ok(deleted) if deleted.is_empty() => {}
            Ok(deleted) => tracing::info!(?deleted, "logs of epochs that have ended are deleted"),
            // Another node may do it, or this one the next time.
            Err(error) => tracing::debug!(%error, "logs that have ended stay"),
        }
    }
}

/// Keeps the number of open connections, for as long as the runtime lives.
pub async fn count_streams(engine: Arc<RwLock<Engine>>, cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(COUNT_EVERY).await;
        // While it is opened or drains, the number of before is as good.
        if let Ok(engine) = engine.try_read() {
            cluster.set_streams(engine.snapshot().whole().connections_open);
        }
    }
}

#[cfg(test)]
mod tests {
    use nats::{LogError, NatsConfig};
    use testing::{DEADLINE, NatsServer};
    use tokio::time::{Instant, interval};

    use super::*;

    /// NATS promises room to each of them, so those that nobody deletes leave none for the next.
    #[tokio::test]
    async fn node_deletes_the_empty_logs_of_epochs_that_have_ended() {
        let Some(program) = testing::nats_current() else { return };
        let server = NatsServer::start(&program);
        let mut config = NatsConfig::new("t", [server.url()]);
        config.connect_timeout = DEADLINE;
        let nats = NatsClient::connect(config).await.unwrap();
        for epoch in [1, 2] {
            nats.make_log(epoch).await.unwrap();
        }
        nats.seal(1).await.unwrap();
        let (_node, status) = watch::channel(NodeStatus { epoch: 2, ..NodeStatus::default() });
        let forgetting = tokio::spawn(forget_logs(nats.clone(), status));
        tokio::task::yield_now().await;
        tokio::time::pause();
        tokio::time::advance(FORGET_EVERY).await;
        tokio::time::resume();
        let (end, mut looks) = (Instant::now() + DEADLINE, interval(Duration::from_millis(20)));
        while !matches!(nats.find_log(1).await, Err(LogError::Absent(_))) {
            assert!(Instant::now() < end, "a log that nobody needs stays");
            looks.tick().await;
        }
        nats.find_log(2).await.unwrap();
        forgetting.abort();
    }
}
