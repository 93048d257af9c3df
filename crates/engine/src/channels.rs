//! Channels of the Pusher protocol as [keys](hub::Key), and back.

use std::borrow::Cow;

use hub::{Key, Space};
use pusher::{Channel, USER_PREFIX};

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
pub(crate) fn channel_name(key: &str) -> Option<Cow<'_, str>> {
    let Key { space, name, .. } = Key::parse(key)?;
    match space {
        Space::Channel | Space::CacheChannel => Some(Cow::Borrowed(name)),
        Space::UserChannel => Some(Cow::Owned([USER_PREFIX, name].concat())),
        Space::SignedIn | Space::Member => None,
    }
}

#[cfg(test)]
mod tests {
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
}
