//! Publishing into the log: a record is in it once or not at all, and the caller gets to know.
//!
//! JetStream remembers the ids of what it took for [`DUPLICATE_WINDOW`], so what had no answer is
//! sent again with the same id until one comes. Nothing is handed to the library while there is no
//! connection. It would keep it and send it at any time later, when the id is forgotten.
//!
//! What remains is what the kernel or the network holds back for more than that window and delivers
//! then. So those who read the log pass over a batch of a node that is not above the last one.
//!
//! Cost: one message and one answer. That is 8.6 us of processor time and 0.35 ms at the mean for
//! 16,000 records/s of 250 bytes from 16 publishers, beside 15 us of the server (`cargo bench -p
//! nats`, two shared cores). Records of 4 KB take 34 us.
//!
//! [`DUPLICATE_WINDOW`]: crate::limits::DUPLICATE_WINDOW

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::HeaderMap;
use bytes::Bytes;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

use crate::api::{ApiError, Refusal, code};
use crate::limits::{ACK_TIMEOUT, RECORD_BYTES_MAX, REPEAT_PAUSE};
use crate::log::Log;
use crate::state::count;
use crate::values::is_subject;

/// A record that is in the log, on the disks that it is to be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Where it is.
    pub sequence: u64,
    /// Whether an earlier attempt with the same id was in it already; `sequence` is that one's.
    pub duplicate: bool,
}

/// Why it is not known that a record is in the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// It may be in the log. Publish it again with the same id to know.
    #[error("it is not known whether NATS has taken the record: {0}")]
    Unknown(String),
    /// It is not in the log and will not be: no server has taken it. It may be published again.
    #[error("NATS has not taken the record, there is no server for it: {0}")]
    Unavailable(String),
    /// It is not in the log, and the server says why. Again would not help.
    #[error("NATS refuses the record: {description} ({err_code})")]
    Refused {
        /// JetStream's number of the error, 0 where it is ours.
        err_code: u32,
        /// What is wrong.
        description: String,
    },
    /// There is no such log (any more), or it is sealed: the epoch has ended.
    #[error("NATS has no log of this epoch")]
    NoLog,
}

const OFFLINE: &str = "there is no connection";

/// The answer to a publish.
#[derive(Deserialize)]
struct Ack {
    error: Option<Refusal>,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
}

impl Log {
    /// Publishes `record` under the last part `kind` of the log's subjects, once: it waits for the
    /// acknowledgement for [`ACK_TIMEOUT`]. `id` is the record's own for ever, at most 64
    /// characters without blanks.
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn publish(
        &self,
        id: &str,
        kind: &str,
        record: Bytes,
    ) -> Result<Published, PublishError> {
        self.publish_until(id, kind, record, Instant::now() + ACK_TIMEOUT).await
    }

    /// As [`Log::publish`], repeated until the outcome is known or it is `deadline`. An election
    /// takes up to 9 s. `Unknown` is left only where an attempt went without any answer; `deadline`
    /// must be less than two minutes away, the time for which ids are remembered.
    pub async fn publish_until(
        &self,
        id: &str,
        kind: &str,
        record: Bytes,
        deadline: Instant,
    ) -> Result<Published, PublishError> {
        let start = Instant::now();
        let outcome = self.attempts(id, kind, record, deadline).await;
        let counters = &self.shared.counters;
        match &outcome {
            Ok(published) => {
                self.acked.fetch_max(published.sequence, Ordering::Relaxed);
                count(&counters.published);
                counters.took(start.elapsed());
                if published.duplicate {
                    count(&counters.duplicates);
                }
            }
            Err(PublishError::Unknown(_)) => count(&counters.unknown),
            Err(_) => count(&counters.refused),
        }
        outcome
    }

    async fn attempts(
        &self,
        id: &str,
        kind: &str,
        record: Bytes,
        deadline: Instant,
    ) -> Result<Published, PublishError> {
        if record.len() > RECORD_BYTES_MAX {
            let description = format!("a record has at most {RECORD_BYTES_MAX} bytes");
            return Err(PublishError::Refused { err_code: 0, description });
        }
        debug_assert!(!id.is_empty() && !id.contains(['\r', '\n']), "{id:?} is no header's value");
        debug_assert!(is_subject(kind) && !kind.contains('.'), "{kind:?} is no part of a subject");
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Msg-Id", id);
        let subject = format!("{}{kind}", self.prefix);
        // Why it may be in the log, from the first attempt that had no answer on.
        let mut unknown = None;
        loop {
            if !self.shared.connected_by(deadline).await {
                let why = OFFLINE.to_owned();
                return Err(unknown.map_or(PublishError::Unavailable(why), PublishError::Unknown));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let within = left.min(ACK_TIMEOUT);
            let why = match self
                .attempt(subject.clone(), headers.clone(), record.clone(), within)
                .await
            {
                Ok(published) => return Ok(published),
                Err(PublishError::Unknown(why)) => unknown.insert(why).clone(),
                Err(PublishError::Unavailable(why)) => why,
                // What the server refuses by its rules it has not taken before either: it would
                // have known the id.
                Err(refused) => return Err(refused),
            };
            if !pause(REPEAT_PAUSE, deadline).await {
                return Err(unknown.map_or(PublishError::Unavailable(why), PublishError::Unknown));
            }
            count(&self.shared.counters.repeats);
        }
    }

    async fn attempt(
        &self,
        subject: String,
        headers: HeaderMap,
        record: Bytes,
        within: Duration,
    ) -> Result<Published, PublishError> {
        let answer = match self.shared.request(subject, Some(headers), record, within).await {
            Ok(answer) => answer,
            Err(ApiError::Nobody) => return Err(self.nobody(within).await),
            Err(ApiError::Offline) => return Err(PublishError::Unavailable(OFFLINE.to_owned())),
            Err(ApiError::Silence(why)) => return Err(PublishError::Unknown(why)),
            Err(ApiError::Refused(refusal)) => return Err(self.refused(refusal)),
        };
        match serde_json::from_slice(&answer) {
            Ok(Ack { error: Some(refusal), .. }) => Err(self.refused(refusal)),
            // The one before is on its way to the replicas, and may still fail.
            Ok(Ack { seq: 0, .. }) => Err(PublishError::Unknown("it is on its way".to_owned())),
            Ok(Ack { seq, duplicate, .. }) => Ok(Published { sequence: seq, duplicate }),
            Err(error) => Err(PublishError::Unknown(format!("an answer that is none: {error}"))),
        }
    }

    fn refused(&self, refusal: Refusal) -> PublishError {
        if code::NO_ROOM.contains(&refusal.err_code) {
            count(&self.shared.counters.no_room);
        }
        refused(refusal)
    }

    /// Nobody listens to the log's subjects: it is gone, sealed or has no leader, or JetStream is
    /// starting.
    async fn nobody(&self, within: Duration) -> PublishError {
        match self.info(within).await {
            Ok(info) if info.config.subjects == [self.shared.sealed(self.epoch)] => {
                PublishError::NoLog
            }
            Err(ApiError::Refused(refusal)) if refusal.err_code == code::STREAM_NOT_FOUND => {
                PublishError::NoLog
            }
            _ => PublishError::Unavailable("JetStream has no leader for the log".to_owned()),
        }
    }
}

fn refused(refusal: Refusal) -> PublishError {
    let Refusal { code: status, err_code, description } = refusal;
    match err_code {
        code::DUPLICATE_IN_PROCESS => PublishError::Unknown(description),
        code::STREAM_NOT_FOUND => PublishError::NoLog,
        // A leader that is one no more, a server that is starting or stopping, or one without room:
        // it says so before it takes anything.
        code::CLUSTER_NOT_AVAILABLE
        | code::CLUSTER_NOT_LEADER
        | code::CLUSTER_NOT_ASSIGNED
        | code::INSUFFICIENT_RESOURCES
        | code::STORAGE_EXCEEDED
        | code::NOT_ENABLED => PublishError::Unavailable(description),
        // A store that failed may have written before it did.
        code::STORE_FAILED => PublishError::Unknown(description),
        _ if status >= 500 && err_code == 0 => PublishError::Unknown(description),
        _ => PublishError::Refused { err_code, description },
    }
}

/// Waits for so long, and says whether it is still before `deadline`.
async fn pause(time: Duration, deadline: Instant) -> bool {
    let until = Instant::now() + time;
    let never = std::future::pending::<()>();
    // Nothing rings when JetStream is back.
    let _ = timeout_at(until.min(deadline), never).await;
    until < deadline
}
