//! What takes time: asked of the log by the driver, and answered to it.

use std::time::Duration;

use bus::{Bus, Extent, Log, LogError, PublishError};
use bytes::Bytes;
use cluster::{MessageId, Published};
use tokio::task::JoinSet;

/// How long to wait before what cannot be done now is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// What a task has come to.
#[derive(Debug)]
pub(super) enum Happened {
    /// A publish.
    Published { epoch: u64, id: MessageId, outcome: Published, is_gone: bool },
    /// The log of an epoch is there.
    Opened { log: Log, extent: Extent },
    /// It is not, or not to be had now.
    NotOpened { epoch: u64, error: LogError },
    /// A proposal was made, or failed.
    Proposed,
}

/// Publishes a record, once.
pub(super) fn publish(tasks: &mut JoinSet<Happened>, log: Log, id: MessageId, record: Bytes) {
    tasks.spawn(async move {
        let (outcome, is_gone) = match log.publish(&id.0, "r", record).await {
            Ok(published) => (Published::At(published.sequence), false),
            Err(PublishError::Unknown(_)) => (Published::Timeout, false),
            Err(PublishError::NoLog) => (Published::Refused, true),
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                (Published::Refused, false)
            }
        };
        Happened::Published { epoch: log.epoch(), id, outcome, is_gone }
    });
}

/// There is no log to publish into: it is tried again.
pub(super) fn refuse(tasks: &mut JoinSet<Happened>, epoch: u64, id: MessageId) {
    tasks.spawn(async move {
        tokio::time::sleep(PAUSE).await;
        Happened::Published { epoch, id, outcome: Published::Refused, is_gone: false }
    });
}

/// Finds the log of `epoch`, and makes it if need be.
pub(super) fn open(tasks: &mut JoinSet<Happened>, bus: Bus, epoch: u64) {
    tasks.spawn(async move {
        let opened = async {
            let log = bus.make_log(epoch).await?;
            let extent = log.extent().await?;
            Ok((log, extent))
        };
        match opened.await {
            Ok((log, extent)) => Happened::Opened { log, extent },
            Err(error) => {
                tokio::time::sleep(PAUSE).await;
                Happened::NotOpened { epoch, error }
            }
        }
    });
}
