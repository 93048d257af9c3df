//! The webhooks of an app, as the file of apps has them: where they go, and which events.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::limits::{WEBHOOK_URL_BYTES_MAX, WEBHOOK_URLS_MAX};
use crate::webhook::{WebhookEvent, WebhookKind};
use crate::written::{Fault, line_of, needed, object};

/// One webhook.
#[derive(Clone, PartialEq, Eq)]
pub struct AppWebhook {
    /// Where it is, as it is written. Whether anything can be posted there, whoever posts says.
    pub url: String,
    /// A bit for each [kind](WebhookKind) that it hears of.
    kinds: u8,
    /// What the names of its channels begin with, and end with.
    starts_with: String,
    ends_with: String,
}

impl fmt::Debug for AppWebhook {
    /// Path and query of its address may be secrets, so it is left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AppWebhook")
            .field("kinds", &self.kinds)
            .field("starts_with", &self.starts_with)
            .field("ends_with", &self.ends_with)
            .finish_non_exhaustive()
    }
}

impl AppWebhook {
    /// Whether it is told of `event`.
    pub fn hears(&self, event: &WebhookEvent<'_>) -> bool {
        self.hears_of(event.kind(), event.channel())
    }

    /// Whether it is told of events of this kind in `channel`.
    pub fn hears_of(&self, kind: WebhookKind, channel: &str) -> bool {
        self.kinds & bit(kind) != 0
            && channel.starts_with(&self.starts_with)
            && channel.ends_with(&self.ends_with)
    }
}

fn bit(kind: WebhookKind) -> u8 {
    1 << kind as u8
}

const ALL_KINDS: u8 = (1 << WebhookKind::ALL.len()) - 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenWebhook<'a> {
    #[serde(borrow, default)]
    url: Option<&'a RawValue>,
    #[serde(borrow, default)]
    event_types: Option<&'a RawValue>,
    #[serde(borrow, default)]
    filter: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenFilter<'a> {
    #[serde(borrow, default)]
    channel_name_starts_with: Option<&'a RawValue>,
    #[serde(borrow, default)]
    channel_name_ends_with: Option<&'a RawValue>,
}

/// Reads those of an app, which stand in `json`.
pub(crate) fn read_all(list: &[&RawValue], json: &str) -> Result<Vec<AppWebhook>, Fault> {
    if list.len() > WEBHOOK_URLS_MAX {
        let line = line_of(json, list[0].get());
        return Err((line, format!("\"webhooks\" has more than {WEBHOOK_URLS_MAX} addresses.")));
    }
    let one = |webhook: &&RawValue| {
        let line = line_of(json, webhook.get());
        read(webhook.get()).map_err(|(lines, what)| (line + lines - 1, what))
    };
    list.iter().map(one).collect()
}

fn read(json: &str) -> Result<AppWebhook, Fault> {
    let WrittenWebhook { url, event_types, filter } = object(json)?;
    let line = line_of(json, url.map_or(json, RawValue::get));
    let url = needed((url, "url", json))?;
    if url.len() > WEBHOOK_URL_BYTES_MAX {
        return Err((line, format!("\"url\" is longer than {WEBHOOK_URL_BYTES_MAX} bytes.")));
    }
    let kinds = match event_types {
        Some(types) => read_kinds(types).map_err(|what| (line_of(json, types.get()), what))?,
        None => ALL_KINDS,
    };
    let filter = filter.map_or("{}", RawValue::get);
    let below = |(lines, what): Fault| (line_of(json, filter) + lines - 1, what);
    let WrittenFilter { channel_name_starts_with, channel_name_ends_with } =
        object(filter).map_err(below)?;
    let text = |value: Option<&RawValue>, name| match value {
        Some(_) => needed((value, name, json)),
        None => Ok(String::new()),
    };
    Ok(AppWebhook {
        url,
        kinds,
        starts_with: text(channel_name_starts_with, "channel_name_starts_with")?,
        ends_with: text(channel_name_ends_with, "channel_name_ends_with")?,
    })
}

/// The kinds with these names, as bits.
fn read_kinds(types: &RawValue) -> Result<u8, String> {
    let fault = || {
        let names: Vec<&str> = WebhookKind::ALL.iter().map(|(_, name)| *name).collect();
        format!("\"event_types\" is not a list with some of {}.", names.join(", "))
    };
    let names: Vec<String> = serde_json::from_str(types.get()).map_err(|_| fault())?;
    let known = |name: &String| WebhookKind::ALL.iter().find(|(_, known)| known == name);
    let kinds = names.iter().map(|name| known(name).map(|(kind, _)| bit(*kind)));
    let kinds: Option<Vec<u8>> = kinds.collect();
    let kinds = kinds.ok_or_else(fault)?;
    Ok(kinds.into_iter().fold(0, |all, kind| all | kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_hears_the_kinds_and_the_channels_that_it_names() {
        let event = |channel| WebhookEvent::ChannelOccupied { channel };
        let all = read(r#"{"url":"https://a.test/"}"#).unwrap();
        assert!(
            all.hears(&event("a")) && all.hears(&WebhookEvent::CacheMiss { channel: "cache-a" })
        );
        let some = r#"{"url":"https://a.test/","event_types":["channel_occupied","client_event"],
            "filter":{"channel_name_starts_with":"private-","channel_name_ends_with":"-x"}}"#;
        let some = read(some).unwrap();
        assert!(some.hears(&event("private-a-x")));
        for other in ["private-a", "a-x", ""] {
            assert!(!some.hears(&event(other)), "{other}");
        }
        assert!(!some.hears(&WebhookEvent::ChannelVacated { channel: "private-a-x" }));
        let secret = read(r#"{"url":"https://a.test/s3cret?k=s3cret"}"#).unwrap();
        assert!(!format!("{secret:?}").contains("s3cret"), "{secret:?}");
        let long = "x".repeat(WEBHOOK_URL_BYTES_MAX + 1);
        let (line, what) = read(&format!("{{\n\"url\":\"{long}\"}}")).unwrap_err();
        assert!(line == 2 && what.contains("longer than 2048 bytes"), "{line}: {what}");
        let (line, what) = read("{\n\"url\":\"https://a.test\",\n\"filter\":1}").unwrap_err();
        assert!(line == 3 && what.contains("not an object"), "{line}: {what}");
    }
}
