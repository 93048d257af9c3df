//! Channels of the Pusher protocol as [keys](hub::Key), and back, and what an event of one looks
//! like.

use std::borrow::Cow;

use hub::{KEY_MARK, Key, Space};
use proto::{Format, Frame};
use pusher::server_frame::{EventFrame, EventText, NAMELESS, PONG};
use pusher::{Channel, USER_PREFIX};

use crate::Event;

/// The key under which the subscribers of `channel` at the app with this id are logged in, and that
/// events of the channel are about.
pub fn channel_key(app: &str, channel: Channel<'_>) -> String {
    let (space, name) = match channel.user() {
        Some(user) => (Space::UserChannel, user),
        None if channel.is_cached() => (Space::CacheChannel, channel.name()),
        None => (Space::Channel, channel.name()),
    };
    Key { space, app, name }.text()
}

/// The key under which all connections are logged in that are signed in as this user of the app.
pub fn user_key(app: &str, user: &str) -> String {
    Key { space: Space::SignedIn, app, name: user }.text()
}

/// What the client calls the channel with this key; `None` of what is no channel.
pub fn channel_name(key: &str) -> Option<Cow<'_, str>> {
    let Key { space, name, .. } = Key::parse(key)?;
    match space {
        Space::Channel | Space::CacheChannel => Some(Cow::Borrowed(name)),
        Space::UserChannel => Some(Cow::Owned([USER_PREFIX, name].concat())),
        _ => None,
    }
}

/// The event as all subscribers of its channel hear it. One about an id is told on no channel by
/// itself: a connection that was to hear it, and is in none any more, hears a sign of life.
pub(crate) fn frame(event: &Event) -> Frame {
    let (about, from) = (event.about(), event.from());
    if !about.starts_with(KEY_MARK) {
        return Format::Pusher.event(event.id(), PONG, event.data());
    }
    let frame = EventFrame {
        name: event.name_json().map_or(EventText::Text(NAMELESS), EventText::Json),
        data: EventText::Json(event.data()),
        user_id: from.as_deref(),
        id: Some(event.id()),
    };
    let channel = channel_name(&about).unwrap_or(Cow::Borrowed(&*about));
    Format::Pusher.event(event.id(), &frame.of_channel(&channel), event.data())
}

#[cfg(test)]
mod tests {
    use hub::{Draft, EventId, EventParts, Payload, Tag};
    use proto::{Carrier, websocket};

    use super::*;

    #[test]
    fn channel_has_a_key_of_its_app_and_its_name_again() {
        for (name, key) in [
            ("rj", "#c1:rj"),
            ("presence-a", "#c1:presence-a"),
            ("private-cache-a", "#k1:private-cache-a"),
            ("#server-to-user-b b", "#u1:b b"),
        ] {
            let channel = Channel::parse(name).unwrap();
            assert_eq!(channel_key("1", channel), key);
            assert_eq!(channel_name(key).as_deref(), Some(name));
        }
        assert_eq!(channel_name(&user_key("1", "bob")), None);
        assert_eq!(channel_name("rj"), None);
    }

    fn text_of(parts: EventParts<'_>) -> String {
        let event: Event = Draft::of_key(parts).unwrap().numbered(EventId::new(7, Tag::of(0)));
        let frame = frame(&event);
        let bytes = frame.for_carrier(Carrier::WebSocket);
        let text = if bytes[1] < 126 { &bytes[2..] } else { &bytes[4..] };
        String::from_utf8(text.to_vec()).unwrap()
    }

    #[test]
    fn event_of_a_channel_is_a_frame_of_the_protocol() {
        let parts = EventParts {
            about: "#c1:private-rj",
            also: &[],
            name: Some("a\"b"),
            from: None,
            payload: Payload::Text("{\"x\":1}"),
        };
        let id = EventId::new(7, Tag::of(0)).to_string();
        assert_eq!(
            text_of(parts).replace(&id, "ID"),
            r#"{"event":"a\"b","channel":"private-rj","data":"{\"x\":1}","id":"ID"}"#
        );
        let of_client = EventParts { from: Some("b b"), payload: Payload::Json("[1]"), ..parts };
        assert_eq!(
            text_of(EventParts { about: "#u1:bob", name: None, ..of_client }).replace(&id, "ID"),
            concat!(
                r##"{"event":"message","channel":"#server-to-user-bob","data":[1],"##,
                r#""user_id":"b b","id":"ID"}"#,
            )
        );
    }

    #[test]
    fn event_about_an_id_is_a_sign_of_life_on_no_channel() {
        let payload = Payload::Json("1");
        let parts = EventParts { about: "rj", also: &[], name: Some("n"), from: None, payload };
        assert_eq!(text_of(parts), PONG);
    }

    #[test]
    fn sign_of_life_is_a_pong_of_the_protocol() {
        let mut pong = Vec::new();
        websocket::push_text(&mut pong, PONG);
        assert_eq!(Format::Pusher.keep_alive(Carrier::WebSocket), pong);
    }
}
