//! Chapter 7: close frames, their codes and their reasons, and what comes after them.

use super::outcome::*;
use crate::websocket::ReadError::*;
use crate::websocket::{Close, push_close, push_close_echo};

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    last(8, &[&code.to_be_bytes(), reason].concat())
}

fn closed(code: Option<u16>, reason: &str) -> Outcome {
    Outcome::Close(code, reason.to_owned())
}

#[test]
fn close_frames_are_read() {
    let longest = "*".repeat(123);
    let table = [
        ("7.3.1 without a payload", last(8, b""), vec![closed(None, "")]),
        ("7.3.2 half a code", last(8, b"a"), broken(HalfCloseCode)),
        ("7.3.3 a code", close(1000, b""), vec![closed(Some(1000), "")]),
        ("7.3.4 a reason", close(1000, b"Hello"), vec![closed(Some(1000), "Hello")]),
        (
            "7.3.5 the longest reason",
            close(1000, longest.as_bytes()),
            vec![closed(Some(1000), &longest)],
        ),
        ("7.3.6 a longer one", close(1000, &[b'*'; 124]), broken(LongControl)),
        ("7.5.1 reason that is no text", close(1000, b"\xce\xba\xed\xa0\x80"), broken(InvalidUtf8)),
        ("reason that is torn", close(1001, b"\xce"), broken(InvalidUtf8)),
    ];
    for (case, wire, expected) in table {
        assert_reads(case, &wire, &expected);
    }
}

#[test]
fn codes_that_may_be_sent_are_read() {
    let codes = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014];
    for code in codes.into_iter().chain([3000, 3999, 4000, 4999]) {
        let case = format!("7.7 code {code}");
        assert_reads(&case, &close(code, b"why"), &[closed(Some(code), "why")]);
    }
}

#[test]
fn codes_that_may_not_be_sent_are_refused() {
    let codes = [0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535];
    for code in codes {
        let case = format!("7.9 code {code}");
        assert_reads(&case, &close(code, b""), &broken(InvalidCloseCode));
        assert_reads(&case, &close(code, b"why"), &broken(InvalidCloseCode));
    }
}

#[test]
fn nothing_counts_after_a_close_frame() {
    let table = [
        ("7.1.1 text before", vec![last(1, b"a"), close(1000, b"")], vec![text("a")]),
        ("7.1.2 two closes", vec![close(1000, b""), close(1001, b"")], vec![]),
        ("7.1.3 ping after", vec![close(1000, b""), last(9, b"")], vec![]),
        ("7.1.4 text after", vec![close(1000, b""), last(1, b"a")], vec![]),
        ("7.1.5 within a message", vec![frame(1, b"a"), close(1000, b""), last(0, b"b")], vec![]),
        ("7.1.6 garbage after", vec![close(1000, b""), vec![0xff; 5000]], vec![]),
    ];
    for (case, frames, mut expected) in table {
        expected.push(closed(Some(1000), ""));
        assert_reads(case, &frames.concat(), &expected);
    }
}

#[test]
fn reader_that_has_seen_a_close_is_not_idle() {
    let mut peer = Peer::default();
    assert!(peer.feed(&close(1000, b""), RULES));
    assert!(!peer.reader.is_idle(), "it still has to skip what follows");
}

/// What we send to close is what may be sent: read as if a client had masked it.
#[test]
fn our_own_close_frames_are_good_ones() {
    let mask = |wire: &[u8]| frame(wire[0], &wire[2..]);
    for sent in [Close::LOGGED_OUT, Close::SHUTDOWN, Close::SLOW_READER, Close::BINARY] {
        let mut wire = Vec::new();
        push_close(&mut wire, sent);
        let expected = [closed(Some(sent.code.number()), sent.reason)];
        assert_reads(sent.reason, &mask(&wire), &expected);
    }
    for code in [None, Some(4999)] {
        let mut wire = Vec::new();
        push_close_echo(&mut wire, code);
        assert_reads("an echo", &mask(&wire), &[closed(code, "")]);
    }
}
