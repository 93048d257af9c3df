//! Keys: what connections are logged in under beside ids, such as channels of the Pusher protocol.
//!
//! Keys and ids are interned in one dictionary ([`crate::Names`]), and events reach both the same
//! way. No key is an id: its text begins with `#`, which no id may hold, and its [`crate::Id`] has
//! a bit of its own. So no client can name a key where an id is expected, and nobody follows one.
//!
//! ```text
//! #c1:private-rj      the channel `private-rj` of the app 1
//! #t:https://a.test/x the topic `https://a.test/x` of the Mercure protocol
//! ```

/// What every key begins with, and no id holds. It needs no escape in JSON.
pub const KEY_MARK: char = '#';

/// The longest name within a key, in bytes of UTF-8, of which a key has no more than some others.
pub const KEY_NAME_BYTES_MAX: usize = 4096;

/// The longest key, in bytes of UTF-8: a URL pattern stands behind the address it is seen from.
pub const KEY_BYTES_MAX: usize = KEY_NAME_BYTES_MAX + 512;

/// What a key stands for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// A channel.
    Channel,
    /// A channel whose last event is kept for the next subscriber.
    CacheChannel,
    /// What a signed-in user alone hears.
    UserChannel,
    /// Everybody who is signed in as one user.
    SignedIn,
    /// A user as a member of channels.
    Member,
    /// A topic, as everybody hears it.
    Topic,
    /// A topic, as those hear it who are granted it: what is private, too.
    PrivateTopic,
    /// Topics that a pattern matches, as everybody hears them.
    Pattern,
    /// Topics that a pattern matches, as those hear them who are granted that pattern.
    PrivatePattern,
    /// What is private and matched by a selector, for those who have certain grants. Its app is the
    /// number of their list.
    Granted,
    /// No log-in: the channels of an app that somebody hears and the users in them, as the nodes of
    /// a cluster tell each other for webhooks. It has no name.
    Webhooks,
    /// No log-in: who is subscribed at the hub of the Mercure protocol, as the nodes of a cluster
    /// tell each other. It has neither app nor name.
    Subscribers,
}

impl Space {
    /// Each one.
    pub const ALL: [Space; 12] = [
        Space::Channel,
        Space::CacheChannel,
        Space::UserChannel,
        Space::SignedIn,
        Space::Member,
        Space::Topic,
        Space::PrivateTopic,
        Space::Pattern,
        Space::PrivatePattern,
        Space::Granted,
        Space::Webhooks,
        Space::Subscribers,
    ];

    const fn letter(self) -> char {
        match self {
            Space::Channel => 'c',
            Space::CacheChannel => 'k',
            Space::UserChannel => 'u',
            Space::SignedIn => 's',
            Space::Member => 'm',
            Space::Topic => 't',
            Space::PrivateTopic => 'p',
            Space::Pattern => 'r',
            Space::PrivatePattern => 'v',
            Space::Granted => 'g',
            Space::Webhooks => 'w',
            Space::Subscribers => 'h',
        }
    }
}

/// A key in its parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key<'k> {
    /// What it stands for.
    pub space: Space,
    /// The app that it belongs to, by its id, which has no colon. Topics have none.
    pub app: &'k str,
    /// Its name within that.
    pub name: &'k str,
}

impl<'k> Key<'k> {
    /// The key as it is interned and stands in events.
    pub fn text(self) -> String {
        debug_assert!(!self.app.contains(':'), "the name begins behind the first colon");
        let mut text = String::with_capacity(3 + self.app.len() + self.name.len());
        text.push(KEY_MARK);
        text.push(self.space.letter());
        text.push_str(self.app);
        text.push(':');
        text.push_str(self.name);
        text
    }

    /// The parts of a [text](Key::text); `None` of an id.
    pub fn parse(text: &'k str) -> Option<Key<'k>> {
        let mut rest = text.strip_prefix(KEY_MARK)?.chars();
        let letter = rest.next()?;
        let space = Space::ALL.into_iter().find(|space| space.letter() == letter)?;
        let (app, name) = rest.as_str().split_once(':')?;
        Some(Key { space, app, name })
    }
}

/// Whether `text` is a key, and no id.
pub(crate) fn is_key(text: &str) -> bool {
    text.starts_with(KEY_MARK)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::IdText;

    #[test]
    fn key_is_read_as_it_was_made_and_is_no_id() {
        for space in Space::ALL {
            for (app, name) in [("1", "private-rj"), ("", "b b"), ("77", "a:b"), ("1", "")] {
                let key = Key { space, app, name };
                let text = key.text();
                assert_eq!(Key::parse(&text), Some(key));
                assert!(IdText::parse(&text).is_err(), "{text} is no id");
                assert_eq!(IdText::of_key(&text), Ok(IdText::Name(&text)));
            }
        }
        assert_eq!(Key { space: Space::Channel, app: "1", name: "rj" }.text(), "#c1:rj");
        for other in ["", "rj", "1:rj", "#", "#c", "#c1", "#x1:rj", "c1:rj"] {
            assert_eq!(Key::parse(other), None, "{other}");
        }
    }
}
