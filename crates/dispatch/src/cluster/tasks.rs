//! What takes time: asked of the log by the node loop, and answered to it.

use std::time::Duration;

use bytes::Bytes;
use cluster::{MessageId, Published};
use nats::{Extent, Followed, Log, LogError, NatsClient, PublishError};
use tokio::task::JoinSet;

/// How long to wait before what cannot be done now is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Between two looks at a log that seems to be gone.
const GONE_PAUSE: Duration = Duration::from_secs(1);

/// Records that are read from the first one without looking for a later one.
const FEW: u64 = 4096;

/// By how much the clocks of a node and of NATS may differ.
const CLOCKS_DIFFER: Duration = Duration::from_secs(30);

/// What a task has come to.
#[derive(Debug)]
pub(super) enum Happened {
    /// A publish.
    Published { epoch: u64, id: MessageId, outcome: Published, is_gone: bool },
    /// The log of an epoch is there. What is remembered for clients begins at `recent`.
    Opened { log: Log, extent: Extent, recent: u64 },
    /// It is not, or not to be had now.
    NotOpened { epoch: u64, error: LogError },
    /// All that was revoked is known, as this manyeth time.
    Learnt(u64),
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

/// Finds the log of `epoch`, which was made before that was agreed on, and in it the first record
/// that is no older than `age`.
pub(super) fn open(tasks: &mut JoinSet<Happened>, nats: NatsClient, epoch: u64, age: Duration) {
    tasks.spawn(async move {
        let opened = async {
            let log = match nats.find_log(epoch).await {
                // Servers that have just started may not know all of their streams yet.
                Err(LogError::Absent(_)) => {
                    tokio::time::sleep(GONE_PAUSE).await;
                    nats.find_log(epoch).await?
                }
                found => found?,
            };
            let extent = log.extent().await?;
            let recent = recent(&log, extent, age).await;
            Ok((log, extent, recent))
        };
        match opened.await {
            Ok((log, extent, recent)) => Happened::Opened { log, extent, recent },
            Err(error) => {
                tokio::time::sleep(PAUSE).await;
                Happened::NotOpened { epoch, error }
            }
        }
    });
}

/// The first record of `log` that is no older than `age`, or one before it: found by halves, each
/// of which reads one record.
async fn recent(log: &Log, extent: Extent, age: Duration) -> u64 {
    let age_ns = u64::try_from((age + CLOCKS_DIFFER).as_nanos()).unwrap_or(u64::MAX);
    let since_ns = sys::clock::unix_ns().saturating_sub(age_ns);
    let (mut old, mut young) = (extent.first, extent.last + 1);
    while young - old > FEW {
        let middle = old + (young - old) / 2;
        match log.follow(middle).next().await {
            Some(Followed::Record(record)) if record.time_ns < since_ns => old = middle,
            Some(Followed::Record(_)) => young = middle,
            // It was trimmed meanwhile, or is another log: that is told to who follows it.
            _ => break,
        }
    }
    old
}
