//! Chapter 5: messages in fragments, with control frames between them, and what is no message.

use super::outcome::*;
use crate::websocket::ReadError::*;

/// A name, the frames, what comes of them.
type Case = (&'static str, Vec<Vec<u8>>, Vec<Outcome>);

fn ping(payload: &str) -> Outcome {
    Outcome::Ping(payload.as_bytes().to_vec())
}

#[test]
fn messages_in_fragments_are_read() {
    let table: [Case; 11] = [
        (
            "5.3 text in two",
            vec![frame(1, b"fragment1"), last(0, b"fragment2")],
            vec![text("fragment1fragment2")],
        ),
        (
            "binary in three",
            vec![frame(2, &[1]), frame(0, &[2]), last(0, &[3])],
            vec![Outcome::Binary(vec![1, 2, 3])],
        ),
        (
            "5.6 ping between",
            vec![frame(1, b"fragment1"), last(9, b"ping"), last(0, b"fragment2")],
            vec![ping("ping"), text("fragment1fragment2")],
        ),
        (
            "pong between",
            vec![frame(1, b"a"), last(10, b"pong"), last(0, b"b")],
            vec![Outcome::Pong(b"pong".to_vec()), text("ab")],
        ),
        (
            "5.19 two pings between five",
            vec![
                frame(1, b"fragment1"),
                frame(0, b"fragment2"),
                last(9, b"ping1"),
                frame(0, b"fragment3"),
                frame(0, b"fragment4"),
                last(9, b"ping2"),
                last(0, b"fragment5"),
            ],
            vec![
                ping("ping1"),
                ping("ping2"),
                text("fragment1fragment2fragment3fragment4fragment5"),
            ],
        ),
        (
            "6.1.2 three empty ones",
            vec![frame(1, b""), frame(0, b""), last(0, b"")],
            vec![text("")],
        ),
        (
            "6.1.3 empty, full, empty",
            vec![frame(1, b""), frame(0, b"middle"), last(0, b"")],
            vec![text("middle")],
        ),
        (
            "empty ones with a ping",
            vec![frame(1, b""), last(9, b"x"), last(0, b"")],
            vec![ping("x"), text("")],
        ),
        (
            "two messages, one after the other",
            vec![frame(1, b"a"), last(0, b"b"), frame(2, b"c"), last(0, b"d")],
            vec![text("ab"), Outcome::Binary(b"cd".to_vec())],
        ),
        (
            "close between",
            vec![frame(1, b"a"), last(8, b"\x03\xe8bye"), last(0, b"b")],
            vec![Outcome::Close(Some(1000), "bye".to_owned())],
        ),
        (
            "ping of 125 bytes between long ones",
            vec![frame(1, &[b'a'; 400]), last(9, &[b'p'; 125]), last(0, &[b'b'; 400])],
            vec![ping(&"p".repeat(125)), text(&("a".repeat(400) + &"b".repeat(400)))],
        ),
    ];
    for (case, frames, expected) in table {
        assert_reads(case, &frames.concat(), &expected);
    }
}

#[test]
fn fragments_out_of_place_are_refused() {
    let table: [Case; 10] = [
        ("5.1 ping in two", vec![frame(9, b"a"), last(0, b"b")], broken(FragmentedControl)),
        ("5.2 pong in two", vec![frame(10, b"a"), last(0, b"b")], broken(FragmentedControl)),
        ("close in two", vec![frame(8, b"\x03"), last(0, b"\xe8")], broken(FragmentedControl)),
        ("5.9 end of nothing", vec![last(0, b"a"), last(1, b"b")], broken(NothingToContinue)),
        ("5.12 middle of nothing", vec![frame(0, b"a"), last(1, b"b")], broken(NothingToContinue)),
        ("5.13 empty middle of nothing", vec![frame(0, b"")], broken(NothingToContinue)),
        (
            "5.15 continuation after the end",
            vec![frame(1, b"a"), last(0, b"b"), frame(0, b"c"), last(1, b"d")],
            vec![text("ab"), Outcome::Broken(NothingToContinue)],
        ),
        ("5.16 text in a text", vec![frame(1, b"a"), last(1, b"b")], broken(MessageInMessage)),
        ("5.18 binary in a text", vec![frame(1, b"a"), frame(2, b"b")], broken(MessageInMessage)),
        (
            "text in a text, after a ping",
            vec![frame(1, b""), last(9, b""), last(1, b"")],
            vec![ping(""), Outcome::Broken(MessageInMessage)],
        ),
    ];
    for (case, frames, expected) in table {
        assert_reads(case, &frames.concat(), &expected);
    }
}
