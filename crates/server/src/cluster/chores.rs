//! What goes on beside the driver, as long as the node lives.

use std::sync::{Arc, RwLock};
use std::time::Duration;

use bus::Bus;
use engine::Engine;
use tokio::sync::watch;

use super::driver::Channels;
use super::{Cluster, Command, Membership, NodeStatus};
use crate::posting::LogTrouble;

/// How often it is looked for logs of epochs that have ended.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// How often this node's connections are counted for the others.
const COUNT_EVERY: Duration = Duration::from_secs(1);

/// While the graph is being built nothing can be sent. Returns when the node is to leave.
pub(super) async fn refuse_all(channels: &mut Channels) {
    while let Some(command) = channels.commands.recv().await {
        match command {
            // Who has gone away does not need it.
            Command::Send(_, reply) | Command::Order(_, reply) => {
                let _ = reply.send(Err(LogTrouble::Away));
            }
            Command::Leave => break,
        }
    }
    channels.tell.send_modify(|status| status.membership = Membership::Gone);
}

/// Deletes the logs of epochs that have ended, once they are empty, for as long as the node lives.
pub(super) async fn forget_logs(bus: Bus, status: watch::Receiver<NodeStatus>) {
    while status.has_changed().is_ok() {
        tokio::time::sleep(FORGET_EVERY).await;
        let epoch = status.borrow().epoch;
        match bus.delete_logs_before(epoch).await {
            Ok(deleted) if deleted.is_empty() => {}
            Ok(deleted) => tracing::info!(?deleted, "logs of epochs that have ended are deleted"),
            // Another node may do it, or this one the next time.
            Err(error) => tracing::debug!(%error, "logs that have ended stay"),
        }
    }
}

/// Keeps the number of open connections, for as long as the runtime lives.
pub(crate) async fn count_streams(engine: Arc<RwLock<Engine>>, cluster: Arc<Cluster>) {
    loop {
        tokio::time::sleep(COUNT_EVERY).await;
        // While it is opened or drains, the number of before is as good.
        if let Ok(engine) = engine.try_read() {
            cluster.set_streams(engine.snapshot().whole().connections_open);
        }
    }
}
