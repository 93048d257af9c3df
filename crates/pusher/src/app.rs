//! One app, as it is written in the file of apps.
//!
//! A fault names the member, and never says what is in it: it may be the secret, in a wrong place.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use zeroize::Zeroizing;

use crate::client_event::EventRules;
use crate::limits::{
    APP_EVENT_BYTES_MAX, APP_ID_BYTES_MAX, APP_KEY_BYTES_MAX, APP_MEMBERS_MAX,
    EVENT_DATA_BYTES_MAX, MEMBERS_MAX, SECRET_BYTES_MAX, SECRET_BYTES_MIN, WEBHOOK_URL_BYTES_MAX,
    WEBHOOK_URLS_MAX,
};
use crate::signature::Secret;

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
    /// Whether subscribers hear how many they are.
    pub tells_subscription_count: bool,
    /// How many connections it may have.
    pub connections_max: Option<u32>,
    /// How many members a presence channel may have.
    pub members_max: u32,
    /// The longest data of an event, in bytes.
    pub event_bytes_max: usize,
    /// Where its webhooks go.
    pub webhook_urls: Vec<String>,
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
    subscription_count: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_connections: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_members: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_event_bytes: Option<&'a RawValue>,
    #[serde(borrow, default)]
    webhooks: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWebhook<'a> {
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
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
            webhook_urls: webhooks(written.webhooks.unwrap_or_default(), json)?,
        })
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

/// A member, its name, and the JSON in which it stands.
type Place<'a> = (Option<&'a RawValue>, &'static str, &'a str);

/// What cannot be read: the line, and why.
type Fault = (usize, String);

/// Reads an object of ours. The library's words name a member, and nothing of what is in one.
fn object<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Fault> {
    if !json.starts_with('{') {
        return Err((1, "This is not an object.".to_owned()));
    }
    serde_json::from_str(json).map_err(|error| {
        let words = error.to_string();
        let at = words.rfind(" at line ").unwrap_or(words.len());
        let what = match words.starts_with("unknown field") || words.starts_with("duplicate field")
        {
            true => &words[..at],
            false => "a member is not what it should be",
        };
        (error.line(), format!("This object cannot be read: {what}."))
    })
}

fn needed(place: Place<'_>) -> Result<String, Fault> {
    let (Some(value), name, json) = place else {
        return Err((1, format!("\"{}\" is missing.", place.1)));
    };
    let fault = |_| (line_of(json, value.get()), format!("\"{name}\" is not a text."));
    serde_json::from_str(value.get()).map_err(fault)
}

fn flag((value, name, json): Place<'_>, default: bool) -> Result<bool, Fault> {
    match value.map(RawValue::get) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(value) => Err((line_of(json, value), format!("\"{name}\" is not true or false."))),
    }
}

fn number((value, name, json): Place<'_>, most: u32) -> Result<Option<u32>, Fault> {
    let Some(value) = value.map(RawValue::get) else { return Ok(None) };
    match value.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(Some(number)),
        _ => Err((
            line_of(json, value),
            format!("\"{name}\" is not a whole number from 1 to {most}."),
        )),
    }
}

fn webhooks(list: Vec<&RawValue>, json: &str) -> Result<Vec<String>, Fault> {
    if list.len() > WEBHOOK_URLS_MAX {
        let line = line_of(json, list[0].get());
        return Err((line, format!("\"webhooks\" has more than {WEBHOOK_URLS_MAX} addresses.")));
    }
    let one = |webhook: &RawValue| {
        let line = line_of(json, webhook.get());
        let below = |(lines, what): Fault| (line + lines - 1, what);
        let WrittenWebhook { url } = object(webhook.get()).map_err(below)?;
        let url = needed((url, "url", webhook.get())).map_err(below)?;
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let has_host = host.is_some_and(|host| !host.is_empty() && !host.starts_with('/'));
        let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic());
        match has_host && is_plain && url.len() <= WEBHOOK_URL_BYTES_MAX {
            true => Ok(url),
            false => Err((line, "\"url\" is not an address of http:// or https://.".to_owned())),
        }
    };
    list.into_iter().map(one).collect()
}

/// In which line of `text`, from 1, its part `part` begins.
pub(crate) fn line_of(text: &str, part: &str) -> usize {
    let at = (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize).min(text.len());
    1 + text.as_bytes()[..at].iter().filter(|&&byte| byte == b'\n').count()
}

/// A key stands in a path and before a colon.
fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}
