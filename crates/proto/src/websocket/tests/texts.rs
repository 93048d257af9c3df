//! Chapter 6: UTF-8, whole, in fragments and torn apart at each byte. What is wrong is found at the
//! first byte that is.

use super::outcome::*;
use crate::websocket::ReadError::InvalidUtf8;

/// The text of the suite, κόσμε, and others that have characters of every length.
const TEXTS: [&str; 5] = [
    "Hello-µ@ßöäüàá-UTF-8!!",
    "κόσμε",
    "\u{0}\u{7f}\u{80}\u{7ff}\u{800}\u{fff}\u{1000}\u{ffff}\u{10000}\u{10ffff}",
    "\u{d7ff}\u{e000}\u{fffd}\u{fffe}\u{1fffe}\u{2ffff}\u{feff}",
    "\u{10fffe}",
];

#[test]
fn texts_are_read_in_any_fragments() {
    for sent in TEXTS {
        assert_reads("6.2 one frame", &last(1, sent.as_bytes()), &[text(sent)]);
        for cut in 0..=sent.len() {
            let (left, right) = sent.as_bytes().split_at(cut);
            let wire = [frame(1, left), last(0, right)].concat();
            assert_reads("6.2 two frames", &wire, &[text(sent)]);
        }
        let mut wire = frame(1, b"");
        sent.bytes().for_each(|byte| wire.extend(frame(0, &[byte])));
        wire.extend(last(0, b""));
        assert_reads("6.2 a frame for each byte", &wire, &[text(sent)]);
    }
}

/// What UTF-8 is not (RFC 3629, section 3), and how many bytes it takes to see that.
const NOT_TEXTS: [(&str, &[u8], usize); 23] = [
    ("6.6 lone continuation", b"\x80", 1),
    ("6.6 last lone continuation", b"\xbf", 1),
    ("two continuations", b"\x80\xbf", 1),
    ("6.12 lead of two, then a space", b"\xc3 ", 2),
    ("6.12 lead of three, then a space", b"\xe1 ", 2),
    ("6.12 lead of four, then a space", b"\xf1 ", 2),
    ("6.13 lead of five", b"\xf8", 1),
    ("6.13 lead of six", b"\xfc", 1),
    ("6.14 fe", b"\xfe", 1),
    ("6.14 ff", b"\xff", 1),
    ("6.15 slash in two", b"\xc0\xaf", 1),
    ("6.15 slash in three", b"\xe0\x80\xaf", 2),
    ("6.15 slash in four", b"\xf0\x80\x80\xaf", 2),
    ("6.16 greatest in two too few", b"\xc1\xbf", 1),
    ("6.16 greatest in three too few", b"\xe0\x9f\xbf", 2),
    ("6.16 greatest in four too few", b"\xf0\x8f\xbf\xbf", 2),
    ("6.18 first surrogate", b"\xed\xa0\x80", 2),
    ("6.18 last surrogate", b"\xed\xbf\xbf", 2),
    ("6.19 pair of surrogates", b"\xed\xa0\x80\xed\xb0\x80", 2),
    ("6.20 beyond the last plane", b"\xf4\x90\x80\x80", 2),
    ("6.20 lead beyond the last plane", b"\xf5\x80\x80\x80", 1),
    ("6.3 of the suite", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited", 13),
    ("6.4 of the suite", b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xf4\x90\x80\x80edited", 13),
];

#[test]
fn what_is_no_text_is_refused() {
    for (case, bytes, _) in NOT_TEXTS {
        for (before, after) in [("", ""), ("good ", ""), ("κόσμε", "later"), ("", "κόσμε")]
        {
            let sent = [before.as_bytes(), bytes, after.as_bytes()].concat();
            assert_reads(case, &last(1, &sent), &broken(InvalidUtf8));
            for cut in 0..=sent.len() {
                let (left, right) = sent.split_at(cut);
                let wire = [frame(1, left), last(9, b""), last(0, right)].concat();
                let outcomes = read([&wire[..]], RULES);
                assert_eq!(outcomes.last(), Some(&Outcome::Broken(InvalidUtf8)), "{case}");
                assert_eq!(outcomes, read(wire.chunks(1), RULES), "{case}, byte by byte");
            }
        }
    }
}

/// 6.4: the error is seen although neither the message nor the frame has ended.
#[test]
fn what_is_no_text_is_refused_at_the_byte_that_shows_it() {
    for (case, bytes, seen_after) in NOT_TEXTS {
        let whole = [bytes, &[b'x'; 100]].concat();
        for wire in [frame(1, &whole), [frame(1, b"a"), frame(0, &whole)].concat()] {
            let end = wire.len() - whole.len() + seen_after;
            for step in [1, 3, wire.len()] {
                let early = read(wire[..end - 1].chunks(step), RULES);
                assert_eq!(early, [], "{case}, one byte before");
                let outcomes = read(wire[..end].chunks(step), RULES);
                assert_eq!(outcomes, broken(InvalidUtf8), "{case}, {step} bytes at a time");
            }
        }
    }
}

#[test]
fn text_that_ends_within_a_character_is_refused() {
    for torn in [&b"\xc3"[..], b"\xe1\x80", b"\xf1\x80\x80", b"\xce\xba\xe1", b"\xf4\x8f\xbf"] {
        assert_reads("6.8 torn at its end", &last(1, torn), &broken(InvalidUtf8));
        for cut in 0..=torn.len() {
            let wire = [frame(1, &torn[..cut]), last(0, &torn[cut..])].concat();
            assert_reads("6.8 torn, in fragments", &wire, &broken(InvalidUtf8));
        }
        // A character does not go on in the next message.
        let wire = [last(1, torn), last(1, b"\x80")].concat();
        assert_reads("6.8 torn, then another", &wire, &broken(InvalidUtf8));
    }
}

#[test]
fn binary_messages_and_pings_may_be_no_text() {
    for (case, bytes, _) in NOT_TEXTS {
        let wire = [last(2, bytes), last(9, bytes), last(10, bytes)].concat();
        let bytes = bytes.to_vec();
        let expected =
            [Outcome::Binary(bytes.clone()), Outcome::Ping(bytes.clone()), Outcome::Pong(bytes)];
        assert_reads(case, &wire, &expected);
    }
}
