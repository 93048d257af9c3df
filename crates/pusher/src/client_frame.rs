//! Frames that clients send. Cost: a pass over the JSON; the data of an event is not copied.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::code::ErrorCode;
use crate::json::{self, Given};
use crate::limits::{EVENT_NAME_CHARS_MAX, JSON_DEPTH_MAX};

/// What the name of an event of clients begins with.
pub const CLIENT_PREFIX: &str = "client-";

/// What a client says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientFrame<'f> {
    /// It wants to hear that the connection works.
    Ping,
    /// It has heard.
    Pong,
    /// It wants to hear the events of a channel.
    Subscribe(Subscribe),
    /// It wants to hear no more of the channel.
    Unsubscribe {
        /// The channel's name, not yet looked at.
        channel: String,
    },
    /// It says which user it is.
    SignIn(SignIn),
    /// It sends an event to the others of a channel.
    Event(ClientEvent<'f>),
}

/// A wish to subscribe.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Subscribe {
    /// The channel's name, not yet looked at.
    pub channel: String,
    /// The app's key and signature; empty on public channels.
    #[serde(default)]
    pub auth: Given,
    /// Who the member is, on presence channels.
    #[serde(default)]
    pub channel_data: Given,
    /// The last event of the channel that the client has had.
    #[serde(default)]
    pub after: Given,
}

/// A wish to be a user.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct SignIn {
    /// The app's key and signature.
    pub auth: String,
    /// Who the user is, as the app has signed it.
    pub user_data: String,
}

/// An event from a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientEvent<'f> {
    /// The channel's name, not yet looked at.
    pub channel: String,
    /// The event's name.
    pub name: String,
    /// Its data as it came: any JSON.
    pub data: &'f str,
}

/// Why a frame is not taken. The connection stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum FrameFault {
    /// It is no JSON.
    #[error("This is not JSON.")]
    NotJson,
    /// It is JSON, and no frame.
    #[error("A frame is a JSON object with a text in \"event\".")]
    NotFrame,
    /// What a subscription takes is not there.
    #[error("The data of this event has no text in \"channel\".")]
    NoChannel,
    /// What a sign-in takes is not there.
    #[error("pusher:signin needs texts in \"auth\" and \"user_data\".")]
    SignIn,
    /// An event of the protocol that is none.
    #[error("This server does not know this event of the protocol.")]
    UnknownEvent,
    /// An event with a name that clients may not send.
    #[error("The name of a client's event begins with client-.")]
    NotClientEvent,
    /// A client's event whose name is too long.
    #[error("The name of an event has more than {EVENT_NAME_CHARS_MAX} characters.")]
    NameTooLong,
    /// A client's event without a channel.
    #[error("A client's event needs a text in \"channel\".")]
    EventChannel,
    /// A client's event that readers of JSON might not survive.
    #[error("The data of this event is nested deeper than {JSON_DEPTH_MAX}.")]
    TooDeep,
}

impl FrameFault {
    /// The number of the error.
    pub const fn code(self) -> ErrorCode {
        match self {
            FrameFault::NotJson
            | FrameFault::NotFrame
            | FrameFault::NoChannel
            | FrameFault::SignIn
            | FrameFault::UnknownEvent => ErrorCode::None,
            FrameFault::NotClientEvent
            | FrameFault::NameTooLong
            | FrameFault::EventChannel
            | FrameFault::TooDeep => ErrorCode::ClientEvent,
        }
    }
}

/// A frame as it is written. Other members are dropped: who sent it is the server's to say.
#[derive(Deserialize)]
struct WrittenFrame<'f> {
    event: String,
    #[serde(default)]
    channel: Given,
    #[serde(borrow, default)]
    data: Option<&'f RawValue>,
}

#[derive(Deserialize)]
struct OfChannel {
    channel: String,
}

impl<'f> ClientFrame<'f> {
    /// Reads a text message.
    ///
    /// # Errors
    /// It is no frame that this server takes; the client is told so by `pusher:error`.
    pub fn parse(text: &'f str) -> Result<ClientFrame<'f>, FrameFault> {
        let written: WrittenFrame<'f> =
            json::object(text).map_err(|error| match error.is_data() {
                true => FrameFault::NotFrame,
                false => FrameFault::NotJson,
            })?;
        let data = written.data;
        match written.event.as_str() {
            "pusher:ping" => Ok(ClientFrame::Ping),
            "pusher:pong" => Ok(ClientFrame::Pong),
            "pusher:subscribe" => {
                inner(data).map(ClientFrame::Subscribe).ok_or(FrameFault::NoChannel)
            }
            "pusher:unsubscribe" => match inner(data) {
                Some(OfChannel { channel }) => Ok(ClientFrame::Unsubscribe { channel }),
                None => Err(FrameFault::NoChannel),
            },
            "pusher:signin" => inner(data).map(ClientFrame::SignIn).ok_or(FrameFault::SignIn),
            name if name.starts_with(CLIENT_PREFIX) => event(written).map(ClientFrame::Event),
            name if name.starts_with("pusher:") || name.starts_with("pusher_internal:") => {
                Err(FrameFault::UnknownEvent)
            }
            _ => Err(FrameFault::NotClientEvent),
        }
    }
}

/// The data of a frame: an object, or a text with the JSON of one.
fn inner<T: DeserializeOwned>(data: Option<&RawValue>) -> Option<T> {
    let data = data?.get();
    if !data.starts_with('"') {
        return json::object(data).ok();
    }
    let text: String = serde_json::from_str(data).ok()?;
    json::object(&text).ok()
}

fn event(written: WrittenFrame<'_>) -> Result<ClientEvent<'_>, FrameFault> {
    let Given::Text(channel) = written.channel else { return Err(FrameFault::EventChannel) };
    if written.event.chars().count() > EVENT_NAME_CHARS_MAX {
        return Err(FrameFault::NameTooLong);
    }
    let data = written.data.map_or("null", RawValue::get);
    if json::depth(data) > JSON_DEPTH_MAX {
        return Err(FrameFault::TooDeep);
    }
    Ok(ClientEvent { channel, name: written.event, data })
}

#[cfg(test)]
mod tests;
