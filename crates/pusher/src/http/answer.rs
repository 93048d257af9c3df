//! What the HTTP API answers, as libraries read it.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::json::text_of;

/// The last event that a cache channel keeps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Cached {
    /// Its data.
    pub data: String,
    /// For how long it is kept still, in seconds.
    pub ttl: u64,
}

/// What is told of a channel: what was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Attributes {
    /// How many users are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_count: Option<u64>,
    /// How many connections hear it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_count: Option<u64>,
    /// What it keeps; `Some(None)` where it keeps nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Option<Cached>>,
}

/// The answer to `GET /channels`: the channels that have subscribers. To a trigger with `info` it
/// is those that the event went to.
pub fn channels(channels: &[(&str, Attributes)]) -> String {
    #[derive(Serialize)]
    struct Body<'b> {
        channels: Map<'b>,
    }
    text_of(&Body { channels: Map(channels) })
}

/// The answer to a trigger. `info` is that of its channels, where it was asked for.
pub fn triggered(info: Option<&[(&str, Attributes)]>) -> String {
    info.map_or_else(|| "{}".to_owned(), channels)
}

/// The answer to a batch: of each event what was asked for, in their order. `{}` where nothing
/// was asked for of any.
pub fn batch(events: &[Option<Attributes>]) -> String {
    #[derive(Serialize)]
    struct Body {
        batch: Vec<Attributes>,
    }
    if events.iter().all(Option::is_none) {
        return "{}".to_owned();
    }
    let batch = events.iter().map(|event| event.clone().unwrap_or_default()).collect();
    text_of(&Body { batch })
}

/// The answer to `GET /channels/{name}`.
pub fn channel(is_occupied: bool, attributes: &Attributes) -> String {
    #[derive(Serialize)]
    struct Body<'b> {
        occupied: bool,
        #[serde(flatten)]
        attributes: &'b Attributes,
    }
    text_of(&Body { occupied: is_occupied, attributes })
}

/// The answer to `GET /channels/{name}/users`.
pub fn users(ids: &[&str]) -> String {
    #[derive(Serialize)]
    struct User<'u> {
        id: &'u str,
    }
    #[derive(Serialize)]
    struct Body<'b> {
        users: Vec<User<'b>>,
    }
    text_of(&Body { users: ids.iter().map(|id| User { id }).collect() })
}

struct Map<'m>(&'m [(&'m str, Attributes)]);

impl Serialize for Map<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        self.0.iter().try_for_each(|(name, attributes)| map.serialize_entry(name, attributes))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users_of(count: u64) -> Attributes {
        Attributes { user_count: Some(count), ..Attributes::default() }
    }

    fn subscribers(count: u64) -> Attributes {
        Attributes { subscription_count: Some(count), ..Attributes::default() }
    }

    #[test]
    fn answers_are_those_of_pusher() {
        let both = [("presence-a", users_of(4)), ("b", subscribers(13))];
        let told = r#"{"channels":{"presence-a":{"user_count":4},"b":{"subscription_count":13}}}"#;
        assert_eq!(triggered(Some(&both)), told);
        assert_eq!(triggered(None), "{}");
        assert_eq!(channels(&[("a", Attributes::default())]), r#"{"channels":{"a":{}}}"#);
        assert_eq!(channels(&[]), r#"{"channels":{}}"#);
        assert_eq!(batch(&[Some(users_of(4)), None]), r#"{"batch":[{"user_count":4},{}]}"#);
        assert_eq!(batch(&[None, None]), "{}");
        assert_eq!(users(&["bob", "10"]), r#"{"users":[{"id":"bob"},{"id":"10"}]}"#);
    }

    #[test]
    fn channel_tells_what_it_keeps_or_null() {
        let kept = Cached { data: "x".to_owned(), ttl: 60 };
        let with = |cache| Attributes { cache, ..subscribers(13) };
        assert_eq!(
            channel(true, &with(Some(Some(kept)))),
            r#"{"occupied":true,"subscription_count":13,"cache":{"data":"x","ttl":60}}"#
        );
        assert_eq!(
            channel(true, &with(Some(None))),
            r#"{"occupied":true,"subscription_count":13,"cache":null}"#
        );
        assert_eq!(channel(false, &Attributes::default()), r#"{"occupied":false}"#);
    }
}
