//! Our reader beside tungstenite's: random sequences of frames, good and bad, give the same
//! messages and the same end.

use std::io::{self, Read, Write};

use tungstenite::protocol::{Role, WebSocketConfig};
use tungstenite::{Error, Message, WebSocket};

use super::outcome::*;
use crate::testing;
use crate::websocket::{ReadError, Rules};

/// Small, so that it is met often.
const LIMITED: Rules = Rules { message_bytes_max: 300, deflate: false };

/// A client that has sent all it will and takes every answer.
struct Sent<'w>(&'w [u8]);

impl Read for Sent<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Sent<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the other reader makes of `wire`, and whether it refused it.
fn theirs(wire: &[u8]) -> (Vec<Outcome>, bool) {
    let limit = Some(LIMITED.message_bytes_max);
    let config = WebSocketConfig::default().max_message_size(limit).max_frame_size(limit);
    let mut socket = WebSocket::from_raw_socket(Sent(wire), Role::Server, Some(config));
    let mut outcomes = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Text(text)) => outcomes.push(Outcome::Text(text.to_string())),
            Ok(Message::Binary(bytes)) => outcomes.push(Outcome::Binary(bytes.to_vec())),
            Ok(Message::Ping(bytes)) => outcomes.push(Outcome::Ping(bytes.to_vec())),
            Ok(Message::Pong(bytes)) => outcomes.push(Outcome::Pong(bytes.to_vec())),
            // How it says that a code may not be sent.
            Ok(Message::Close(Some(close))) if close.reason == "Protocol violation" => {
                return (outcomes, true);
            }
            Ok(Message::Close(close)) => outcomes.push(match close {
                None => Outcome::Close(None, String::new()),
                Some(close) => Outcome::Close(Some(close.code.into()), close.reason.to_string()),
            }),
            Ok(Message::Frame(frame)) => panic!("{frame} was read raw"),
            // All was read, or a close frame was.
            Err(Error::ConnectionClosed | Error::Protocol(RESET)) => return (outcomes, false),
            Err(Error::Protocol(_) | Error::Utf8(_) | Error::Capacity(_)) => {
                return (outcomes, true);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

use tungstenite::error::ProtocolError::ResetWithoutClosingHandshake as RESET;

/// Whole frames, most of them good.
pub(super) fn random_frames(rng: &mut fastrand::Rng) -> Vec<u8> {
    let (mut wire, mut in_message) = (Vec::new(), false);
    for _ in 0..rng.usize(1..12) {
        let opcode = match rng.u8(..20) {
            0 => rng.u8(..16),
            1 | 2 => 9,
            3 => 10,
            4 => 8,
            _ if in_message => 0,
            _ => 1 + rng.u8(..2),
        };
        let fin = opcode > 7 || rng.bool();
        if opcode < 3 {
            in_message = !fin;
        }
        let bits = if rng.u8(..60) == 0 { rng.u8(..8) << 4 } else { 0 };
        let fin = if rng.u8(..60) == 0 { !fin } else { fin };
        let payload = random_payload(rng, opcode);
        let first = u8::from(fin) << 7 | bits | opcode;
        wire.extend(masked(first, &payload, rng.u32(..).to_ne_bytes()));
    }
    wire
}

fn random_payload(rng: &mut fastrand::Rng, opcode: u8) -> Vec<u8> {
    let code = |rng: &mut fastrand::Rng| match rng.u8(..4) {
        0 => rng.u16(995..1018),
        1 => rng.u16(2990..5010),
        _ => rng.u16(1000..1004),
    };
    match (opcode, rng.u8(..12)) {
        (8, 0) => vec![rng.u8(..)],
        (8, 1) => Vec::new(),
        (8, _) => {
            let mut payload = code(rng).to_be_bytes().to_vec();
            payload.extend_from_slice(testing::text(rng, 20).as_bytes());
            payload
        }
        (_, 0) => (0..rng.usize(..140)).map(|_| rng.u8(..)).collect(),
        (_, 1) => vec![b'x'; rng.usize(120..320)],
        (_, 2) => {
            let mut torn = testing::text(rng, 10).into_bytes();
            torn.truncate(rng.usize(..=torn.len()));
            torn
        }
        _ => testing::text(rng, 10).into_bytes(),
    }
}

/// One reader sees what is wrong with a text before the other; both see it in the end.
#[test]
fn random_frames_are_read_as_another_reader_reads_them() {
    let (mut refused, mut accepted) = (0, 0);
    testing::seeded(30_000, |rng| {
        let wire = random_frames(rng);
        let pieces = random_pieces(rng, &wire);
        let mut ours = read(pieces, LIMITED);
        let error = match ours.last() {
            Some(&Outcome::Broken(error)) => {
                ours.pop();
                Some(error)
            }
            _ => None,
        };
        // 1014 is in IANA's registry, and not in theirs.
        if ours.iter().any(|outcome| matches!(outcome, Outcome::Close(Some(1014), _))) {
            return;
        }
        assert_eq!((ours, error.is_some()), theirs(&wire), "{wire:02x?}");
        assert!(!matches!(error, Some(ReadError::Undecompressable | ReadError::Masked)));
        *if error.is_some() { &mut refused } else { &mut accepted } += 1;
    });
    assert!(refused > 1000 && accepted > 1000, "{refused} refused, {accepted} accepted");
}
