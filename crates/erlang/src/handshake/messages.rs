//! How two nodes find out that they may talk: names, capabilities, and a proof of the cookie.
//!
//! Pure functions from bytes to values and back, which [`super`] takes over a socket. Each message
//! has its length in two bytes before it. Standard: "Distribution Protocol", section
//! "Distribution Handshake" (version 6, OTP 23 and later), in the documentation of ERTS.

use md5::{Digest, Md5};
use thiserror::Error;

/// What a node can do, as bits.
pub(crate) mod flag {
    /// It takes part in global names: what is not hidden.
    pub(crate) const PUBLISHED: u64 = 0x1;
    /// It has no name, and asks for one (`-sname undefined`, OTP 23).
    pub(super) const NAME_ME: u64 = 2 << 32;
    const EXTENDED_REFERENCES: u64 = 0x4;
    const DIST_MONITOR: u64 = 0x8;
    const FUN_TAGS: u64 = 0x10;
    const DIST_MONITOR_NAME: u64 = 0x20;
    const NEW_FUN_TAGS: u64 = 0x80;
    const EXTENDED_PIDS_PORTS: u64 = 0x100;
    const EXPORT_PTR_TAG: u64 = 0x200;
    const BIT_BINARIES: u64 = 0x400;
    const NEW_FLOATS: u64 = 0x800;
    const UTF8_ATOMS: u64 = 0x1_0000;
    const MAP_TAG: u64 = 0x2_0000;
    const BIG_CREATION: u64 = 0x4_0000;
    pub(crate) const HANDSHAKE_23: u64 = 0x100_0000;
    const UNLINK_ID: u64 = 0x200_0000;
    /// Stands for all that OTP 25 demands.
    const MANDATORY_25_DIGEST: u64 = 0x400_0000;
    const V4_NC: u64 = 4 << 32;
    const ALIAS: u64 = 8 << 32;

    /// What we offer: all that OTP 25 to 27 demand, monitors and aliases. Not the atom cache and
    /// fragments, which need a header in each frame, and not to start processes.
    pub(crate) const OURS: u64 = EXTENDED_REFERENCES
        | DIST_MONITOR
        | FUN_TAGS
        | DIST_MONITOR_NAME
        | NEW_FUN_TAGS
        | EXTENDED_PIDS_PORTS
        | EXPORT_PTR_TAG
        | BIT_BINARIES
        | NEW_FLOATS
        | UTF8_ATOMS
        | MAP_TAG
        | BIG_CREATION
        | HANDSHAKE_23
        | UNLINK_ID
        | MANDATORY_25_DIGEST
        | V4_NC
        | ALIAS;

    /// What we cannot do without.
    pub(crate) const NEEDED: u64 =
        EXTENDED_REFERENCES | DIST_MONITOR | UTF8_ATOMS | MAP_TAG | BIG_CREATION | HANDSHAKE_23;
}

/// The longest message: a name of 255 characters and what stands around it.
pub(super) const MESSAGE_BYTES_MAX: usize = 2 * 1024;

const _: () = {
    assert!(flag::OURS & flag::NEEDED == flag::NEEDED, "we ask for what we cannot do ourselves");
    assert!(flag::OURS & (flag::PUBLISHED | flag::NAME_ME) == 0, "nobody shall find us by himself");
    // The longest: a challenge, with a name of 255 characters of four bytes.
    assert!(MESSAGE_BYTES_MAX >= 1 + 8 + 4 + 4 + 2 + 4 * 255);
};

/// A message that is none, or not the one that is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("it does not speak the handshake of OTP 23 and later")]
pub(super) struct MalformedMessage;

/// What a node says of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Introduction {
    pub(crate) flags: u64,
    pub(crate) creation: u32,
    /// `name@host`.
    pub(crate) name: Box<str>,
}

impl Introduction {
    /// The message `send_name`, with which a node that connects begins.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![b'N'];
        out.extend(self.flags.to_be_bytes());
        self.push_rest(&mut out);
        out
    }

    /// The message `send_challenge`: the same of the node that was connected to, and what it wants
    /// to see a digest of.
    pub(super) fn to_challenge(&self, challenge: u32) -> Vec<u8> {
        let mut out = vec![b'N'];
        out.extend(self.flags.to_be_bytes());
        out.extend(challenge.to_be_bytes());
        self.push_rest(&mut out);
        out
    }

    fn push_rest(&self, out: &mut Vec<u8>) {
        out.extend(self.creation.to_be_bytes());
        let len = u16::try_from(self.name.len()).expect("a node's name is short");
        out.extend(len.to_be_bytes());
        out.extend_from_slice(self.name.as_bytes());
    }

    /// Reads the message `send_name`.
    pub(super) fn read(message: &[u8]) -> Result<Introduction, MalformedMessage> {
        let rest = message.strip_prefix(b"N").ok_or(MalformedMessage)?;
        let (flags, rest) = rest.split_first_chunk().ok_or(MalformedMessage)?;
        Introduction::read_rest(u64::from_be_bytes(*flags), rest)
    }

    /// Reads the message `send_challenge`.
    pub(super) fn read_challenge(message: &[u8]) -> Result<(Introduction, u32), MalformedMessage> {
        let rest = message.strip_prefix(b"N").ok_or(MalformedMessage)?;
        let (flags, rest) = rest.split_first_chunk().ok_or(MalformedMessage)?;
        let (challenge, rest) = rest.split_first_chunk().ok_or(MalformedMessage)?;
        let introduction = Introduction::read_rest(u64::from_be_bytes(*flags), rest)?;
        Ok((introduction, u32::from_be_bytes(*challenge)))
    }

    fn read_rest(flags: u64, rest: &[u8]) -> Result<Introduction, MalformedMessage> {
        let (creation, rest) = rest.split_first_chunk().ok_or(MalformedMessage)?;
        let (len, rest) = rest.split_first_chunk().ok_or(MalformedMessage)?;
        // What stands behind the name is for later versions.
        let name = rest.get(..u16::from_be_bytes(*len).into()).ok_or(MalformedMessage)?;
        let name = str::from_utf8(name).map_err(|_| MalformedMessage)?;
        if !is_node_name(name) {
            return Err(MalformedMessage);
        }
        let creation = u32::from_be_bytes(*creation);
        Ok(Introduction { flags, creation, name: name.into() })
    }
}

/// Whether who begins with `message` has no name and asks for one.
pub(super) fn asks_for_name(message: &[u8]) -> bool {
    let flags = message.strip_prefix(b"N").and_then(<[u8]>::first_chunk);
    flags.is_some_and(|flags| u64::from_be_bytes(*flags) & flag::NAME_ME != 0)
}

/// Whether `name` is a node's: `name@host`, as long as an atom may be at most.
pub fn is_node_name(name: &str) -> bool {
    let good = |part: &str| !part.is_empty() && !part.contains(|c: char| c.is_control());
    name.chars().count() <= 255
        && name.split_once('@').is_some_and(|(alive, host)| {
            good(alive) && good(host) && !host.contains('@') && !name.contains(char::is_whitespace)
        })
}

/// What a node that was connected to thinks of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// Go on.
    Ok,
    /// Go on; our own attempt to connect to you is given up.
    OkSimultaneous,
    /// Do not: my own attempt to connect to you goes on.
    Nok,
    /// You are not wanted.
    NotAllowed,
    /// I have a connection to you: is it a dead one?
    Alive,
}

impl Status {
    const TEXTS: [(Status, &str); 5] = [
        (Status::Ok, "ok"),
        (Status::OkSimultaneous, "ok_simultaneous"),
        (Status::Nok, "nok"),
        (Status::NotAllowed, "not_allowed"),
        (Status::Alive, "alive"),
    ];

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let text = Self::TEXTS.iter().find(|(status, _)| *status == self);
        status(text.expect("every status has its text").1)
    }

    pub(super) fn read(message: &[u8]) -> Result<Status, MalformedMessage> {
        let text = message.strip_prefix(b"s").ok_or(MalformedMessage)?;
        let found = Self::TEXTS.iter().find(|(_, name)| name.as_bytes() == text);
        found.map(|(status, _)| *status).ok_or(MalformedMessage)
    }
}

/// The answer to [`Status::Alive`]: whether the connection there is, is a dead one.
pub(super) fn alive_answer(is_dead: bool) -> Vec<u8> {
    status(if is_dead { "true" } else { "false" })
}

/// Reads that answer.
pub(super) fn read_alive_answer(message: &[u8]) -> Result<bool, MalformedMessage> {
    match message {
        b"strue" => Ok(true),
        b"sfalse" => Ok(false),
        _ => Err(MalformedMessage),
    }
}

fn status(text: &str) -> Vec<u8> {
    [b"s", text.as_bytes()].concat()
}

/// The message `send_challenge_reply`: a challenge of our own and the answer to theirs.
pub(super) fn challenge_reply(challenge: u32, digest: [u8; 16]) -> Vec<u8> {
    [b"r".as_slice(), &challenge.to_be_bytes(), &digest].concat()
}

/// Reads it: their challenge and their answer.
pub(super) fn read_challenge_reply(message: &[u8]) -> Result<(u32, [u8; 16]), MalformedMessage> {
    let rest = message.strip_prefix(b"r").ok_or(MalformedMessage)?;
    let (challenge, digest) = rest.split_first_chunk().ok_or(MalformedMessage)?;
    Ok((u32::from_be_bytes(*challenge), digest.try_into().map_err(|_| MalformedMessage)?))
}

/// The message `send_challenge_ack`: the answer to the challenge of the node that connected.
pub(super) fn challenge_ack(digest: [u8; 16]) -> Vec<u8> {
    [b"a".as_slice(), &digest].concat()
}

/// Reads it.
pub(super) fn read_challenge_ack(message: &[u8]) -> Result<[u8; 16], MalformedMessage> {
    message.strip_prefix(b"a").and_then(|digest| digest.try_into().ok()).ok_or(MalformedMessage)
}

/// The proof of the cookie: MD5 of it and the challenge's digits. MD5 is the protocol's, and fit
/// for a private network only.
pub(super) fn digest(cookie: &str, challenge: u32) -> [u8; 16] {
    let mut md5 = Md5::new();
    md5.update(cookie.as_bytes());
    md5.update(challenge.to_string().as_bytes());
    md5.finalize().into()
}

/// Compares two digests in a time that does not tell where they differ.
pub(super) fn is_same(one: [u8; 16], other: [u8; 16]) -> bool {
    one.iter().zip(other).fold(0, |different, (a, b)| different | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn introduction() -> Introduction {
        Introduction { flags: flag::OURS, creation: 7, name: "encke@127.0.0.1".into() }
    }

    #[test]
    fn introductions_are_read_as_they_are_written_with_room_for_later_versions() {
        let mut message = introduction().to_bytes();
        assert_eq!(&message[..9], b"N\0\0\0\x0c\x07\x07\x0f\xbc");
        message.extend(b"more");
        assert_eq!(Introduction::read(&message), Ok(introduction()));
        let challenge = introduction().to_challenge(0x1234_5678);
        assert_eq!(Introduction::read_challenge(&challenge), Ok((introduction(), 0x1234_5678)));
        for len in 0..challenge.len() {
            assert_eq!(
                Introduction::read_challenge(&challenge[..len]),
                Err(MalformedMessage),
                "{len}"
            );
        }
    }

    #[test]
    fn digest_is_the_one_of_otp() {
        // erlang:md5("secret1234567890").
        let expected = [224, 252, 252, 27, 165, 17, 252, 111, 230, 238, 53, 124, 154, 221, 185, 50];
        assert_eq!(digest("secret", 1_234_567_890), expected);
        assert!(is_same(expected, digest("secret", 1_234_567_890)));
        assert!(!is_same(expected, digest("secret", 1_234_567_891)));
    }

    #[test]
    fn replies_and_statuses_are_read_as_they_are_written() {
        let digest = digest("a", 1);
        assert_eq!(read_challenge_reply(&challenge_reply(9, digest)), Ok((9, digest)));
        assert_eq!(read_challenge_ack(&challenge_ack(digest)), Ok(digest));
        assert_eq!(read_challenge_ack(b"a123"), Err(MalformedMessage));
        for (status, text) in Status::TEXTS {
            assert_eq!(status.to_bytes(), [b"s", text.as_bytes()].concat());
            assert_eq!(Status::read(&status.to_bytes()), Ok(status));
        }
        assert_eq!(read_alive_answer(&alive_answer(true)), Ok(true));
        assert_eq!(read_alive_answer(&alive_answer(false)), Ok(false));
        assert_eq!(Status::read(b"sno"), Err(MalformedMessage));
    }

    #[test]
    fn names_of_nodes_have_a_host() {
        for good in ["a@b", "encke@127.0.0.1", "ünïcode@host.example"] {
            assert!(is_node_name(good), "{good}");
        }
        for bad in ["", "a", "@", "a@", "@b", "a@b@c", "a b@c", "a@b\n", &"x".repeat(256)] {
            assert!(!is_node_name(bad), "{bad}");
        }
    }
}
