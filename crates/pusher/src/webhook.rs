//! Webhooks: what an app's backend is told of its channels, and how that is signed.
//!
//! The body is signed as it is sent. Libraries compare the type of its content to the letter.

use serde::Serialize;

use crate::json::text_of;
use crate::signature::Secret;

/// The header with the app's key.
pub const KEY_HEADER: &str = "X-Pusher-Key";
/// The header with the signature of the body.
pub const SIGNATURE_HEADER: &str = "X-Pusher-Signature";

/// Something that has happened.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum WebhookEvent<'e> {
    /// A channel has its first subscriber.
    ChannelOccupied {
        /// The channel.
        channel: &'e str,
    },
    /// A channel has lost its last subscriber.
    ChannelVacated {
        /// The channel.
        channel: &'e str,
    },
    /// Somebody has subscribed to a cache channel that keeps nothing.
    CacheMiss {
        /// The channel.
        channel: &'e str,
    },
    /// A user has come.
    MemberAdded {
        /// The channel.
        channel: &'e str,
        /// The user.
        user_id: &'e str,
    },
    /// A user has gone.
    MemberRemoved {
        /// The channel.
        channel: &'e str,
        /// The user.
        user_id: &'e str,
    },
    /// A client has sent an event.
    ClientEvent {
        /// The channel.
        channel: &'e str,
        /// The event's name.
        event: &'e str,
        /// Its data as [`plain_text`](crate::plain_text): Go's library takes nothing else.
        data: &'e str,
        /// The sender's connection.
        socket_id: &'e str,
        /// The sender, on presence channels.
        #[serde(skip_serializing_if = "Option::is_none")]
        user_id: Option<&'e str>,
    },
    /// The number of subscribers is another one.
    SubscriptionCount {
        /// The channel.
        channel: &'e str,
        /// How many there are.
        subscription_count: u64,
    },
}

/// The kinds of [`WebhookEvent`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WebhookKind {
    /// A channel has its first subscriber.
    ChannelOccupied = 0,
    /// A channel has lost its last one.
    ChannelVacated = 1,
    /// A cache channel keeps nothing.
    CacheMiss = 2,
    /// A user has come.
    MemberAdded = 3,
    /// A user has gone.
    MemberRemoved = 4,
    /// A client has sent an event.
    ClientEvent = 5,
    /// The number of subscribers is another one.
    SubscriptionCount = 6,
}

impl WebhookKind {
    /// Each one with its name, at its number.
    pub const ALL: [(WebhookKind, &'static str); 7] = [
        (WebhookKind::ChannelOccupied, "channel_occupied"),
        (WebhookKind::ChannelVacated, "channel_vacated"),
        (WebhookKind::CacheMiss, "cache_miss"),
        (WebhookKind::MemberAdded, "member_added"),
        (WebhookKind::MemberRemoved, "member_removed"),
        (WebhookKind::ClientEvent, "client_event"),
        (WebhookKind::SubscriptionCount, "subscription_count"),
    ];
}

impl WebhookEvent<'_> {
    /// Which kind it is.
    pub fn kind(&self) -> WebhookKind {
        match self {
            WebhookEvent::ChannelOccupied { .. } => WebhookKind::ChannelOccupied,
            WebhookEvent::ChannelVacated { .. } => WebhookKind::ChannelVacated,
            WebhookEvent::CacheMiss { .. } => WebhookKind::CacheMiss,
            WebhookEvent::MemberAdded { .. } => WebhookKind::MemberAdded,
            WebhookEvent::MemberRemoved { .. } => WebhookKind::MemberRemoved,
            WebhookEvent::ClientEvent { .. } => WebhookKind::ClientEvent,
            WebhookEvent::SubscriptionCount { .. } => WebhookKind::SubscriptionCount,
        }
    }

    /// The channel in which it has happened.
    pub fn channel(&self) -> &str {
        match self {
            WebhookEvent::ChannelOccupied { channel }
            | WebhookEvent::ChannelVacated { channel }
            | WebhookEvent::CacheMiss { channel }
            | WebhookEvent::MemberAdded { channel, .. }
            | WebhookEvent::MemberRemoved { channel, .. }
            | WebhookEvent::ClientEvent { channel, .. }
            | WebhookEvent::SubscriptionCount { channel, .. } => channel,
        }
    }

    /// The event as it stands in a body.
    pub fn json(&self) -> String {
        text_of(self)
    }
}

/// What stands before the events of a body that is sent at `time_ms`, and is closed by
/// [`BODY_TAIL`]. Between two events stands a comma.
pub fn body_head(time_ms: u64) -> String {
    format!("{{\"time_ms\":{time_ms},\"events\":[")
}

/// What stands behind the events of a body.
pub const BODY_TAIL: &str = "]}";

/// The signature of a body.
pub fn signature(secret: &Secret, body: &[u8]) -> String {
    secret.sign(&[body])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_those_of_pusher() {
        let (channel, user_id) = ("presence-a", "bob");
        let data = &crate::plain_text(r#"{"a": 1}"#);
        let event = |user_id| {
            let (event, socket_id) = ("client-typing", "4711.815");
            WebhookEvent::ClientEvent { channel, event, data, socket_id, user_id }
        };
        for (event, json) in [
            (
                WebhookEvent::ChannelOccupied { channel },
                r#"{"name":"channel_occupied","channel":"presence-a"}"#,
            ),
            (
                WebhookEvent::ChannelVacated { channel },
                r#"{"name":"channel_vacated","channel":"presence-a"}"#,
            ),
            (
                WebhookEvent::CacheMiss { channel },
                r#"{"name":"cache_miss","channel":"presence-a"}"#,
            ),
            (
                WebhookEvent::MemberAdded { channel, user_id },
                r#"{"name":"member_added","channel":"presence-a","user_id":"bob"}"#,
            ),
            (
                WebhookEvent::MemberRemoved { channel, user_id },
                r#"{"name":"member_removed","channel":"presence-a","user_id":"bob"}"#,
            ),
            (
                event(Some("bob")),
                concat!(
                    r#"{"name":"client_event","channel":"presence-a","event":"client-typing","#,
                    r#""data":"{\"a\": 1}","socket_id":"4711.815","user_id":"bob"}"#,
                ),
            ),
            (
                event(None),
                concat!(
                    r#"{"name":"client_event","channel":"presence-a","event":"client-typing","#,
                    r#""data":"{\"a\": 1}","socket_id":"4711.815"}"#,
                ),
            ),
            (
                WebhookEvent::SubscriptionCount { channel, subscription_count: 13 },
                r#"{"name":"subscription_count","channel":"presence-a","subscription_count":13}"#,
            ),
        ] {
            assert_eq!(event.json(), json);
            let (kind, name) = WebhookKind::ALL[event.kind() as usize];
            assert_eq!((kind, event.channel()), (event.kind(), channel));
            assert!(json.starts_with(&format!(r#"{{"name":"{name}""#)), "{json}");
        }
        let body = [&*body_head(7), "{}", BODY_TAIL].concat();
        assert_eq!(body, r#"{"time_ms":7,"events":[{}]}"#);
    }
}
