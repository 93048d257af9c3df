//! Events that a backend sends: the bodies of `POST /events` and `POST /batch_events`, and the old
//! way, `POST /channels/{name}/events`.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::info::Info;
use super::query::SignedQuery;
use super::refusal::ApiRefusal;
use crate::channel::Channel;
use crate::json;
use crate::limits::{BATCH_EVENTS_MAX, EVENT_NAME_CHARS_MAX, TRIGGER_CHANNELS_MAX};
use crate::socket_id::SocketId;

/// An event to send: one in each of its channels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trigger {
    /// The event's name.
    pub name: String,
    /// What it says; mostly JSON.
    pub data: String,
    /// Names of channels, each well formed and there once.
    pub channels: Vec<String>,
    /// The connection that does not hear it.
    pub except: Option<SocketId>,
    /// What the answer tells of the channels.
    pub info: Info,
}

/// An event as it is written. Members that nobody knows do no harm.
#[derive(Deserialize)]
struct WrittenTrigger {
    name: String,
    data: String,
    #[serde(default)]
    channels: Option<Vec<String>>,
    #[serde(default)]
    channel: Option<String>,
    #[serde(default)]
    socket_id: Option<String>,
    #[serde(default)]
    info: Option<String>,
}

#[derive(Deserialize)]
struct Batch<'b> {
    #[serde(borrow)]
    batch: Vec<&'b RawValue>,
}

/// Reads the body of `POST /events`; its data has at most `data_bytes_max` bytes.
///
/// # Errors
/// It is no event that can be sent; nothing is.
pub fn parse_trigger(body: &[u8], data_bytes_max: usize) -> Result<Trigger, ApiRefusal> {
    let written: WrittenTrigger = read(text(body)?)?;
    written.checked(data_bytes_max)
}

/// Reads the body of `POST /batch_events`.
///
/// # Errors
/// One of its events cannot be sent; none is.
pub fn parse_batch(body: &[u8], data_bytes_max: usize) -> Result<Vec<Trigger>, ApiRefusal> {
    let Batch { batch } = read(text(body)?)?;
    if batch.len() > BATCH_EVENTS_MAX {
        return Err(ApiRefusal::BatchTooLong);
    }
    let one = |event: &RawValue| {
        let written: WrittenTrigger = read(event.get())?;
        match written.channels {
            Some(_) => Err(ApiRefusal::Body("an event of a batch has one \"channel\"".into())),
            None => written.checked(data_bytes_max),
        }
    };
    let in_batch = |(index, event): (usize, &RawValue)| {
        one(event).map_err(|refusal| ApiRefusal::InBatch { index, refusal: Box::new(refusal) })
    };
    batch.into_iter().enumerate().map(in_batch).collect()
}

/// Reads the old way: the name and the connection to leave out in the query, the data the body.
///
/// # Errors
/// It is no event that can be sent; nothing is.
pub fn parse_legacy(
    query: &SignedQuery,
    channel: &str,
    body: &[u8],
    data_bytes_max: usize,
) -> Result<Trigger, ApiRefusal> {
    let own = |key| query.value(key).map(str::to_owned);
    let written = WrittenTrigger {
        name: own("name").ok_or(ApiRefusal::EventName)?,
        data: text(body)?.to_owned(),
        channels: None,
        channel: Some(channel.to_owned()),
        socket_id: own("socket_id"),
        info: own("info"),
    };
    written.checked(data_bytes_max)
}

impl WrittenTrigger {
    fn checked(self, data_bytes_max: usize) -> Result<Trigger, ApiRefusal> {
        let is_reserved = |prefix| self.name.starts_with(prefix);
        let length = self.name.chars().take(EVENT_NAME_CHARS_MAX + 1).count();
        if !(1..=EVENT_NAME_CHARS_MAX).contains(&length)
            || ["pusher:", "pusher_internal:"].into_iter().any(is_reserved)
        {
            return Err(ApiRefusal::EventName);
        }
        let channels = one_list(self.channels, self.channel)?;
        if self.data.len() > data_bytes_max {
            return Err(ApiRefusal::DataTooLong(data_bytes_max));
        }
        // An old library sends an empty one where there is none.
        let except = match self.socket_id.as_deref() {
            None | Some("") => None,
            Some(text) => SocketId::parse(text).map_err(|_| ApiRefusal::SocketId)?,
        };
        let info = Info::parse(self.info.as_deref().unwrap_or_default())?;
        Ok(Trigger { name: self.name, data: self.data, channels, except, info })
    }
}

/// The channels of an event, each once and in their order.
fn one_list(
    channels: Option<Vec<String>>,
    channel: Option<String>,
) -> Result<Vec<String>, ApiRefusal> {
    let all = match (channels, channel) {
        (Some(channels), None) => channels,
        (None, Some(channel)) => vec![channel],
        _ => return Err(ApiRefusal::Body("give \"channels\" or \"channel\"".into())),
    };
    if !(1..=TRIGGER_CHANNELS_MAX).contains(&all.len()) {
        return Err(ApiRefusal::Channels);
    }
    let mut each_once = Vec::with_capacity(all.len());
    for name in all {
        Channel::parse(&name)?;
        if !each_once.contains(&name) {
            each_once.push(name);
        }
    }
    Ok(each_once)
}

fn text(body: &[u8]) -> Result<&str, ApiRefusal> {
    str::from_utf8(body).map_err(|_| ApiRefusal::Body("it is not UTF-8".into()))
}

fn read<'j, T: Deserialize<'j>>(text: &'j str) -> Result<T, ApiRefusal> {
    json::object(text).map_err(|error| ApiRefusal::Body(error.to_string()))
}

#[cfg(test)]
mod tests;
