//! One app, as it is written in the file of apps.
//!
//! A fault names the member, and never says what is in it: it may be the secret, in a wrong place.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::app_webhook::{self, AppWebhook};
use crate::channel::{Access, Channel};
use crate::client_event::EventRules;
use crate::limits::{
    APP_EVENT_BYTES_MAX, APP_ID_BYTES_MAX, APP_IDS_BYTES_MAX, APP_KEY_BYTES_MAX, APP_MEMBERS_MAX,
    EVENT_DATA_BYTES_MAX, MEMBERS_MAX, SECRET_BYTES_MAX, SECRET_BYTES_MIN,
};
use crate::signature::Secret;
use crate::written::{Fault, Place, flag, line_of, needed, number, object};

/// One app.
#[derive(Clone)]
pub struct App {
    /// What the HTTP API calls it, in digits: Python's library takes no other.
    pub id: String,
    /// What clients call it. It is no secret.
    pub key: String,
    /// What signatures are made with.
    pub secret: Secret,
    /// Whether the secret is long enough for a server that others than this machine reach.
    pub is_secret_long: bool,
    /// Whether anybody is served.
    pub is_enabled: bool,
    /// Whether clients may send events.
    pub has_client_events: bool,
    /// Whether a signed-in user hears what it follows in the stored graph.
    pub hears_graph: bool,
    /// Whether those whom a signed-in user follows there are its watchlist, if it has no other.
    pub watches_graph: bool,
    /// What stands before the name of a channel in the id that is one audience with it, if channels
    /// are shared with ids.
    pub ids: Option<String>,
    /// Whether subscribers hear how many they are.
    pub tells_subscription_count: bool,
    /// How many connections it may have.
    pub connections_max: Option<u32>,
    /// How many members a presence channel may have.
    pub members_max: u32,
    /// The longest data of an event, in bytes.
    pub event_bytes_max: usize,
    /// How many events its backend may send on channels in a second.
    pub events_per_second: Option<u32>,
    /// Its webhooks.
    pub webhooks: Vec<AppWebhook>,
}

/// As [`App`] is written. Each member is looked at by hand, so that no fault of the library's tells
/// what is in it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenApp<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    secret: Option<&'a RawValue>,
    #[serde(borrow, default)]
    enabled: Option<&'a RawValue>,
    #[serde(borrow, default)]
    client_events: Option<&'a RawValue>,
    #[serde(borrow, default)]
    graph: Option<&'a RawValue>,
    #[serde(borrow, default)]
    graph_watchlist: Option<&'a RawValue>,
    #[serde(borrow, default)]
    ids: Option<&'a RawValue>,
    #[serde(borrow, default)]
    subscription_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_connections: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_members: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_event_bytes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_events_per_second: Option<&'a RawValue>,
    #[serde(borrow, default)]
    webhooks: Option<Vec<&'a RawValue>>,
}

impl App {
    /// Reads one.
    ///
    /// # Errors
    /// The line in `json`, from 1, and what is wrong, as a sentence.
    pub(crate) fn parse(json: &str) -> Result<App, (usize, String)> {
        let written: WrittenApp<'_> = object(json)?;
        let member = |value, name| (value, name, json);
        let id = needed(member(written.id, "id"))?;
        if !(1..=APP_ID_BYTES_MAX).contains(&id.len()) || !id.bytes().all(|b| b.is_ascii_digit()) {
            let what = format!("\"id\" is not a text of 1 to {APP_ID_BYTES_MAX} digits.");
            return Err((1, what));
        }
        let key = needed(member(written.key, "key"))?;
        if !(1..=APP_KEY_BYTES_MAX).contains(&key.len()) || !key.bytes().all(is_key_byte) {
            let what = format!(
                "\"key\" is not a text of 1 to {APP_KEY_BYTES_MAX} characters of A-Z a-z 0-9 _ -."
            );
            return Err((1, what));
        }
        let secret = Zeroizing::new(needed(member(written.secret, "secret"))?);
        if !(1..=SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err((1, format!("\"secret\" has not 1 to {SECRET_BYTES_MAX} bytes.")));
        }
        let flag = |value, name, default| flag(member(value, name), default);
        let number = |value, name, most| number(member(value, name), most);
        Ok(App {
            id,
            key,
            is_secret_long: secret.len() >= SECRET_BYTES_MIN,
            secret: Secret::new(secret.as_bytes()),
            is_enabled: flag(written.enabled, "enabled", true)?,
            has_client_events: flag(written.client_events, "client_events", false)?,
            hears_graph: flag(written.graph, "graph", false)?,
            watches_graph: flag(written.graph_watchlist, "graph_watchlist", false)?,
            ids: ids_prefix(member(written.ids, "ids"))?,
            tells_subscription_count: flag(
                written.subscription_count,
                "subscription_count",
                false,
            )?,
            connections_max: number(written.max_connections, "max_connections", u32::MAX)?,
            members_max: number(written.max_members, "max_members", APP_MEMBERS_MAX)?
                .unwrap_or(MEMBERS_MAX),
            event_bytes_max: match number(
                written.max_event_bytes,
                "max_event_bytes",
                APP_EVENT_BYTES_MAX,
            )? {
                Some(bytes) => bytes as usize,
                None => EVENT_DATA_BYTES_MAX,
            },
            events_per_second: number(
                written.max_events_per_second,
                "max_events_per_second",
                u32::MAX,
            )?,
            webhooks: app_webhook::read_all(&written.webhooks.unwrap_or_default(), json)?,
        })
    }

    /// Whether somebody is told who comes to its channels and goes.
    pub fn is_noted(&self) -> bool {
        self.tells_subscription_count || !self.webhooks.is_empty()
    }

    /// The text that is one audience with `channel`, if the app shares that one with ids. What a
    /// subscriber must sign for is shared only `with_signed`: who hears an id is asked for no
    /// signature of the app's.
    pub fn shared_id(&self, channel: Channel<'_>, with_signed: bool) -> Option<String> {
        let ids = self.ids.as_deref().filter(|_| is_shared(channel, with_signed))?;
        Some([ids, channel.name()].concat())
    }

    /// The channel of which `id` is the [shared id](App::shared_id).
    pub fn shared_channel<'i>(&self, id: &'i str, with_signed: bool) -> Option<Channel<'i>> {
        let name = id.strip_prefix(self.ids.as_deref()?)?;
        Channel::parse(name).ok().filter(|&channel| is_shared(channel, with_signed))
    }

    /// What decides of the events that its clients send.
    pub fn event_rules(&self) -> EventRules {
        let (is_allowed, data_bytes_max) = (self.has_client_events, self.event_bytes_max);
        EventRules { is_allowed, data_bytes_max }
    }
}

impl fmt::Debug for App {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let app = &mut formatter.debug_struct("App");
        app.field("id", &self.id).field("key", &self.key).finish_non_exhaustive()
    }
}

/// Whether ids may be one audience with such a channel. The last event of one that is cached is the
/// app's alone, nobody but subscribers can read an encrypted one, and a user's own is no place to
/// meet.
fn is_shared(channel: Channel<'_>, with_signed: bool) -> bool {
    let is_open = match channel.access() {
        Access::Public => true,
        Access::Private | Access::Presence => with_signed,
        Access::Encrypted | Access::User => false,
    };
    is_open && !channel.is_cached()
}

/// What ids begin with: any text that an id may begin with, and none.
fn ids_prefix(place: Place<'_>) -> Result<Option<String>, Fault> {
    let (Some(value), _, json) = place else { return Ok(None) };
    let prefix = needed(place)?;
    let forbidden = |c: char| c.is_control() || c.is_whitespace() || "/?#".contains(c);
    if prefix.len() > APP_IDS_BYTES_MAX || prefix.contains(forbidden) {
        let what = format!(
            "\"ids\" is not a text of at most {APP_IDS_BYTES_MAX} bytes without white space, '/', \
             '?' and '#'."
        );
        return Err((line_of(json, value.get()), what));
    }
    Ok(Some(prefix))
}

/// A key stands in a path and before a colon.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
