//! What may come behind the handshake beside data: alerts, key updates, tickets.

use crate::record::kind;
use crate::{Alert, Fault, Version};

/// What a record without data says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MessageContent {
    /// Nothing that matters.
    Nothing,
    /// The peer has another key from its next record on, and wants one of us.
    Update { asked: bool },
    /// The peer has said all.
    Closed,
}

const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;
const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;

/// Our key update, which asks for none (RFC 8446, section 4.6.3).
pub(crate) const OUR_KEY_UPDATE: [u8; 5] = [KEY_UPDATE, 0, 0, 1, 0];

/// Reads the text of a record that is no data.
pub(crate) fn read(
    version: Version,
    we_are_client: bool,
    kind: u8,
    text: &[u8],
) -> Result<MessageContent, Fault> {
    match kind {
        kind::ALERT | kind::HANDSHAKE if text.is_empty() => Err(Fault::EmptyMessage),
        kind::ALERT => alert(version, text),
        kind::HANDSHAKE if version == Version::Tls13 => handshake(we_are_client, text),
        kind::HANDSHAKE => again(we_are_client, text),
        kind::CHANGE_CIPHER_SPEC | kind::DATA => Err(Fault::UnexpectedType(kind)),
        _ => Err(Fault::UnexpectedType(kind)),
    }
}

fn alert(version: Version, text: &[u8]) -> Result<MessageContent, Fault> {
    let &[level, description] = text else { return Err(Fault::AlertLength) };
    match (Alert(description), version) {
        (Alert::CLOSE_NOTIFY, _) => Ok(MessageContent::Closed),
        // The level of all others means nothing in TLS 1.3 (RFC 8446, section 6).
        (Alert::USER_CANCELED, Version::Tls13) => Ok(MessageContent::Nothing),
        (_, Version::Tls12) if level == 1 => Ok(MessageContent::Nothing),
        (alert, _) => Err(Fault::Received(alert)),
    }
}

/// TLS 1.3: whole messages, one or several.
fn handshake(we_are_client: bool, mut text: &[u8]) -> Result<MessageContent, Fault> {
    let mut said = MessageContent::Nothing;
    while let [kind, rest @ ..] = text {
        if said != MessageContent::Nothing {
            return Err(Fault::KeyUpdateNotLast);
        }
        let is_known = *kind == KEY_UPDATE || (*kind == NEW_SESSION_TICKET && we_are_client);
        if !is_known {
            return Err(Fault::UnexpectedMessage(*kind));
        }
        let (len, rest) = rest.split_first_chunk::<3>().ok_or(Fault::Fragment)?;
        let len = u32::from_be_bytes([0, len[0], len[1], len[2]]) as usize;
        if *kind == KEY_UPDATE && len != 1 {
            return Err(Fault::KeyUpdateLength);
        }
        let (body, rest) = rest.split_at_checked(len).ok_or(Fault::Fragment)?;
        if *kind == KEY_UPDATE {
            said = match body[0] {
                asked @ 0..=1 => MessageContent::Update { asked: asked == 1 },
                other => return Err(Fault::KeyUpdateValue(other)),
            };
        }
        text = rest;
    }
    Ok(said)
}

/// TLS 1.2: a handshake message now is the start of another handshake.
fn again(we_are_client: bool, text: &[u8]) -> Result<MessageContent, Fault> {
    match (text[0], we_are_client) {
        // A client may ignore it (RFC 5246, section 7.4.1.1).
        (HELLO_REQUEST, true) if text == [0; 4] => Ok(MessageContent::Nothing),
        (CLIENT_HELLO, false) => Err(Fault::Renegotiation),
        (other, _) => Err(Fault::UnexpectedMessage(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_behind_the_handshake_are_read_or_refused() {
        let update = |asked| Ok(MessageContent::Update { asked });
        for (text, said) in [
            (&[24, 0, 0, 1, 0][..], update(false)),
            (&[24, 0, 0, 1, 1], update(true)),
            (&[24, 0, 0, 1, 2], Err(Fault::KeyUpdateValue(2))),
            (&[24, 0, 0, 2, 0, 0], Err(Fault::KeyUpdateLength)),
            (&[24, 0, 0, 0], Err(Fault::KeyUpdateLength)),
            (&[24, 0, 0, 1], Err(Fault::Fragment)),
            (&[24, 0], Err(Fault::Fragment)),
            (&[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], Err(Fault::KeyUpdateNotLast)),
            (&[1, 0, 0, 0], Err(Fault::UnexpectedMessage(1))),
            (&[4, 0, 0, 1, 0], Err(Fault::UnexpectedMessage(4))),
            (&[], Err(Fault::EmptyMessage)),
        ] {
            assert_eq!(read(Version::Tls13, false, kind::HANDSHAKE, text), said, "{text:?}");
        }
        for (text, said) in [
            (&[4, 0, 0, 1, 0, 24, 0, 0, 1, 1][..], update(true)),
            (&[4, 0, 0, 1, 0, 4, 0, 0, 1, 0], Ok(MessageContent::Nothing)),
            (&[4, 0, 0, 2, 0], Err(Fault::Fragment)),
        ] {
            assert_eq!(read(Version::Tls13, true, kind::HANDSHAKE, text), said, "{text:?}");
        }
    }

    #[test]
    fn tls12_is_not_negotiated_again() {
        let handshake = |client, text: &[u8]| read(Version::Tls12, client, kind::HANDSHAKE, text);
        assert_eq!(handshake(false, &[1, 0, 0, 9]), Err(Fault::Renegotiation));
        assert_eq!(handshake(true, &[0; 4]), Ok(MessageContent::Nothing));
        assert_eq!(handshake(false, &[0; 4]), Err(Fault::UnexpectedMessage(0)));
        assert_eq!(handshake(false, &[24, 0, 0, 1, 0]), Err(Fault::UnexpectedMessage(24)));
    }

    #[test]
    fn alerts_end_or_are_passed_over_as_their_version_says() {
        let read = |version, text: &[u8]| read(version, false, kind::ALERT, text);
        for version in [Version::Tls12, Version::Tls13] {
            assert_eq!(read(version, &[1, 0]), Ok(MessageContent::Closed));
            assert_eq!(read(version, &[2, 0]), Ok(MessageContent::Closed));
            assert_eq!(read(version, &[2, 40]), Err(Fault::Received(Alert(40))));
            assert_eq!(read(version, &[1]), Err(Fault::AlertLength));
            assert_eq!(read(version, &[1, 0, 1]), Err(Fault::AlertLength));
            assert_eq!(read(version, &[]), Err(Fault::EmptyMessage));
            assert_eq!(read(version, &[1, 90]), Ok(MessageContent::Nothing));
        }
        assert_eq!(read(Version::Tls12, &[1, 41]), Ok(MessageContent::Nothing));
        assert_eq!(read(Version::Tls13, &[1, 41]), Err(Fault::Received(Alert(41))));
    }
}
