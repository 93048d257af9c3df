//! Signatures of an app's secret: HMAC-SHA256 in hexadecimal digits, compared in constant time.
//!
//! Cost: a signature of a short text is two to four blocks of SHA-256, some hundred nanoseconds.
//! The key is prepared once, when the app is read, and its text is kept nowhere.

use std::fmt;

use aws_lc_rs::hmac;

use crate::socket_id::SocketId;

/// Digits of a signature.
const DIGITS: usize = 64;

/// An app's secret, ready to sign.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl Secret {
    /// The secret with these bytes.
    pub fn new(bytes: &[u8]) -> Secret {
        Secret(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The signature of all `parts` together.
    pub fn sign(&self, parts: &[&[u8]]) -> String {
        hex(self.tag(parts).as_ref())
    }

    /// Whether `signature` is that of all `parts` together. How long it takes says nothing of how
    /// much of it is right.
    pub fn has_signed(&self, parts: &[&[u8]], signature: &str) -> bool {
        let Some(given) = unhex(signature) else { return false };
        constant_time_eq(self.tag(parts).as_ref(), &given)
    }

    fn tag(&self, parts: &[&[u8]]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.0);
        parts.iter().for_each(|part| context.update(part));
        context.sign()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(secret)")
    }
}

/// What an app signs for one of its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signed<'s> {
    /// A right to subscribe to a channel.
    Channel {
        /// The channel's name.
        channel: &'s str,
        /// What it says of the member, as it was sent; `None` where that is not signed.
        channel_data: Option<&'s str>,
    },
    /// A connection's user.
    User {
        /// What it says of the user, as it was sent.
        user_data: &'s str,
    },
}

/// The app's key and a signature, as clients show them: `KEY:SIGNATURE`.
#[derive(Clone, Copy, Debug)]
pub struct Auth<'a> {
    /// The key of the app that has signed.
    pub key: &'a str,
    signature: &'a str,
}

impl<'a> Auth<'a> {
    /// Takes it apart; `None` where there is no colon.
    pub fn parse(text: &'a str) -> Option<Auth<'a>> {
        let (key, signature) = text.rsplit_once(':')?;
        Some(Auth { key, signature })
    }

    /// Whether `secret` has signed `what` for the connection `socket`.
    pub fn is_of(self, secret: &Secret, socket: SocketId, what: Signed<'_>) -> bool {
        let socket = socket.to_string();
        secret.has_signed(&what.parts(&socket), self.signature)
    }
}

impl<'s> Signed<'s> {
    /// The text that is signed. A part without bytes adds nothing.
    fn parts(self, socket: &'s str) -> [&'s [u8]; 5] {
        let [separator, first, second, third] = match self {
            Signed::Channel { channel, channel_data: None } => [":", channel, "", ""],
            Signed::Channel { channel, channel_data: Some(data) } => [":", channel, ":", data],
            Signed::User { user_data } => ["::user::", user_data, "", ""],
        };
        [socket, separator, first, second, third].map(str::as_bytes)
    }

    /// What the app of `key` shows for it: the answer of an endpoint that signs.
    pub fn auth(self, key: &str, secret: &Secret, socket: SocketId) -> String {
        let socket = socket.to_string();
        format!("{key}:{}", secret.sign(&self.parts(&socket)))
    }
}

/// `bytes` in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of a signature's digits, of either case.
fn unhex(text: &str) -> Option<[u8; DIGITS / 2]> {
    let digits = text.as_bytes();
    if digits.len() != DIGITS {
        return None;
    }
    let mut bytes = [0; DIGITS / 2];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let value = digit(pair[0])? << 4 | digit(pair[1])?;
        *byte = u8::try_from(value).ok()?;
    }
    Some(bytes)
}

fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(a, b).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOCKET: SocketId = SocketId { first: 4711, second: 815 };

    fn signed(what: Signed<'_>) -> String {
        what.auth("encke-app-key", &Secret::new(b"encke-app-secret"), SOCKET)
    }

    #[test]
    fn signature_holds_for_its_socket_secret_and_text_alone() {
        let secret = Secret::new(b"encke-app-secret");
        let what = Signed::Channel { channel: "private-rj", channel_data: None };
        let text = signed(what);
        let auth = Auth::parse(&text).unwrap();
        assert_eq!(auth.key, "encke-app-key");
        assert!(auth.is_of(&secret, SOCKET, what));
        assert!(!auth.is_of(&secret, SocketId { first: 4711, second: 816 }, what));
        assert!(!auth.is_of(&Secret::new(b"encke-app-secres"), SOCKET, what));
        let other = Signed::Channel { channel: "private-r", channel_data: None };
        assert!(!auth.is_of(&secret, SOCKET, other));
        let data = Signed::Channel { channel: "private-rj", channel_data: Some("") };
        assert!(!auth.is_of(&secret, SOCKET, data), "the colon is signed, too");
        assert!(!auth.is_of(&secret, SOCKET, Signed::User { user_data: "private-rj" }));
    }

    #[test]
    fn damaged_signature_is_refused_wherever_the_damage_is() {
        let secret = Secret::new(b"encke-app-secret");
        let what = Signed::User { user_data: r#"{"id":"bob"}"# };
        let text = signed(what);
        let is_taken =
            |text: &str| Auth::parse(text).is_some_and(|auth| auth.is_of(&secret, SOCKET, what));
        let digits = "encke-app-key:".len()..text.len();
        assert!(is_taken(&text));
        assert!(is_taken(&format!("encke-app-key:{}", text[digits.clone()].to_uppercase())));
        for at in digits {
            let mut damaged = text.clone().into_bytes();
            damaged[at] = if damaged[at] == b'0' { b'1' } else { b'0' };
            assert!(!is_taken(&String::from_utf8(damaged).unwrap()), "{at}");
            assert!(!is_taken(&text[..at]), "{at}");
        }
        for none in ["", ":", "encke-app-key", "encke-app-key:", &format!("{text}0")] {
            assert!(!is_taken(none), "{none}");
        }
        assert!(!is_taken(&format!("k:{}", "ü".repeat(DIGITS / 2))));
    }

    #[test]
    fn secret_shows_nothing_of_itself() {
        assert_eq!(format!("{:?}", Secret::new(b"encke-app-secret")), "(secret)");
    }
}
