//! Why a request is refused, with the number of HTTP that says so.

use thiserror::Error;

use crate::channel::ChannelFault;
use crate::limits::{
    BATCH_EVENTS_MAX, EVENT_NAME_CHARS_MAX, QUERY_PARAMETERS_MAX, TIMESTAMP_DRIFT_SECONDS_MAX,
    TRIGGER_CHANNELS_MAX,
};

/// Why a request is refused. Nothing of it was done.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ApiRefusal {
    /// There is no such path.
    #[error("There is nothing at this path.")]
    NoSuchPath,
    /// The path takes another method.
    #[error("Use {0} for this path.")]
    Method(&'static str),
    /// There is no app with this id, or key.
    #[error("There is no such app. Check the app's id.")]
    NoSuchApp,
    /// The app is switched off.
    #[error("This app is disabled.")]
    Disabled,
    /// The address cannot be read.
    #[error("The query of this request is not valid: {0}.")]
    Query(&'static str),
    /// It has more parameters than any request takes.
    #[error("The query of this request has more than {QUERY_PARAMETERS_MAX} parameters.")]
    TooManyParameters,
    /// A parameter of the signature is missing.
    #[error("The query needs {0}. Sign the request.")]
    Unsigned(&'static str),
    /// Another app has signed.
    #[error("auth_key is not the key of this app.")]
    Key,
    /// The signature is of another version.
    #[error("auth_version is not 1.0.")]
    Version,
    /// The time of the signature is too far away.
    #[error(
        "auth_timestamp is more than {TIMESTAMP_DRIFT_SECONDS_MAX} seconds from the server's \
         time, which is {now}. Set the clock of the sender."
    )]
    Timestamp {
        /// The server's time, in seconds.
        now: u64,
    },
    /// The body is not the one that was signed.
    #[error("body_md5 is not the MD5 of the body.")]
    BodyMd5,
    /// The signature is wrong.
    #[error("auth_signature is not valid. Check the app's secret and what is signed.")]
    Signature,
    /// The body is no JSON of the expected form.
    #[error("The body is not valid: {0}.")]
    Body(String),
    /// A channel cannot be called so.
    #[error("{0}")]
    Channel(#[from] ChannelFault),
    /// No channel, or too many.
    #[error("A trigger names 1 to {TRIGGER_CHANNELS_MAX} channels.")]
    Channels,
    /// An event cannot be called so.
    #[error(
        "The name of an event has 1 to {EVENT_NAME_CHARS_MAX} characters and does not begin with \
         pusher: or pusher_internal:."
    )]
    EventName,
    /// The data of an event is too long.
    #[error("The data of an event has more than {0} bytes.")]
    DataTooLong(usize),
    /// The connection to leave out is none.
    #[error("socket_id is not digits, a point and digits.")]
    SocketId,
    /// A batch with too many events.
    #[error("A batch has at most {BATCH_EVENTS_MAX} events.")]
    BatchTooLong,
    /// One event of a batch is refused, so all are.
    #[error("Event {index} of the batch: {refusal}")]
    InBatch {
        /// Which, from 0.
        index: usize,
        /// Why.
        refusal: Box<ApiRefusal>,
    },
    /// An attribute that there is not, or not here.
    #[error("info={0} is not an attribute of this.")]
    Info(String),
    /// The users of a channel that has none.
    #[error("Only presence channels have users.")]
    NotPresence,
    /// Nobody can be called so.
    #[error("The id of a user has 1 to 128 characters.")]
    UserId,
}

impl ApiRefusal {
    /// The number of HTTP.
    pub fn status(&self) -> u16 {
        match self {
            ApiRefusal::NoSuchPath | ApiRefusal::NoSuchApp => 404,
            ApiRefusal::Method(_) => 405,
            ApiRefusal::Disabled => 403,
            ApiRefusal::Unsigned(_)
            | ApiRefusal::Key
            | ApiRefusal::Version
            | ApiRefusal::Timestamp { .. }
            | ApiRefusal::BodyMd5
            | ApiRefusal::Signature => 401,
            ApiRefusal::DataTooLong(_) => 413,
            ApiRefusal::InBatch { refusal, .. } => refusal.status(),
            ApiRefusal::Query(_)
            | ApiRefusal::TooManyParameters
            | ApiRefusal::Body(_)
            | ApiRefusal::Channel(_)
            | ApiRefusal::Channels
            | ApiRefusal::EventName
            | ApiRefusal::SocketId
            | ApiRefusal::BatchTooLong
            | ApiRefusal::Info(_)
            | ApiRefusal::NotPresence
            | ApiRefusal::UserId => 400,
        }
    }
}
