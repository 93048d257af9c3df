//! What all nodes have agreed on: the epoch of their log, kept where all of them read it.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use cluster::{LogFault, epoch_base};
use hub::{Epoch, Tag};
use nats::{Entry, LogError, NatsClient, Proposal};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

/// How long the servers of NATS may take to have a leader.
pub(super) const AGREE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long to wait before they are asked again.
pub(super) const AGREE_PAUSE: Duration = Duration::from_millis(250);

/// The value in NATS: people may read it (`nats kv get ENCKE_<cluster> epoch`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct EpochValue {
    /// Which epoch it is, from 1 on.
    epoch: u64,
    /// The number before its first.
    base: u64,
    /// What its places are known by: 64 bits at random.
    tag: u64,
    /// Why the one before has ended.
    reason: String,
}

/// An epoch and its revision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Agreed {
    pub(super) revision: u64,
    value: EpochValue,
}

impl Agreed {
    /// Reads the epoch, and proposes the first one where there is none.
    pub(super) async fn on(nats: &NatsClient, above: u64) -> Result<Agreed> {
        let deadline = Instant::now() + AGREE_TIMEOUT;
        loop {
            match nats.epoch().await {
                Ok(Some(entry)) => return Agreed::read(&entry),
                Ok(None) => match propose(nats, 0, 1, above, "the first one").await {
                    Ok(_) => {}
                    Err(error) if is_passing(&error) && Instant::now() < deadline => {
                        sleep(AGREE_PAUSE).await;
                    }
                    Err(error) => return Err(error),
                },
                // As servers of NATS that have just started and have no leader yet.
                Err(error) if error.is_passing() && Instant::now() < deadline => {
                    sleep(AGREE_PAUSE).await
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What an entry says.
    pub(super) fn read(entry: &Entry) -> Result<Agreed> {
        let value = serde_json::from_slice(&entry.value).context(
            "the epoch of the cluster cannot be read: is it one of Encke's, of a newer version?",
        )?;
        Ok(Agreed { revision: entry.revision, value })
    }

    /// Whether both are one epoch. Not if they only have one number: each was agreed on where the
    /// other was not known.
    pub(super) fn is(&self, other: &Agreed) -> bool {
        self.value == other.value
    }

    /// For the node.
    pub(super) fn epoch(&self) -> cluster::Epoch {
        cluster::Epoch { number: self.value.epoch, base: self.value.base }
    }

    /// What its places are known by.
    pub(super) fn tag(&self) -> Tag {
        Tag::of(self.value.tag)
    }

    /// For the server, which reserves nothing: the log gives the numbers.
    pub(super) fn hub_epoch(&self) -> Epoch {
        Epoch { tag: self.tag(), base: self.value.base, until: u64::MAX }
    }
}

fn is_passing(error: &anyhow::Error) -> bool {
    error.downcast_ref::<LogError>().is_some_and(LogError::is_passing)
}

/// Makes the log of `epoch`, and then proposes that to take the place of the epoch with `revision`:
/// so that whoever hears of an epoch and finds no log knows that it was deleted.
pub(super) async fn propose(
    nats: &NatsClient,
    revision: u64,
    epoch: u64,
    above: u64,
    reason: &str,
) -> Result<Proposal> {
    match nats.make_log(epoch).await {
        // Others have agreed on it, and on another one since.
        Ok(_) | Err(LogError::Sealed(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let tag = getrandom::u64().map_err(|error| anyhow!("no random numbers: {error}"))?;
    let base = epoch_base(sys::clock::unix_ms(), above);
    let value = EpochValue { epoch, base, tag, reason: reason.to_owned() };
    let value = serde_json::to_vec(&value).expect("all members are plain values");
    Ok(nats.propose(revision, value.into()).await?)
}

/// Why an epoch ends whose place in NATS an earlier one has, or another one of its number.
pub(super) const PUT_BACK: &str = "NATS has lost the epoch: it was put back to an earlier one";

/// Why a node holds the log for another one, in words.
pub(super) fn words(fault: LogFault) -> &'static str {
    match fault {
        LogFault::TailLost => "the log lost its tail: a record knew later ones",
        LogFault::HeadBehind => "the log lost its tail: it ends before what was read",
        LogFault::OtherRecord => "the log is another one: a record that was read has changed",
        LogFault::NotOurs => "the log lost a record that it had acknowledged",
        LogFault::Differs => "two nodes have read different logs",
        LogFault::Gone => "the log was deleted",
        LogFault::BaseTooLow => "the epoch began below numbers that were given before",
    }
}
