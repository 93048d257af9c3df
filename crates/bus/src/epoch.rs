//! The epoch of a cluster: one value on which all nodes agree, in NATS's key-value form.
//!
//! The bucket is `ENCKE_<cluster>` and the key `epoch`, so `nats kv get` shows it. Its revision is
//! the sequence of the value, and a new value is taken only over the revision that its proposer has
//! seen. It is read from the stream's leader: a direct get might meet a replica that is behind.

use std::sync::{Arc, Weak};

use async_nats::HeaderMap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout};

use crate::api::{ApiError, StreamConfig, code};
use crate::connection::{Bus, Shared};
use crate::limits::{
    API_TIMEOUT, EPOCH_BYTES_MAX, EPOCH_POLL, EPOCHS_KEPT, PROPOSE_TIMEOUT, REPEAT_PAUSE,
};
use crate::log::{LogError, nanoseconds};

/// The value and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// Which one it is. Revisions grow.
    pub revision: u64,
    /// What was proposed.
    pub value: Bytes,
}

/// What became of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// It is the value now, with this revision.
    Taken(u64),
    /// Another revision is there than the expected one.
    Lost,
}

#[derive(Deserialize)]
struct Stored {
    message: StoredMessage,
}

#[derive(Deserialize)]
struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct Ack {
    error: Option<crate::api::Refusal>,
    #[serde(default)]
    seq: u64,
}

impl Bus {
    /// The value as it is now; none in a cluster that is new.
    pub async fn epoch(&self) -> Result<Option<EpochEntry>, LogError> {
        let bucket = bucket(&self.shared);
        self.shared.read_epoch().await.map_err(|error| self.error(error, &bucket))
    }

    /// Proposes `value`, to be taken if the revision is still `expected`, which is 0 where there is
    /// no value. The outcome is known: what had no answer is looked up. For that values of
    /// different proposers must differ, by a number drawn by lot for instance.
    ///
    /// It is at most 4 KiB. An error is that of a server that could not be asked within 10 s.
    pub async fn propose(&self, expected: u64, value: Bytes) -> Result<Proposal, LogError> {
        if value.len() > EPOCH_BYTES_MAX {
            let description = format!("the value of an epoch has at most {EPOCH_BYTES_MAX} bytes");
            return Err(LogError::Refused { err_code: 0, description });
        }
        let deadline = Instant::now() + PROPOSE_TIMEOUT;
        loop {
            let error = match self.try_propose(expected, value.clone()).await {
                Ok(proposal) => return Ok(proposal),
                Err(error) => error,
            };
            if !error.is_passing() || Instant::now() >= deadline {
                return Err(error);
            }
            drop(timeout(REPEAT_PAUSE, std::future::pending::<()>()).await);
        }
    }

    async fn try_propose(&self, expected: u64, value: Bytes) -> Result<Proposal, LogError> {
        let shared = &self.shared;
        let bucket = bucket(shared);
        let failed = |error| self.error(error, &bucket);
        // An attempt before this one may have been taken without a word.
        match shared.read_epoch().await {
            Ok(Some(entry)) if entry.value == value => return Ok(Proposal::Taken(entry.revision)),
            Ok(Some(entry)) if entry.revision != expected => return Ok(Proposal::Lost),
            Ok(None) if expected != 0 => return Ok(Proposal::Lost),
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        if expected == 0 {
            match shared.create_stream(&bucket_config(&bucket, shared.replicas)).await {
                Ok(()) => {}
                Err(ApiError::Refused(refusal)) if refusal.err_code == code::STREAM_NAME_IN_USE => {
                }
                Err(error) => return Err(failed(error)),
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        let answer = shared.request(key(&bucket), Some(headers), value, API_TIMEOUT).await;
        let answer = answer.map_err(|error| match error {
            // The bucket is there, so it is its leader that is not.
            ApiError::Nobody => LogError::Unavailable("the epoch has no leader now".to_owned()),
            error => failed(error),
        })?;
        match serde_json::from_slice(&answer) {
            Ok(Ack { error: Some(refusal), .. }) => match refusal.err_code {
                // Perhaps by an attempt of ours that was slow: the value tells.
                code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_CONSTANT => {
                    Err(LogError::Unavailable(refusal.description))
                }
                _ => Err(failed(ApiError::Refused(refusal))),
            },
            Ok(Ack { seq, .. }) => Ok(Proposal::Taken(seq)),
            Err(error) => Err(LogError::Unavailable(error.to_string())),
        }
    }

    /// The value as it changes, from the one of now on. It is at most a second late; while NATS is
    /// away it is the last one known.
    ///
    /// One that is lost with the store is `None` again, and one that was put back has a smaller
    /// revision than before.
    pub async fn watch_epoch(&self) -> Result<watch::Receiver<Option<EpochEntry>>, LogError> {
        let bucket = bucket(&self.shared);
        // Whoever publishes into the bucket is heard by plain subscribers too.
        let bell = self.shared.client.subscribe(key(&bucket)).await;
        let bell = bell.map_err(|error| LogError::Unavailable(error.to_string()))?;
        let (sender, receiver) = watch::channel(self.epoch().await?);
        tokio::spawn(watch_epoch(Arc::downgrade(&self.shared), bell, sender));
        Ok(receiver)
    }
}

async fn watch_epoch(
    shared: Weak<Shared>,
    mut bell: async_nats::Subscriber,
    sender: watch::Sender<Option<EpochEntry>>,
) {
    let mut pace = interval(EPOCH_POLL);
    loop {
        tokio::select! {
            rung = bell.next() => if rung.is_none() { return },
            _ = pace.tick() => {}
            () = sender.closed() => return,
        }
        let Some(shared) = shared.upgrade() else { return };
        if let Ok(entry) = shared.read_epoch().await {
            sender.send_if_modified(|old| {
                let changed = *old != entry;
                *old = entry;
                changed
            });
        }
    }
}

impl Shared {
    async fn read_epoch(&self) -> Result<Option<EpochEntry>, ApiError> {
        let bucket = bucket(self);
        let what = format!("STREAM.MSG.GET.{bucket}");
        let last = serde_json::json!({ "last_by_subj": key(&bucket) });
        let stored: Result<Stored, _> = self.ask_api(&what, &last, API_TIMEOUT).await;
        let Stored { message } = match stored {
            Ok(stored) => stored,
            Err(ApiError::Refused(refusal))
                if [code::STREAM_NOT_FOUND, code::NO_MESSAGE_FOUND].contains(&refusal.err_code) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let value = BASE64_STANDARD.decode(message.data);
        let value = value.map_err(|error| ApiError::Silence(error.to_string()))?;
        Ok(Some(EpochEntry { revision: message.seq, value: value.into() }))
    }
}

fn bucket(shared: &Shared) -> String {
    format!("KV_ENCKE_{}", shared.cluster)
}

fn key(bucket: &str) -> String {
    format!("${}.epoch", bucket.replacen('_', ".", 1))
}

/// As NATS's clients make a bucket (ADR-8), without direct gets.
fn bucket_config(bucket: &str, replicas: usize) -> StreamConfig {
    StreamConfig {
        name: bucket.to_owned(),
        subjects: vec![format!("${}.>", bucket.replacen('_', ".", 1))],
        retention: "limits".to_owned(),
        storage: "file".to_owned(),
        discard: "new".to_owned(),
        num_replicas: replicas,
        max_age: 0,
        max_bytes: -1,
        max_msgs: -1,
        max_msgs_per_subject: EPOCHS_KEPT,
        max_msg_size: -1,
        max_consumers: -1,
        duplicate_window: nanoseconds(crate::limits::DUPLICATE_WINDOW),
        deny_delete: true,
        deny_purge: false,
    }
}
