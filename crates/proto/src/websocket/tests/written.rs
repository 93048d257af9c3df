//! Readers that are written down and read back between any two bytes, beside one that goes on.

use super::oracle::random_frames;
use super::outcome::*;
use crate::testing;
use crate::websocket::{CloseCode, close::Close};
use crate::websocket::{Reader, Rules, push_close, push_ping, push_text};

const DEFLATE: Rules = Rules { deflate: true, ..RULES };

fn written(reader: &Reader) -> Vec<u8> {
    let mut out = b"before".to_vec();
    reader.write_down(&mut out);
    out.split_off(b"before".len())
}

/// What comes of `pieces`, with another reader for each of them.
fn read_in_turns<'p>(pieces: impl IntoIterator<Item = &'p [u8]>, rules: Rules) -> Vec<Outcome> {
    let mut peer = Peer::default();
    for piece in pieces {
        if !peer.feed(piece, rules) {
            break;
        }
        let bytes = written(&peer.reader);
        assert!((11..=41).contains(&bytes.len()), "{bytes:x?}");
        peer.reader = Reader::read_back(&bytes, &peer.buffer).expect("it was just written down");
        assert_eq!(written(&peer.reader), bytes);
        for len in 0..bytes.len() {
            assert!(Reader::read_back(&bytes[..len], &peer.buffer).is_none(), "cut at {len}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(Reader::read_back(&longer, &peer.buffer).is_none());
    }
    peer.outcomes
}

fn assert_goes_on(wire: &[u8], rules: Rules) {
    let whole = read([wire], rules);
    for cut in 0..=wire.len() {
        let (left, right) = wire.split_at(cut);
        assert_eq!(read_in_turns([left, right], rules), whole, "{wire:x?} cut at {cut}");
    }
    assert_eq!(read_in_turns(wire.chunks(1), rules), whole, "{wire:x?} byte by byte");
}

#[test]
fn message_cut_at_any_byte_goes_on() {
    let long = "ä€😀".repeat(40);
    for wire in [
        last(1, "a text: é€😀".as_bytes()),
        last(2, &[0xff, 0xfe, 0, 1, 2]),
        last(1, long.as_bytes()),
        [last(1, b""), last(9, b"ping"), last(10, b""), last(2, b"x")].concat(),
        [frame(1, &long.as_bytes()[..3]), last(9, b"p"), last(0, &long.as_bytes()[3..])].concat(),
        [frame(2, b"\xff"), frame(0, b""), last(10, b"pong"), last(0, b"\xfe")].concat(),
        [last(1, b"bye"), last(8, b"\x03\xe8because"), last(1, b"unheard")].concat(),
        [frame(1, b"half"), last(8, b""), last(0, b"unheard")].concat(),
        last(1, b"good, then \xe2\x82 bad"),
        [frame(1, b"\xf0\x9f"), last(0, b"\x98")].concat(),
        [frame(1, b"a"), last(1, b"b")].concat(),
    ] {
        assert_goes_on(&wire, RULES);
    }
}

#[test]
fn compressed_message_cut_at_any_byte_goes_on() {
    // The bit of a compressed message, RSV1, and bytes that are no text.
    let bytes = b"\xaa\xff\xe2\x82 compressed, or so it says";
    for opcode in [1, 2] {
        let whole = frame(0xc0 | opcode, bytes);
        let parts =
            [frame(0x40 | opcode, &bytes[..4]), last(9, b""), last(0, &bytes[4..])].concat();
        for wire in [whole, parts] {
            assert_goes_on(&wire, DEFLATE);
            let compressed = Outcome::Compressed(opcode == 1, bytes.to_vec());
            assert!(read_in_turns(wire.chunks(3), DEFLATE).contains(&compressed));
        }
    }
}

#[test]
fn random_frames_in_random_pieces_go_on() {
    testing::seeded(3_000, |rng| {
        let wire = random_frames(rng);
        let rules = Rules { message_bytes_max: 300, deflate: rng.bool() };
        let pieces = random_pieces(rng, &wire);
        let expected = read(pieces.iter().copied(), rules);
        assert_eq!(read_in_turns(pieces, rules), expected, "{wire:x?}");
    });
}

#[test]
fn what_a_server_sends_goes_on_too() {
    let mut wire = Vec::new();
    push_text(&mut wire, "from a server: é");
    push_ping(&mut wire, b"there?");
    push_text(&mut wire, &"long ".repeat(40));
    push_close(&mut wire, Close { code: CloseCode::Normal, reason: "" });
    let (mut reader, mut buffer, mut outcomes) = (Reader::default(), Vec::new(), Vec::new());
    for byte in &wire {
        let mut input = std::slice::from_ref(byte);
        while let Some(received) = reader.next(&mut input, &mut buffer, RULES).unwrap() {
            outcomes.push(Outcome::from(received));
        }
        reader = Reader::read_back(&written(&reader), &buffer).unwrap();
    }
    let expected = [
        text("from a server: é"),
        Outcome::Ping(b"there?".to_vec()),
        text(&"long ".repeat(40)),
        Outcome::Close(Some(1000), String::new()),
    ];
    assert_eq!(outcomes, expected);
}

/// A buffer of another length would be read past its end.
#[test]
fn reader_is_not_read_back_for_a_buffer_that_is_not_its_own() {
    let mut peer = Peer::default();
    assert!(peer.feed(&frame(1, "torn €".as_bytes())[..13], RULES));
    let bytes = written(&peer.reader);
    assert!(Reader::read_back(&bytes, b"torn \xe2\x82").is_some());
    assert!(Reader::read_back(&bytes, b"torn \xe2").is_none());
    let mut peer = Peer::default();
    let wire = [frame(2, b"kept"), last(9, b"ping")].concat();
    assert!(peer.feed(&wire[..wire.len() - 1], RULES));
    let bytes = written(&peer.reader);
    assert!(Reader::read_back(&bytes, b"keptpin").is_some());
    assert!(Reader::read_back(&bytes, b"kep").is_none());
    assert!(Reader::read_back(&bytes, &[b'x'; 200]).is_none());
}

#[test]
fn noise_is_refused_or_is_a_reader_that_does_no_harm() {
    let mut taken = 0;
    testing::seeded(100_000, |rng| {
        // Made of what a reader wrote, or hardly any of it would be taken.
        let mut peer = Peer::default();
        let wire = random_frames(rng);
        let piece = &wire[..rng.usize(..wire.len())];
        if !peer.feed(piece, DEFLATE) {
            return;
        }
        let mut bytes = written(&peer.reader);
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            match rng.u8(..4) {
                0 => bytes[at] ^= 1 << rng.u8(..8),
                1 => bytes[at] = rng.u8(..),
                2 => drop(bytes.remove(at)),
                _ => bytes.insert(at, rng.u8(..)),
            }
        }
        if rng.bool() {
            peer.buffer.truncate(rng.usize(..=peer.buffer.len()));
        }
        let Some(reader) = Reader::read_back(&bytes, &peer.buffer) else { return };
        taken += 1;
        assert_eq!(written(&reader), bytes);
        peer.reader = reader;
        let rules = Rules { message_bytes_max: 1 << 20, deflate: rng.bool() };
        let wire = random_frames(rng);
        for piece in random_pieces(rng, &wire) {
            if !peer.feed(piece, rules) {
                return;
            }
            let bytes = written(&peer.reader);
            assert!(Reader::read_back(&bytes, &peer.buffer).is_some(), "{bytes:x?}");
        }
    });
    assert!(taken > 1_000, "{taken}");
}
