//! Questions to JetStream: JSON over a request, as NATS documents it for its own clients ("NATS API
//! Reference").
//!
//! Only what this crate asks, with an end in time, and with errors told apart by NATS's own
//! numbers.

use std::time::Duration;

use async_nats::{Request, RequestErrorKind};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::time::{timeout, timeout_at};

use crate::connection::Shared;
use crate::limits::{API_TIMEOUT, MAKING_PAUSE};

/// What JetStream answers where it cannot do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Refusal {
    #[serde(default)]
    pub(crate) code: u16,
    #[serde(default)]
    pub(crate) err_code: u32,
    #[serde(default)]
    pub(crate) description: String,
}

/// Why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// There is no connection, so nothing was sent.
    Offline,
    /// Nothing has answered in time: whether it was done is not known.
    Silence(String),
    /// Nobody listens: JetStream is off, or has no leader now.
    Nobody,
    /// JetStream's own words.
    Refused(Refusal),
}

/// Numbers of JetStream's errors (nats-server, server/errors.json).
pub(crate) mod code {
    pub(crate) const NOT_ENABLED: u32 = 10076;
    pub(crate) const NOT_ENABLED_FOR_ACCOUNT: u32 = 10039;
    pub(crate) const STREAM_NOT_FOUND: u32 = 10059;
    pub(crate) const STREAM_NAME_IN_USE: u32 = 10058;
    pub(crate) const NO_MESSAGE_FOUND: u32 = 10037;
    pub(crate) const SUBJECTS_OVERLAP: u32 = 10065;
    pub(crate) const WRONG_LAST_SEQUENCE: u32 = 10071;
    pub(crate) const WRONG_LAST_SEQUENCE_CONSTANT: u32 = 10164;
    pub(crate) const CLUSTER_NOT_AVAILABLE: u32 = 10008;
    pub(crate) const CLUSTER_NOT_LEADER: u32 = 10009;
    pub(crate) const CLUSTER_REQUIRED: u32 = 10010;
    pub(crate) const REPLICAS_NOT_SUPPORTED: u32 = 10074;
    pub(crate) const NO_PEERS: u32 = 10005;
    pub(crate) const INSUFFICIENT_RESOURCES: u32 = 10023;
    pub(crate) const STORAGE_EXCEEDED: u32 = 10047;
    pub(crate) const MEMORY_EXCEEDED: u32 = 10028;
    pub(crate) const ACCOUNT_EXCEEDED: u32 = 10002;
    pub(crate) const CLUSTER_NOT_ASSIGNED: u32 = 10007;
    pub(crate) const STORE_FAILED: u32 = 10077;
    pub(crate) const MAX_STREAM_BYTES: u32 = 10122;
    pub(crate) const DUPLICATE_IN_PROCESS: u32 = 10158;

    /// Those that say that there is no room.
    pub(crate) const NO_ROOM: [u32; 6] = [
        INSUFFICIENT_RESOURCES,
        STORAGE_EXCEEDED,
        MEMORY_EXCEEDED,
        ACCOUNT_EXCEEDED,
        STORE_FAILED,
        MAX_STREAM_BYTES,
    ];
}

/// What every answer may have.
#[derive(Deserialize)]
struct Answer {
    error: Option<Refusal>,
}

impl Shared {
    /// Asks JetStream `what` (`STREAM.INFO.x`) with `body`.
    pub(crate) async fn ask_api<T: DeserializeOwned>(
        &self,
        what: &str,
        body: &(impl Serialize + ?Sized),
        within: Duration,
    ) -> Result<T, ApiError> {
        let body = serde_json::to_vec(body).map_err(|e| ApiError::Silence(e.to_string()))?;
        let answer = self.request(format!("$JS.API.{what}"), None, body.into(), within).await?;
        let other = |error| ApiError::Silence(format!("an answer that is none: {error}"));
        match serde_json::from_slice(&answer).map_err(other)? {
            Answer { error: Some(refusal) } => Err(ApiError::Refused(refusal)),
            Answer { error: None } => serde_json::from_slice(&answer).map_err(other),
        }
    }

    /// A request with one answer. Nothing is handed to the library while there is no connection: it
    /// would send it at any time later.
    pub(crate) async fn request(
        &self,
        subject: String,
        headers: Option<async_nats::HeaderMap>,
        payload: Bytes,
        within: Duration,
    ) -> Result<Bytes, ApiError> {
        let end = tokio::time::Instant::now() + within;
        if !self.connected_by(end).await {
            return Err(ApiError::Offline);
        }
        let mut request = Request::new().payload(payload).timeout(None);
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        // The library's own time-out does not cover its queue. On another connection the answer may
        // come too, but mostly it is lost with the one on which the question went.
        let connects = self.connects();
        let answer = tokio::select! {
            biased;
            answer = timeout_at(end, self.client.send_request(subject, request)) => answer,
            () = self.reconnected(connects) => {
                return Err(ApiError::Silence("the connection was lost".to_owned()));
            }
        };
        match answer {
            Ok(Ok(message)) => Ok(message.payload),
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {
                Err(ApiError::Nobody)
            }
            Ok(Err(error)) => Err(ApiError::Silence(error.to_string())),
            Err(_) => Err(ApiError::Silence(format!("no answer within {within:?}"))),
        }
    }
}

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamConfig {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) subjects: Vec<String>,
    pub(crate) retention: String,
    pub(crate) storage: String,
    pub(crate) discard: String,
    pub(crate) num_replicas: usize,
    #[serde(default)]
    pub(crate) max_age: u64,
    #[serde(default)]
    pub(crate) max_bytes: i64,
    #[serde(default)]
    pub(crate) max_msgs: i64,
    #[serde(default)]
    pub(crate) max_msgs_per_subject: i64,
    #[serde(default)]
    pub(crate) max_msg_size: i32,
    #[serde(default)]
    pub(crate) max_consumers: i32,
    #[serde(default)]
    pub(crate) duplicate_window: u64,
    #[serde(default)]
    pub(crate) deny_delete: bool,
    #[serde(default)]
    pub(crate) deny_purge: bool,
    #[serde(default)]
    pub(crate) allow_rollup_hdrs: bool,
}

#[derive(Deserialize, Debug, Clone)]
pub(crate) struct StreamInfo {
    pub(crate) config: StreamConfig,
    pub(crate) state: StreamState,
}

#[derive(Deserialize, Debug, Clone)]
pub(crate) struct StreamState {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    pub(crate) first_seq: u64,
    pub(crate) last_seq: u64,
}

impl Shared {
    pub(crate) async fn stream_info(
        &self,
        name: &str,
        within: Duration,
    ) -> Result<StreamInfo, ApiError> {
        self.ask_api(&format!("STREAM.INFO.{name}"), &serde_json::json!({}), within).await
    }

    /// Makes a stream if there is none of its name, whatever its configuration: two nodes may begin
    /// at the same moment.
    pub(crate) async fn make_stream(&self, config: &StreamConfig) -> Result<(), ApiError> {
        let what = format!("STREAM.CREATE.{}", config.name);
        let made: Result<StreamInfo, _> =
            self.ask_api(&what, config, crate::limits::STREAM_TIMEOUT).await;
        let Err(error) = made else { return Ok(()) };
        let ApiError::Refused(Refusal { err_code, .. }) = &error else { return Err(error) };
        match *err_code {
            code::STREAM_NAME_IN_USE => Ok(()),
            // A server before 2.10 that makes it for another at this moment looks for its name,
            // lets go of its lock, and then finds its subjects taken, by the same stream. Whoever
            // asks for that one before it is whole makes the server crash.
            code::SUBJECTS_OVERLAP => {
                drop(timeout(MAKING_PAUSE, std::future::pending::<()>()).await);
                self.stream_info(&config.name, API_TIMEOUT).await.map(drop).map_err(|_| error)
            }
            _ => Err(error),
        }
    }

    pub(crate) async fn update_stream(&self, config: &StreamConfig) -> Result<(), ApiError> {
        let what = format!("STREAM.UPDATE.{}", config.name);
        let made: Result<StreamInfo, _> =
            self.ask_api(&what, config, crate::limits::STREAM_TIMEOUT).await;
        made.map(drop)
    }
}
