//! The cluster's values, in NATS's key-value form: few keys, each with a value that is replaced by
//! comparing and swapping.
//!
//! The bucket is `ENCKE_<cluster>`, so `nats kv get` shows them. A value's revision is the sequence
//! of its message, and a new one is taken only over the revision that its writer has seen. They are
//! read from the stream's leader: a direct get might meet a replica that is behind.

use async_nats::HeaderMap;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use tokio::time::{Instant, timeout};

use crate::api::{ApiError, StreamConfig, code};
use crate::connection::{NatsClient, Shared};
use crate::limits::{API_TIMEOUT, EPOCHS_KEPT, REPEAT_PAUSE, SWAP_TIMEOUT, VALUE_BYTES_MAX};
use crate::log::{LogError, nanoseconds};

/// A value and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which one it is. Revisions grow.
    pub revision: u64,
    /// What was written.
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

/// Why a value was not swapped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct NotSwapped {
    /// What the last attempt met.
    pub error: LogError,
    /// An attempt had no answer: it may be the value now, or become it.
    pub may_count: bool,
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
struct ValueAck {
    error: Option<crate::api::Refusal>,
    #[serde(default)]
    seq: u64,
}

/// How many values of a key are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// The last few, for whoever looks into what happened.
    Some,
    /// This one.
    One,
}

impl NatsClient {
    /// The value of `key`, one word of letters and digits, as it is now.
    pub async fn value(&self, key: &str) -> Result<Option<Entry>, LogError> {
        let read = self.shared.read_value(key).await;
        read.map_err(|error| self.error(error, &bucket(&self.shared)))
    }

    /// Makes `value` the one of `key` if its revision is still `expected`, which is 0 where there
    /// is none. Where it is the value already, whoever wrote it, that is as good.
    ///
    /// It is at most 256 KiB. An error is that of a server that could not be asked within 10 s.
    pub async fn swap(
        &self,
        key: &str,
        expected: u64,
        value: Bytes,
    ) -> Result<Proposal, NotSwapped> {
        self.swap_keeping(key, expected, value, Keep::One).await
    }

    /// Makes `value` the one of `key` where there is none: as [`NatsClient::swap`], for one that is
    /// never replaced. A bucket that an earlier version has made takes it, too.
    pub async fn found(&self, key: &str, value: Bytes) -> Result<Proposal, NotSwapped> {
        self.swap_keeping(key, 0, value, Keep::Some).await
    }

    pub(crate) async fn swap_keeping(
        &self,
        key: &str,
        expected: u64,
        value: Bytes,
        keep: Keep,
    ) -> Result<Proposal, NotSwapped> {
        debug_assert!(is_subject(key), "{key:?} is no part of a subject");
        let mut may_count = false;
        if value.len() > VALUE_BYTES_MAX {
            let description = format!("a value has at most {VALUE_BYTES_MAX} bytes");
            let error = LogError::Refused { err_code: 0, description };
            return Err(NotSwapped { error, may_count });
        }
        let deadline = Instant::now() + SWAP_TIMEOUT;
        loop {
            let swapped = self.try_swap(key, expected, value.clone(), keep, &mut may_count).await;
            let error = match swapped {
                Ok(proposal) => return Ok(proposal),
                Err(error) => error,
            };
            if !error.is_passing() || Instant::now() >= deadline {
                return Err(NotSwapped { error, may_count });
            }
            drop(timeout(REPEAT_PAUSE, std::future::pending::<()>()).await);
        }
    }

    async fn try_swap(
        &self,
        key: &str,
        expected: u64,
        value: Bytes,
        keep: Keep,
        may_count: &mut bool,
    ) -> Result<Proposal, LogError> {
        let shared = &self.shared;
        let bucket = bucket(shared);
        let failed = |error| self.error(error, &bucket);
        // An attempt before this one may have been taken without a word.
        match shared.read_value(key).await {
            Ok(Some(entry)) if entry.value == value => return Ok(Proposal::Taken(entry.revision)),
            Ok(Some(entry)) if entry.revision != expected => return Ok(Proposal::Lost),
            Ok(None) if expected != 0 => return Ok(Proposal::Lost),
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        if expected == 0 {
            let made = shared.make_stream(&bucket_config(&bucket, shared.replicas)).await;
            made.map_err(failed)?;
        }
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
        if keep == Keep::One {
            headers.insert("Nats-Rollup", "sub");
        }
        let subject = subject(&bucket, key);
        let answer = shared.request(subject, Some(headers), value, API_TIMEOUT).await;
        *may_count |= matches!(answer, Err(ApiError::Silence(_)));
        let answer = answer.map_err(|error| match error {
            // The bucket is there, so it is its leader that is not.
            ApiError::Nobody => LogError::Unavailable(format!("{key} has no leader now")),
            error => failed(error),
        })?;
        match serde_json::from_slice(&answer) {
            Ok(ValueAck { error: Some(refusal), .. }) => match refusal.err_code {
                // Perhaps by an attempt of ours that was slow: the value tells.
                code::WRONG_LAST_SEQUENCE | code::WRONG_LAST_SEQUENCE_CONSTANT => {
                    Err(LogError::Unavailable(refusal.description))
                }
                _ => Err(failed(ApiError::Refused(refusal))),
            },
            Ok(ValueAck { seq, .. }) => Ok(Proposal::Taken(seq)),
            Err(error) => Err(LogError::Unavailable(error.to_string())),
        }
    }
}

/// Whether `text` may stand at the end of a subject: no part of it is empty, or a wildcard.
pub(crate) fn is_subject(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"*>".contains(&byte);
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(is_plain))
}

impl Shared {
    pub(crate) async fn read_value(&self, key: &str) -> Result<Option<Entry>, ApiError> {
        let bucket = bucket(self);
        let what = format!("STREAM.MSG.GET.{bucket}");
        let last = serde_json::json!({ "last_by_subj": subject(&bucket, key) });
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
        Ok(Some(Entry { revision: message.seq, value: value.into() }))
    }
}

pub(crate) fn bucket(shared: &Shared) -> String {
    format!("KV_ENCKE_{}", shared.cluster)
}

pub(crate) fn subject(bucket: &str, key: &str) -> String {
    format!("${}.{key}", bucket.replacen('_', ".", 1))
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
        allow_rollup_hdrs: true,
    }
}
