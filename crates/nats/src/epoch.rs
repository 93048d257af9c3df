//! The epoch of a cluster: one value on which all nodes agree.
//!
//! It stands under the key `epoch` ([`crate::values`]).

use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::watch;
use tokio::time::interval;

use crate::connection::{NatsClient, Shared};
use crate::limits::{EPOCH_BYTES_MAX, EPOCH_POLL};
use crate::log::LogError;
use crate::values::{Entry, Keep, Proposal, bucket, subject};

const KEY: &str = "epoch";

impl NatsClient {
    /// The value as it is now; none in a cluster that is new.
    pub async fn epoch(&self) -> Result<Option<Entry>, LogError> {
        self.value(KEY).await
    }

    /// Proposes `value`, to be taken if the revision is still `expected`, which is 0 where there is
    /// no value. The outcome is known: what had no answer is looked up. For that values of
    /// different proposers must differ, by a number drawn at random for instance.
    ///
    /// It is at most 4 KiB. An error is that of a server that could not be asked within 10 s.
    pub async fn propose(&self, expected: u64, value: Bytes) -> Result<Proposal, LogError> {
        if value.len() > EPOCH_BYTES_MAX {
            let description = format!("the value of an epoch has at most {EPOCH_BYTES_MAX} bytes");
            return Err(LogError::Refused { err_code: 0, description });
        }
        let swapped = self.swap_keeping(KEY, expected, value, Keep::Some).await;
        swapped.map_err(|not_swapped| not_swapped.error)
    }

    /// The value as it changes. It is at most a second late; while NATS is away it is the last one
    /// known. That it is read for the first time is a change too, whatever it is; before that it is
    /// `None`, so whoever starts while NATS does not answer waits as everybody else.
    ///
    /// One that is lost with JetStream's files is `None` again, and one that was put back has a
    /// smaller revision than before.
    pub async fn watch_epoch(&self) -> Result<watch::Receiver<Option<Entry>>, LogError> {
        // Whoever publishes into the bucket is heard by plain subscribers too.
        let subject = subject(&bucket(&self.shared), KEY);
        let bell = self.shared.client.subscribe(subject).await;
        let bell = bell.map_err(|error| LogError::Unavailable(error.to_string()))?;
        let (sender, receiver) = watch::channel(None);
        tokio::spawn(watch_epoch(Arc::downgrade(&self.shared), bell, sender));
        Ok(receiver)
    }
}

async fn watch_epoch(
    shared: Weak<Shared>,
    mut bell: async_nats::Subscriber,
    sender: watch::Sender<Option<Entry>>,
) {
    let mut pace = interval(EPOCH_POLL);
    let mut is_first = true;
    loop {
        tokio::select! {
            rung = bell.next() => if rung.is_none() { return },
            _ = pace.tick() => {}
            () = sender.closed() => return,
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Ok(entry) = shared.read_value(KEY).await {
            sender.send_if_modified(|old| {
                let changed = std::mem::take(&mut is_first) || *old != entry;
                *old = entry;
                changed
            });
        }
    }
}
