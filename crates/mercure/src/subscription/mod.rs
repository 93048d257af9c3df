//! Who is subscribed: the documents that are published at each beginning and end of a subscription,
//! and the API that lists them.

mod path;

pub use path::SubscriptionPath;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Dialect, MatchType};

/// The context of JSON-LD documents of the old dialect.
const CONTEXT: &str = "https://mercure.rocks/";

/// A selector that a connection listens to, in the dialect of that connection.
#[derive(Clone, Debug)]
pub struct Subscription<'s> {
    /// Where it is found; an update about it has this topic and this id.
    pub path: SubscriptionPath<'s>,
    /// Whether it has begun, or ended.
    pub is_active: bool,
    /// What its token tells of the subscriber.
    pub payload: Option<&'s RawValue>,
}

#[derive(Serialize)]
struct OldDocument<'s> {
    #[serde(rename = "@context", skip_serializing_if = "Option::is_none")]
    context: Option<&'static str>,
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    topic: &'s str,
    subscriber: &'s str,
    active: bool,
    #[serde(rename = "lastEventID", skip_serializing_if = "Option::is_none")]
    last_event_id: Option<&'s str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'s RawValue>,
}

#[derive(Serialize)]
struct Document<'s> {
    id: String,
    #[serde(rename = "type")]
    kind: &'static str,
    match_type: &'static str,
    #[serde(rename = "match")]
    text: &'s str,
    subscriber: &'s str,
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'s RawValue>,
}

#[derive(Serialize)]
struct OldCollection<'s> {
    #[serde(rename = "@context")]
    context: &'static str,
    id: &'s str,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(rename = "lastEventID")]
    last_event_id: &'s str,
    subscriptions: [(); 0],
}

#[derive(Serialize)]
struct Collection<'s> {
    id: &'s str,
    #[serde(rename = "type")]
    kind: &'static str,
    subscriptions: [(); 0],
}

impl<'s> Subscription<'s> {
    /// The data of the update about it.
    pub fn json(&self) -> String {
        match self.path.dialect() {
            Dialect::Old => json(&self.old(Some(CONTEXT), None)),
            Dialect::V1 => json(&self.document()),
        }
    }

    /// What `GET` of its path answers. `last_event_id` is that of the hub's last update, or
    /// [`crate::EARLIEST`].
    pub fn answer(&self, last_event_id: &str) -> String {
        match self.path.dialect() {
            Dialect::Old => json(&self.old(Some(CONTEXT), Some(last_event_id))),
            Dialect::V1 => json(&self.document()),
        }
    }

    /// The subscription in a [`collection`].
    pub fn listed(&self) -> String {
        match self.path.dialect() {
            Dialect::Old => json(&self.old(None, None)),
            Dialect::V1 => json(&self.document()),
        }
    }

    fn old<'d>(
        &'d self,
        context: Option<&'static str>,
        last_event_id: Option<&'d str>,
    ) -> OldDocument<'d> {
        OldDocument {
            context,
            id: self.path.to_string(),
            kind: "Subscription",
            topic: self.path.text().unwrap_or_default(),
            subscriber: self.path.subscriber().unwrap_or_default(),
            active: self.is_active,
            last_event_id,
            payload: self.payload,
        }
    }

    fn document(&self) -> Document<'_> {
        Document {
            id: self.path.to_string(),
            kind: "subscription",
            match_type: self.path.match_type().unwrap_or(MatchType::Exact).name(),
            text: self.path.text().unwrap_or_default(),
            subscriber: self.path.subscriber().unwrap_or_default(),
            active: self.is_active,
            payload: self.payload,
        }
    }
}

/// What `GET` of a path with several subscriptions answers: what stands before them, and behind
/// them. Each is [listed](Subscription::listed) between the two, with commas. Those of the path's
/// own dialect are: another one's have no form in it.
pub fn collection(path: &SubscriptionPath<'_>, last_event_id: &str) -> (String, &'static str) {
    let id = path.to_string();
    let mut head = match path.dialect() {
        Dialect::Old => json(&OldCollection {
            context: CONTEXT,
            id: &id,
            kind: "Subscriptions",
            last_event_id,
            subscriptions: [(); 0],
        }),
        Dialect::V1 => json(&Collection { id: &id, kind: "subscriptions", subscriptions: [(); 0] }),
    };
    let foot = "]}";
    debug_assert!(head.ends_with(foot), "the list stands last");
    head.truncate(head.len() - foot.len());
    (head, foot)
}

/// The content type of both kinds of answer.
pub const fn subscriptions_content_type(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Old => "application/ld+json",
        Dialect::V1 => "application/json",
    }
}

/// The value of `ETag`. 1.0 writes it as RFC 9110 has it, the old dialect without quotes.
pub fn etag(dialect: Dialect, last_event_id: &str) -> String {
    match dialect {
        Dialect::Old => last_event_id.to_owned(),
        Dialect::V1 => format!("\"{}\"", inside_of_tag(dialect, last_event_id)),
    }
}

fn inside_of_tag(dialect: Dialect, last_event_id: &str) -> String {
    match dialect {
        Dialect::Old => last_event_id.to_owned(),
        // A quote would end the tag.
        Dialect::V1 => last_event_id.replace('"', "%22"),
    }
}

/// Whether the value of `If-None-Match` says that the client has the present answer: 304. Quotes
/// and `W/` may be there, or not, in both dialects.
pub fn is_not_modified(if_none_match: &str, dialect: Dialect, last_event_id: &str) -> bool {
    let tag = inside_of_tag(dialect, last_event_id);
    let is_same = |given: &str| {
        let given = given.trim();
        let given = given.strip_prefix("W/").unwrap_or(given);
        let inside = given.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        given == tag || inside == Some(&*tag)
    };
    let value = if_none_match.trim();
    value == "*" || is_same(value) || value.split(',').any(is_same)
}

fn json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("texts and flags have a form in JSON")
}
