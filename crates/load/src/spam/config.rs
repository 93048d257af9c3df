//! What a run is asked for, and why it could not start.

use std::io;
use std::time::Duration;

use proto::ApiKey;

use crate::Trust;
use crate::stamp::STAMP_LEN;
use crate::target::{Target, TargetError};

/// The shortest payload: a stamp and the quotes around it.
pub const PAYLOAD_BYTES_MIN: usize = STAMP_LEN + 2;

/// The largest one: what an API takes as an event, and far more.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;

/// Events that may be on their way on one connection at the most.
pub const IN_FLIGHT_MOST: usize = 1_000_000;

/// How events are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SpamMode {
    /// Lines of one long NDJSON request a connection.
    #[default]
    Stream,
    /// One request an event.
    Post,
}

/// What an event carries beside its stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payload {
    /// A string with nothing but padding, up to this length as JSON, at least
    /// [`PAYLOAD_BYTES_MIN`].
    Padded(usize),
    /// An object for people and pages to show, about 140 bytes: which song the subject listens to,
    /// and when that was sent, in milliseconds since 1970.
    Song,
}

/// What a run of `spam` is to do.
#[derive(Clone, PartialEq, Debug)]
pub struct SpamConfig {
    /// The API: `http://host:port` or `https://host:port`.
    pub api: String,
    /// Who vouches for the server, which `https://` takes.
    pub trust: Option<Trust>,
    /// The key that it is shown, where it wants one.
    pub key: Option<ApiKey>,
    /// Events are about so many users.
    pub users: u32,
    /// The id of the first of them; the others follow.
    pub first_id: u64,
    /// Logical senders, among whom the events are spread at random.
    pub senders: u32,
    /// Connections to the API.
    pub connections: u32,
    /// Events a second, over all connections.
    pub rate: f64,
    /// How long; `None` is until stopped.
    pub duration: Option<Duration>,
    /// What each event carries.
    pub payload: Payload,
    /// The exponent of Zipf's law by which subjects are chosen, the first user most often; `None`
    /// is all alike.
    pub zipf: Option<f64>,
    /// Names the run's random choices.
    pub seed: u64,
    /// How events are sent.
    pub mode: SpamMode,
    /// Events of a stream that fall due within this time go out in one write, as from an
    /// application with many threads. Each keeps its own intended time, so the wait counts as
    /// latency.
    pub coalesce: Duration,
    /// Events on their way on one connection, at most.
    pub in_flight_max: usize,
    /// How long after its time, and after [`coalesce`](SpamConfig::coalesce), an event may be sent
    /// before it counts as late.
    pub late_after: Duration,
}

impl Default for SpamConfig {
    fn default() -> SpamConfig {
        SpamConfig {
            api: "http://127.0.0.1:8001".to_owned(),
            trust: None,
            key: None,
            users: 10_000,
            first_id: 0,
            senders: 1_000,
            connections: 1,
            rate: 1_000.0,
            duration: None,
            payload: Payload::Padded(100),
            zipf: None,
            seed: 1,
            mode: SpamMode::Stream,
            coalesce: Duration::from_millis(4),
            in_flight_max: 10_000,
            late_after: Duration::from_secs(1),
        }
    }
}

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
pub enum SpamError {
    /// The API's URL cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A figure that cannot be.
    #[error("{0}")]
    Config(&'static str),
    /// A payload is too short for a stamp.
    #[error("a payload needs at least {PAYLOAD_BYTES_MIN} bytes for its stamp, not {0}")]
    Payload(usize),
    /// The API cannot be reached.
    #[error("cannot connect to the API at {api}: {error}; is the server running?")]
    Connect {
        /// Its URL.
        api: String,
        /// What went wrong.
        error: io::Error,
    },
    /// A thread could not start.
    #[error("cannot start a sending thread: {0}")]
    Thread(io::Error),
}

/// Whether somebody vouches for an API that speaks TLS.
pub(super) fn check_trust(config: &SpamConfig, target: &Target) -> Result<(), SpamError> {
    match target.tls_name.is_some() && config.trust.is_none() {
        true => Err(SpamError::Config("https:// takes the authorities that vouch for the API")),
        false => Ok(()),
    }
}

/// Whether a run can be as it is asked for.
pub(super) fn check(config: &SpamConfig) -> Result<(), SpamError> {
    let zipf_fits = config.zipf.is_none_or(|exponent| exponent.is_finite() && exponent >= 0.0);
    match config {
        SpamConfig { key: Some(key), .. } if key.authorization().is_none() => {
            Err(SpamError::Config("the key has characters that no key has: give it as printed"))
        }
        _ if config.users == 0 => Err(SpamError::Config("spam needs at least one user")),
        _ if config.first_id.checked_add(config.users.into()).is_none() => {
            Err(SpamError::Config("the ids of the users must fit into 64 bits"))
        }
        _ if config.senders == 0 => Err(SpamError::Config("spam needs at least one sender")),
        _ if config.connections == 0 => {
            Err(SpamError::Config("spam needs at least one connection"))
        }
        _ if !(1..=IN_FLIGHT_MOST).contains(&config.in_flight_max) => {
            Err(SpamError::Config("from 1 to 1,000,000 events may be on their way"))
        }
        _ if !(config.rate.is_finite() && config.rate > 0.0) => {
            Err(SpamError::Config("the rate must be over 0 events a second"))
        }
        _ if !zipf_fits => Err(SpamError::Config("the exponent of Zipf's law must be 0 or more")),
        SpamConfig { payload: Payload::Padded(bytes), .. } if *bytes < PAYLOAD_BYTES_MIN => {
            Err(SpamError::Payload(*bytes))
        }
        SpamConfig { payload: Payload::Padded(bytes), .. } if *bytes > PAYLOAD_BYTES_MAX => {
            Err(SpamError::Config("a payload has at most 1 MiB"))
        }
        _ => Ok(()),
    }
}
