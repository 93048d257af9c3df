//! Frames that a server sends. `data` is JSON inside a text, as pusher-js has it of Pusher itself.
//! An event of a client alone has its data as it came.
//!
//! An event of a channel is the same bytes for all its subscribers. One that goes to several
//! channels differs in their names alone: [`EventFrame::head`] and [`EventFrame::tail`] are what
//! stands around the name, and are written once.

use std::borrow::Cow;

use serde::Serialize;

use crate::client_event::EventRefusal;
use crate::client_frame::FrameFault;
use crate::code::{Close, ErrorCode};
use crate::json::text_of;
use crate::limits::ACTIVITY_TIMEOUT_SECONDS_MAX;
use crate::socket_id::SocketId;
use crate::subscription::{SignInRefusal, SubscriptionRefusal};

/// The answer to a ping. Unasked it keeps a connection alive: a client takes it for life, and
/// answers nothing.
pub const PONG: &str = r#"{"event":"pusher:pong","data":"{}"}"#;

/// What an event about an id is called that has no name. What it says is
/// [`plain_text`](crate::plain_text) of its JSON.
pub const NAMELESS: &str = "message";

/// What the names of frames begin with by which the server itself speaks.
const OWN_PREFIXES: [&str; 3] = ["pusher:", "pusher_internal:", "encke:"];

/// What an event about an id is called: its name, unless it would be taken for a word of the
/// server. A sender about an id may not speak for that.
pub fn name_of_sent(name: Option<&str>) -> &str {
    let is_own = |name: &&str| OWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    name.filter(|name| !is_own(name)).unwrap_or(NAMELESS)
}

/// A frame but for those of channels' events.
#[derive(Serialize)]
struct Frame<'f> {
    event: &'f str,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<&'f str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'f str>,
}

/// A frame whose data is `data` as JSON in a text.
fn frame(event: &str, channel: Option<&str>, data: &impl Serialize) -> String {
    let data = text_of(data);
    text_of(&Frame { event, channel, data: Some(&data) })
}

/// The first frame of a connection. A silence of `activity_timeout` seconds makes the client ask
/// whether the server still lives; 0 would make it throw.
pub fn connection_established(socket: SocketId, activity_timeout: u32) -> String {
    #[derive(Serialize)]
    struct Data {
        socket_id: String,
        activity_timeout: u32,
    }
    let activity_timeout = activity_timeout.clamp(1, ACTIVITY_TIMEOUT_SECONDS_MAX);
    let data = Data { socket_id: socket.to_string(), activity_timeout };
    frame("pusher:connection_established", None, &data)
}

/// What an error says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ErrorText {
    /// Its number.
    pub code: Option<u16>,
    /// A sentence for people.
    pub message: String,
}

impl From<Close> for ErrorText {
    fn from(close: Close) -> ErrorText {
        ErrorText { code: Some(close.code()), message: close.message().to_owned() }
    }
}

impl From<FrameFault> for ErrorText {
    fn from(fault: FrameFault) -> ErrorText {
        ErrorText { code: fault.code().number(), message: fault.to_string() }
    }
}

impl From<EventRefusal> for ErrorText {
    fn from(refusal: EventRefusal) -> ErrorText {
        ErrorText { code: refusal.code().number(), message: refusal.to_string() }
    }
}

impl From<SignInRefusal> for ErrorText {
    fn from(refusal: SignInRefusal) -> ErrorText {
        ErrorText { code: ErrorCode::None.number(), message: refusal.to_string() }
    }
}

impl ErrorText {
    /// The error of an event that the server did not pass on, with the reason.
    pub fn event_refused(message: &str) -> ErrorText {
        ErrorText { code: ErrorCode::ClientEvent.number(), message: message.to_owned() }
    }

    /// The error of a watchlist of which the first users alone are watched.
    pub fn watchlist_cut() -> ErrorText {
        let message = format!(
            "The watchlist is longer than {} users. The first {0} are watched.",
            crate::limits::WATCHLIST_USERS_MAX
        );
        ErrorText { code: ErrorCode::WatchlistCut.number(), message }
    }

    /// The error of a watchlist of which some cannot be watched now, since too many ask.
    pub fn watchlist_busy() -> ErrorText {
        let message = "Some users of the watchlist are not watched: too many connections ask who \
                       is online. Connect again a little later.";
        ErrorText { code: ErrorCode::None.number(), message: message.to_owned() }
    }
}

/// The frame of an error.
pub fn error(error: impl Into<ErrorText>) -> String {
    #[derive(Serialize)]
    struct Data {
        code: Option<u16>,
        message: String,
    }
    let ErrorText { code, message } = error.into();
    frame("pusher:error", None, &Data { code, message })
}

/// The answer to a subscription that is refused.
pub fn subscription_error(channel: &str, refusal: SubscriptionRefusal) -> String {
    #[derive(Serialize)]
    struct Data {
        #[serde(rename = "type")]
        kind: &'static str,
        error: String,
        status: u16,
    }
    let (kind, error, status) = (refusal.kind(), refusal.to_string(), refusal.status());
    frame("pusher:subscription_error", Some(channel), &Data { kind, error, status })
}

/// The answer to a subscription of a channel without members.
pub fn subscription_succeeded(channel: &str) -> String {
    let (event, data) = ("pusher_internal:subscription_succeeded", Some("{}"));
    text_of(&Frame { event, channel: Some(channel), data })
}

/// The frame behind a success where a cache channel keeps no event.
pub fn cache_miss(channel: &str) -> String {
    text_of(&Frame { event: "pusher:cache_miss", channel: Some(channel), data: None })
}

/// The frame where events are missing which the client has asked for. Where none comes behind it,
/// it has the place after which the channel can be resumed.
pub fn gap(channel: &str, id: Option<&str>) -> String {
    placed("encke:gap", channel, id)
}

/// The frame behind a success that tells a client that asks for it the place after which the
/// channel can be resumed.
pub fn place(channel: &str, id: &str) -> String {
    placed("encke:place", channel, Some(id))
}

fn placed(event: &str, channel: &str, id: Option<&str>) -> String {
    let frame =
        EventFrame { name: EventText::Text(event), data: EventText::Text("{}"), user_id: None, id };
    frame.of_channel(channel)
}

/// How many subscribers a channel has.
pub fn subscription_count(channel: &str, count: u64) -> String {
    #[derive(Serialize)]
    struct Data {
        subscription_count: u64,
    }
    let data = Data { subscription_count: count };
    frame("pusher_internal:subscription_count", Some(channel), &data)
}

/// The answer to a sign-in, which repeats what was signed.
pub fn signin_success(user_data: &str) -> String {
    #[derive(Serialize)]
    struct Data<'d> {
        user_data: &'d str,
    }
    frame("pusher:signin_success", None, &Data { user_data })
}

/// Who of a watchlist has come, and who has gone. `None` where there is nobody to tell of.
pub fn watchlist_events(online: &[&str], offline: &[&str]) -> Option<String> {
    #[derive(Serialize)]
    struct Event<'e> {
        name: &'static str,
        user_ids: &'e [&'e str],
    }
    #[derive(Serialize)]
    struct Data<'d> {
        events: Vec<Event<'d>>,
    }
    let both = [("online", online), ("offline", offline)].into_iter();
    let told = both.filter(|(_, user_ids)| !user_ids.is_empty());
    let events: Vec<_> = told.map(|(name, user_ids)| Event { name, user_ids }).collect();
    let is_told = !events.is_empty();
    is_told.then(|| frame("pusher_internal:watchlist_events", None, &Data { events }))
}

/// An event of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventFrame<'e> {
    /// Its name.
    pub name: EventText<'e>,
    /// What it says.
    pub data: EventText<'e>,
    /// The member that has sent it: of an event of a client in a presence channel.
    pub user_id: Option<&'e str>,
    /// Its id, after which the channel can be resumed.
    pub id: Option<&'e str>,
}

/// What an event is called, or says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventText<'e> {
    /// A text, as the HTTP API takes it; mostly with JSON in it.
    Text(&'e str),
    /// Valid JSON: a text as it is written already, or what came from a client.
    Json(&'e str),
}

impl<'e> EventText<'e> {
    fn json(self) -> Cow<'e, str> {
        match self {
            EventText::Text(text) => Cow::Owned(text_of(text)),
            EventText::Json(json) => Cow::Borrowed(json),
        }
    }
}

impl<'e> EventFrame<'e> {
    /// What stands before the channel's name.
    pub fn head(&self) -> String {
        format!("{{\"event\":{},\"channel\":", self.name.json())
    }

    /// What stands behind the channel's name.
    pub fn tail(&self) -> String {
        let mut tail = String::from(",\"data\":");
        tail.push_str(&self.data.json());
        for (member, text) in [("user_id", self.user_id), ("id", self.id)] {
            if let Some(text) = text {
                tail.push_str(&format!(",\"{member}\":{}", text_of(text)));
            }
        }
        tail.push('}');
        tail
    }

    /// The whole frame.
    pub fn of_channel(&self, channel: &str) -> String {
        [self.head(), text_of(channel), self.tail()].concat()
    }
}

#[cfg(test)]
mod tests;
