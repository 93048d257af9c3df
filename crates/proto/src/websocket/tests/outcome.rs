//! What the cases are made of: a client's frames, and what comes of them.

use crate::testing;
use crate::websocket::frame::FrameHead;
use crate::websocket::head::{FIN, MASKED};
use crate::websocket::{ReadError, Reader, Received, Rules, mask};

/// What the suite's clients may send at most.
pub(super) const RULES: Rules = Rules { message_bytes_max: 1 << 20, deflate: false };

/// What a client's bytes amounted to, one thing after the other, and how it ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    Text(String),
    Binary(Vec<u8>),
    Compressed(bool, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
    Broken(ReadError),
}

impl From<Received<'_>> for Outcome {
    fn from(received: Received<'_>) -> Outcome {
        match received {
            Received::Text(text) => Outcome::Text(text.to_owned()),
            Received::Binary(bytes) => Outcome::Binary(bytes.to_vec()),
            Received::Compressed { is_text, bytes } => Outcome::Compressed(is_text, bytes.to_vec()),
            Received::Ping(bytes) => Outcome::Ping(bytes.to_vec()),
            Received::Pong(bytes) => Outcome::Pong(bytes.to_vec()),
            Received::Close { code, reason } => Outcome::Close(code, reason.to_owned()),
        }
    }
}

pub(super) fn text(text: &str) -> Outcome {
    Outcome::Text(text.to_owned())
}

pub(super) fn broken(error: ReadError) -> Vec<Outcome> {
    vec![Outcome::Broken(error)]
}

/// A frame as a client sends it. `first` is its first byte: the bits and the opcode.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    masked(first, payload, [0x37, 0xfa, 0x21, 0x3d])
}

pub(super) fn masked(first: u8, payload: &[u8], key: [u8; 4]) -> Vec<u8> {
    let mut wire = FrameHead::new(first, MASKED, payload.len()).as_bytes().to_vec();
    wire.extend_from_slice(&key);
    let start = wire.len();
    wire.extend_from_slice(payload);
    mask::apply(&mut wire[start..], key);
    wire
}

/// The last frame of a message, or its only one.
pub(super) fn last(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(FIN | opcode, payload)
}

/// A reader with what its caller holds for it.
#[derive(Default)]
pub(super) struct Peer {
    pub(super) reader: Reader,
    pub(super) buffer: Vec<u8>,
    pub(super) outcomes: Vec<Outcome>,
}

impl Peer {
    /// Reads a piece; `false` once nothing more can be read.
    pub(super) fn feed(&mut self, piece: &[u8], rules: Rules) -> bool {
        let mut piece = piece.to_vec();
        let mut input = &mut piece[..];
        loop {
            match self.reader.next(&mut input, &mut self.buffer, rules) {
                Ok(Some(received)) => self.outcomes.push(received.into()),
                Ok(None) => break,
                Err(error) => {
                    self.outcomes.push(Outcome::Broken(error));
                    return false;
                }
            }
        }
        assert!(input.is_empty(), "all of it was read");
        assert!(self.buffer.len() <= rules.message_bytes_max + 125, "bounded");
        if self.reader.is_idle() {
            // As a server does that holds nothing for a connection at rest.
            *self = Peer { outcomes: std::mem::take(&mut self.outcomes), ..Peer::default() };
        }
        true
    }
}

/// What comes of `pieces`, read one after the other.
pub(super) fn read<'p>(pieces: impl IntoIterator<Item = &'p [u8]>, rules: Rules) -> Vec<Outcome> {
    let mut peer = Peer::default();
    for piece in pieces {
        if !peer.feed(piece, rules) {
            break;
        }
    }
    peer.outcomes
}

/// Cuts `wire` at random.
pub(super) fn random_pieces<'w>(rng: &mut fastrand::Rng, wire: &'w [u8]) -> Vec<&'w [u8]> {
    let mut pieces = Vec::new();
    let mut rest = wire;
    while !rest.is_empty() {
        let most = if rng.bool() { 8 } else { rest.len() };
        let (piece, after) = rest.split_at(rng.usize(1..=most.min(rest.len())));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// Asserts that `wire` comes to `expected`, however it is split.
pub(super) fn assert_reads(case: &str, wire: &[u8], expected: &[Outcome]) {
    assert_eq!(read([wire], RULES), expected, "{case}, whole");
    assert_eq!(read(wire.chunks(1), RULES), expected, "{case}, byte by byte");
    if wire.len() < 300 {
        for cut in 0..=wire.len() {
            let (left, right) = wire.split_at(cut);
            assert_eq!(read([left, right], RULES), expected, "{case}, cut at {cut}");
        }
    }
    testing::seeded(20, |rng| {
        let pieces = random_pieces(rng, wire);
        assert_eq!(read(pieces.iter().copied(), RULES), expected, "{case}, in {pieces:x?}");
    });
}
