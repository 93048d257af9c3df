//! The log: one JetStream stream for each epoch of a cluster, made where it is missing and checked
//! where it is there.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use serde::Deserialize;

use crate::api::{ApiError, Refusal, StreamConfig, StreamInfo, code};
use crate::connection::{NatsClient, Shared};
use crate::limits::{
    API_TIMEOUT, DUPLICATE_WINDOW, HEADER_BYTES_MAX, LOG_AGE_MAX, LOG_BYTES_MAX, RECORD_BYTES_MAX,
    SEALED_SPARE, STREAM_TIMEOUT,
};

/// The log of one epoch. Clones are the same log.
#[derive(Clone)]
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    pub(crate) epoch: u64,
    pub(crate) stream: String,
    /// `encke.<cluster>.<epoch>.log.`
    pub(crate) prefix: String,
    /// The highest sequence that was acknowledged to a publisher of this log; 0 when none was.
    pub(crate) acked: Arc<AtomicU64>,
}

/// What a log has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The sequence of its first record; one more than `last` where it has none.
    pub first: u64,
    /// The sequence of its last record, also if that has been trimmed; 0 in a new log.
    pub last: u64,
    /// How many bytes it takes.
    pub bytes: u64,
}

/// Why there is no log to use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is none of this epoch.
    #[error("NATS has no stream {0}")]
    Absent(String),
    /// It is sealed: another epoch was agreed on, or soon will be.
    #[error("NATS's stream {0} takes nothing more, for the cluster has another epoch")]
    Sealed(String),
    /// It is there, and not as it must be: somebody else made or changed it.
    #[error(
        "NATS's stream {stream} has other settings than a log needs: {}; set them so, or delete \
         the stream while all nodes are down", .differences.join(", ")
    )]
    OtherSettings {
        /// The name of the stream.
        stream: String,
        /// Each setting with what it is and what it must be.
        differences: Vec<String>,
    },
    /// JetStream is off, for this server or this user.
    #[error(
        "NATS has no JetStream for us: start it with `jetstream {{ store_dir: \"…\" }}` in its \
         configuration (or with -js), and where it has accounts, enable JetStream for ours"
    )]
    NoJetStream,
    /// The servers have less room than the log may take.
    #[error(
        "NATS has no room for the log, which may take 4 GiB on each of its servers ({0}): raise \
         max_file_store, the limits of the account, or give a larger disk"
    )]
    TooSmall(String),
    /// There are fewer servers than replicas.
    #[error("NATS cannot keep the log on {replicas} servers ({why}): start more, or ask for fewer")]
    TooFewServers {
        /// What was asked for.
        replicas: usize,
        /// JetStream's words.
        why: String,
    },
    /// The server takes smaller messages than records are.
    #[error("NATS takes messages of {0} bytes at most: set max_payload to 1MB, its default")]
    SmallPayload(usize),
    /// JetStream refuses for another reason.
    #[error("NATS's JetStream refuses: {description} ({err_code})")]
    Refused {
        /// JetStream's number of the error.
        err_code: u32,
        /// Its words.
        description: String,
    },
    /// It does not answer now: there is no connection, or an election. Try again.
    #[error("NATS's JetStream does not answer: {0}")]
    Unavailable(String),
}

impl LogError {
    /// Whether it may pass by itself, so that one tries again.
    #[must_use]
    pub fn is_passing(&self) -> bool {
        matches!(self, LogError::Unavailable(_))
    }

    pub(crate) fn of(error: ApiError, stream: &str, replicas: usize) -> LogError {
        let Refusal { err_code, description, .. } = match error {
            ApiError::Offline => {
                return LogError::Unavailable("there is no connection".to_owned());
            }
            ApiError::Silence(why) => return LogError::Unavailable(why),
            ApiError::Nobody => return LogError::NoJetStream,
            ApiError::Refused(refusal) => refusal,
        };
        match err_code {
            code::NOT_ENABLED | code::NOT_ENABLED_FOR_ACCOUNT => LogError::NoJetStream,
            code::STREAM_NOT_FOUND => LogError::Absent(stream.to_owned()),
            code::CLUSTER_NOT_AVAILABLE | code::CLUSTER_NOT_LEADER => {
                LogError::Unavailable(description)
            }
            code::CLUSTER_REQUIRED | code::REPLICAS_NOT_SUPPORTED => {
                LogError::TooFewServers { replicas, why: description }
            }
            // Where there are servers without room, it says so in the same error.
            code::NO_PEERS if description.contains("storage") => LogError::TooSmall(description),
            code::NO_PEERS => LogError::TooFewServers { replicas, why: description },
            code::INSUFFICIENT_RESOURCES
            | code::STORAGE_EXCEEDED
            | code::MEMORY_EXCEEDED
            | code::MAX_STREAM_BYTES
            | code::ACCOUNT_EXCEEDED => LogError::TooSmall(description),
            _ => LogError::Refused { err_code, description },
        }
    }
}

impl NatsClient {
    /// The log of `epoch`, which is made if it is not there: by whoever comes first.
    pub async fn make_log(&self, epoch: u64) -> Result<Log, LogError> {
        match self.find_log(epoch).await {
            Err(LogError::Absent(_)) => {}
            outcome => return outcome,
        }
        let config = self.config(epoch);
        let made = self.shared.make_stream(&config).await;
        made.map_err(|error| self.error(error, &config.name))?;
        self.find_log(epoch).await
    }

    /// The log of `epoch`, checked.
    pub async fn find_log(&self, epoch: u64) -> Result<Log, LogError> {
        let max_payload = self.shared.client.max_payload();
        if max_payload < RECORD_BYTES_MAX + HEADER_BYTES_MAX {
            return Err(LogError::SmallPayload(max_payload));
        }
        let wanted = self.config(epoch);
        let info = self.shared.stream_info(&wanted.name, API_TIMEOUT).await;
        let info = info.map_err(|error| self.error(error, &wanted.name))?;
        if info.config.subjects == [self.shared.sealed(epoch)] {
            return Err(LogError::Sealed(wanted.name));
        }
        let differences = differences(&info.config, &wanted);
        if !differences.is_empty() {
            return Err(LogError::OtherSettings { stream: wanted.name, differences });
        }
        Ok(Log {
            shared: Arc::clone(&self.shared),
            epoch,
            prefix: format!("encke.{}.{epoch}.log.", self.shared.cluster),
            stream: wanted.name,
            acked: Arc::default(),
        })
    }

    /// Takes its subjects from the log of `epoch`, so that nothing is put into it any more: before
    /// the next epoch is agreed on. It is no error that there is none, or that it is sealed
    /// already. What is in it can still be read, and ages; of the room that it was promised it
    /// keeps no more than that, so that there is room for the next one.
    pub async fn seal(&self, epoch: u64) -> Result<(), LogError> {
        let name = self.config(epoch).name;
        let sealed = async {
            let StreamInfo { mut config, state } =
                self.shared.stream_info(&name, API_TIMEOUT).await?;
            config.subjects = vec![self.shared.sealed(epoch)];
            let kept = i64::try_from(state.bytes).unwrap_or(i64::MAX).saturating_add(SEALED_SPARE);
            config.max_bytes = config.max_bytes.min(kept);
            self.shared.update_stream(&config).await
        };
        match sealed.await {
            Ok(()) => Ok(()),
            Err(ApiError::Refused(refusal)) if refusal.err_code == code::STREAM_NOT_FOUND => Ok(()),
            Err(error) => Err(self.error(error, &name)),
        }
    }

    /// Deletes the logs of earlier epochs that are empty, as they are some ten minutes after their
    /// last record, and says which. Whoever still follows one hears [`Followed::Gone`].
    ///
    /// [`Followed::Gone`]: crate::Followed::Gone
    pub async fn delete_logs_before(&self, epoch: u64) -> Result<Vec<u64>, LogError> {
        #[derive(Deserialize)]
        struct Names {
            streams: Option<Vec<String>>,
        }
        let all = format!("encke.{}.*.>", self.shared.cluster);
        let filter = serde_json::json!({ "subject": all });
        let names: Result<Names, _> =
            self.shared.ask_api("STREAM.NAMES", &filter, STREAM_TIMEOUT).await;
        let names = names.map_err(|error| self.error(error, ""))?.streams.unwrap_or_default();
        let prefix = format!("ENCKE_{}_", self.shared.cluster);
        let mut deleted = Vec::new();
        for name in names {
            let number = name.strip_prefix(&prefix).and_then(|rest| rest.parse::<u64>().ok());
            let Some(number) = number.filter(|number| *number < epoch) else { continue };
            match self.shared.stream_info(&name, API_TIMEOUT).await {
                Ok(info) if info.state.messages == 0 => {}
                _ => continue,
            }
            let what = format!("STREAM.DELETE.{name}");
            let done: Result<serde_json::Value, _> =
                self.shared.ask_api(&what, &serde_json::json!({}), STREAM_TIMEOUT).await;
            match done {
                Ok(_) => deleted.push(number),
                // Another node was faster.
                Err(ApiError::Refused(refusal)) if refusal.err_code == code::STREAM_NOT_FOUND => {}
                Err(error) => return Err(self.error(error, &name)),
            }
        }
        Ok(deleted)
    }

    fn config(&self, epoch: u64) -> StreamConfig {
        let Shared { cluster, replicas, .. } = &*self.shared;
        StreamConfig {
            name: format!("ENCKE_{cluster}_{epoch}"),
            subjects: vec![format!("encke.{cluster}.{epoch}.log.*")],
            retention: "limits".to_owned(),
            storage: "file".to_owned(),
            discard: "old".to_owned(),
            num_replicas: *replicas,
            max_age: nanoseconds(LOG_AGE_MAX),
            max_bytes: LOG_BYTES_MAX,
            max_msgs: -1,
            max_msgs_per_subject: -1,
            max_msg_size: -1,
            max_consumers: -1,
            duplicate_window: nanoseconds(DUPLICATE_WINDOW),
            deny_delete: true,
            deny_purge: true,
            allow_rollup_hdrs: false,
        }
    }

    pub(crate) fn error(&self, error: ApiError, stream: &str) -> LogError {
        LogError::of(error, stream, self.shared.replicas)
    }
}

impl Shared {
    /// The subject of a log that is sealed, to which nobody publishes.
    pub(crate) fn sealed(&self, epoch: u64) -> String {
        format!("encke.{}.{epoch}.sealed", self.cluster)
    }
}

impl Log {
    /// Whose log it is.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// What it has now, as its leader says.
    pub async fn extent(&self) -> Result<Extent, LogError> {
        let info = self.info(API_TIMEOUT).await;
        let state = info.map_err(|e| LogError::of(e, &self.stream, self.shared.replicas))?.state;
        // An empty stream that never had a message says 0 and 0.
        Ok(Extent { first: state.first_seq.max(1), last: state.last_seq, bytes: state.bytes })
    }

    pub(crate) async fn info(&self, within: Duration) -> Result<StreamInfo, ApiError> {
        self.shared.stream_info(&self.stream, within).await
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Log({})", self.stream)
    }
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What of `is` is not as in `wanted`, in words.
fn differences(is: &StreamConfig, wanted: &StreamConfig) -> Vec<String> {
    let names = |config: &StreamConfig| {
        let value = serde_json::to_value(config).unwrap_or_default();
        value.as_object().cloned().unwrap_or_default()
    };
    let is = names(is);
    let all = names(wanted).into_iter();
    all.filter_map(|(name, wanted)| {
        let is = is.get(&name)?;
        (*is != wanted).then(|| format!("{name} is {is} and must be {wanted}"))
    })
    .collect()
}
