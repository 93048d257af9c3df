//! Names of channels, and what their prefixes say.

use thiserror::Error;

use crate::limits::{CHANNEL_BYTES_MAX, USER_ID_CHARS_MAX};

/// What the name of a signed-in user's own channel begins with.
pub const USER_PREFIX: &str = "#server-to-user-";

/// The prefixes that say something. The longer ones stand first: each is a beginning of another.
const PREFIXES: [(&str, Access, bool); 7] = [
    ("private-encrypted-cache-", Access::Encrypted, true),
    ("private-encrypted-", Access::Encrypted, false),
    ("private-cache-", Access::Private, true),
    ("private-", Access::Private, false),
    ("presence-cache-", Access::Presence, true),
    ("presence-", Access::Presence, false),
    ("cache-", Access::Public, true),
];

/// Who may subscribe to a channel, and what else that means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Access {
    /// Everybody.
    Public,
    /// Whoever shows a signature of the app's secret.
    Private,
    /// Whoever may subscribe to a private one; the server cannot read the events.
    Encrypted,
    /// Whoever shows a signature, as a member whom the others see.
    Presence,
    /// The connections that are signed in as one user.
    User,
}

impl Access {
    /// Whether a subscriber must show a signature.
    pub const fn is_signed(self) -> bool {
        matches!(self, Access::Private | Access::Encrypted | Access::Presence)
    }

    /// Whether clients may send events there, if the app lets them. Of encrypted ones pusher-js
    /// refuses to.
    pub const fn takes_client_events(self) -> bool {
        matches!(self, Access::Private | Access::Presence)
    }
}

/// The name of a channel that is well formed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Channel<'n> {
    name: &'n str,
    access: Access,
    cached: bool,
}

/// Why a text is no name of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ChannelFault {
    /// It has no character.
    #[error("The name of a channel is empty.")]
    Empty,
    /// It is longer than any library sends one.
    #[error("The name of a channel has more than {CHANNEL_BYTES_MAX} characters.")]
    TooLong,
    /// Something in it is not allowed.
    #[error("The name of a channel has characters other than A-Z a-z 0-9 _ - = @ , . ;")]
    Character,
    /// It begins with `#`, and is no channel of a user.
    #[error("Only #server-to-user-ID begins with #, with an ID of 1 to 128 characters.")]
    Reserved,
}

impl<'n> Channel<'n> {
    /// Reads a name.
    ///
    /// # Errors
    /// It is none; the client that named it should hear so.
    pub fn parse(name: &'n str) -> Result<Channel<'n>, ChannelFault> {
        if name.is_empty() {
            return Err(ChannelFault::Empty);
        }
        if name.starts_with('#') {
            let id = name.strip_prefix(USER_PREFIX).ok_or(ChannelFault::Reserved)?;
            return match is_user_id(id) {
                true => Ok(Channel { name, access: Access::User, cached: false }),
                false => Err(ChannelFault::Reserved),
            };
        }
        if name.len() > CHANNEL_BYTES_MAX {
            return Err(ChannelFault::TooLong);
        }
        if !name.bytes().all(is_name_byte) {
            return Err(ChannelFault::Character);
        }
        let known = PREFIXES.iter().find(|(prefix, ..)| name.starts_with(prefix));
        let (access, cached) =
            known.map_or((Access::Public, false), |&(_, access, cached)| (access, cached));
        Ok(Channel { name, access, cached })
    }

    /// The name as it was given.
    pub fn name(self) -> &'n str {
        self.name
    }

    /// Who may subscribe to it.
    pub fn access(self) -> Access {
        self.access
    }

    /// Whether its last event is kept for the next subscriber.
    pub fn is_cached(self) -> bool {
        self.cached
    }

    /// Whose own channel it is.
    pub fn user(self) -> Option<&'n str> {
        self.name.strip_prefix(USER_PREFIX)
    }

    /// Whether its subscribers are told how many they are: a presence channel has its list.
    pub fn has_subscription_count(self) -> bool {
        !matches!(self.access, Access::Presence)
    }
}

/// Whether `id` may be a user's. What a terminal or a log would stumble over is none.
pub fn is_user_id(id: &str) -> bool {
    !id.is_empty()
        && id.chars().take(USER_ID_CHARS_MAX + 1).count() <= USER_ID_CHARS_MAX
        && !id.chars().any(char::is_control)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'=' | b'@' | b',' | b'.' | b';')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_decides_the_kind() {
        use Access::{Encrypted, Presence, Private, Public, User};
        for (name, access, cached) in [
            ("rj", Public, false),
            ("cache-rj", Public, true),
            ("cache", Public, false),
            ("private-rj", Private, false),
            ("private-", Private, false),
            ("private", Public, false),
            ("private-cache-rj", Private, true),
            ("private-encrypted-rj", Encrypted, false),
            ("private-encrypted-cache-rj", Encrypted, true),
            ("presence-rj", Presence, false),
            ("presence-cache-rj", Presence, true),
            ("Private-rj", Public, false),
            ("#server-to-user-bob", User, false),
            ("#server-to-user-Ünal", User, false),
            ("a_-=@,.;Z9", Public, false),
        ] {
            let channel = Channel::parse(name).unwrap();
            assert_eq!((channel.access(), channel.is_cached()), (access, cached), "{name}");
            assert_eq!(channel.name(), name);
        }
        assert_eq!(Channel::parse("#server-to-user-bob").unwrap().user(), Some("bob"));
        assert_eq!(Channel::parse("server-to-user-bob").unwrap().user(), None);
    }

    #[test]
    fn name_with_a_fault_is_refused() {
        for (name, fault) in [
            ("", ChannelFault::Empty),
            ("a b", ChannelFault::Character),
            ("1:rj", ChannelFault::Character),
            ("a/b", ChannelFault::Character),
            ("ü", ChannelFault::Character),
            ("a\n", ChannelFault::Character),
            ("#rj", ChannelFault::Reserved),
            ("#server-to-user-", ChannelFault::Reserved),
            ("#server-to-user-a\n", ChannelFault::Reserved),
        ] {
            assert_eq!(Channel::parse(name), Err(fault), "{name:?}");
        }
        assert!(Channel::parse(&"a".repeat(200)).is_ok());
        assert_eq!(Channel::parse(&"a".repeat(201)), Err(ChannelFault::TooLong));
        let user = |length| format!("{USER_PREFIX}{}", "ü".repeat(length));
        assert!(Channel::parse(&user(128)).is_ok());
        assert_eq!(Channel::parse(&user(129)), Err(ChannelFault::Reserved));
    }
}
