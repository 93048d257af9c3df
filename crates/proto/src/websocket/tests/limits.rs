//! Chapters 9 and 10: long messages, many fragments, many small frames, and what they may cost.

use super::outcome::*;
use crate::websocket::ReadError::TooLong;
use crate::websocket::Rules;

const LONGEST: usize = RULES.message_bytes_max;

/// Messages of 64 KiB to the longest, in one frame and in fragments, in reads of several sizes.
#[test]
fn long_messages_are_read() {
    for len in [1 << 16, 1 << 18, LONGEST] {
        let words = "*".repeat(len);
        let expected = [text(&words)];
        let whole = last(1, words.as_bytes());
        for fragment_len in [64, 1300, 1 << 14, len] {
            let mut wire = frame(1, b"");
            words.as_bytes().chunks(fragment_len).for_each(|part| wire.extend(frame(0, part)));
            wire.extend(last(0, b""));
            let outcomes = read(wire.chunks(1 << 16), RULES);
            assert!(outcomes == expected, "{len} bytes in fragments of {fragment_len}");
        }
        for read_len in [128, 1024, 65_536, usize::MAX] {
            let outcomes = read(whole.chunks(read_len), RULES);
            assert!(outcomes == expected, "{len} bytes in reads of {read_len}");
        }
    }
}

#[test]
fn message_over_the_limit_is_refused_at_the_head_that_tells() {
    let rules = Rules { message_bytes_max: 4096, ..RULES };
    let too_long = [Outcome::Broken(TooLong)];
    for len in [4097, 65_536, 1 << 20] {
        let wire = last(1, &vec![b'x'; len]);
        let head_len = wire.len() - len;
        assert_eq!(read([&wire[..head_len]], rules), too_long, "{len} bytes");
    }
    // Fragments count together, however small each is.
    let mut wire = frame(2, b"");
    (0..4096).for_each(|_| wire.extend(frame(0, b"x")));
    assert_eq!(read([&wire[..]], rules), []);
    wire.extend(last(0, b"x"));
    assert_eq!(read([&wire[..]], rules), too_long);
    assert_eq!(read(wire.chunks(7), rules), too_long);
}

/// A head that announces much and a payload that never comes take no memory.
#[test]
fn announced_length_is_not_reserved() {
    let wire = last(2, &vec![0; LONGEST]);
    let mut peer = Peer::default();
    assert!(peer.feed(&wire[..20], RULES));
    assert!(peer.buffer.capacity() <= 64, "{} bytes", peer.buffer.capacity());
}

/// Empty fragments without end take no memory either.
#[test]
fn endless_empty_fragments_grow_nothing() {
    let mut peer = Peer::default();
    assert!(peer.feed(&frame(1, b"a"), RULES));
    let many = frame(0, b"").repeat(1000);
    for _ in 0..100 {
        assert!(peer.feed(&many, RULES));
    }
    assert!(peer.buffer.capacity() <= 64, "{} bytes", peer.buffer.capacity());
    assert!(peer.feed(&last(0, b"b"), RULES));
    assert_eq!(peer.outcomes, [text("ab")]);
}

/// Many small messages in one read: each is handed out from where it stands.
#[test]
fn many_messages_in_one_read_are_read_in_order() {
    let wire: Vec<u8> = (0..10_000).flat_map(|n| last(1, format!("{n}").as_bytes())).collect();
    let expected: Vec<Outcome> = (0..10_000).map(|n| text(&format!("{n}"))).collect();
    for read_len in [1, 7, 4096, usize::MAX] {
        assert!(read(wire.chunks(read_len), RULES) == expected, "reads of {read_len}");
    }
}
