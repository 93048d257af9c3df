//! Chapters 1 to 4: payloads of every kind of length, pings and pongs, reserved bits, opcodes.

use super::outcome::*;
use crate::websocket::ReadError::*;

#[test]
fn payloads_of_every_length_are_read() {
    for len in [0, 1, 125, 126, 127, 128, 65_535, 65_536] {
        let words = "*".repeat(len);
        let case = format!("a text of {len} bytes");
        assert_reads(&case, &last(1, words.as_bytes()), &[text(&words)]);
        let bytes = vec![0xfe; len];
        let case = format!("{len} binary bytes");
        assert_reads(&case, &last(2, &bytes), &[Outcome::Binary(bytes)]);
    }
}

#[test]
fn pings_and_pongs_are_read() {
    let (ping, pong) = (|p: &[u8]| Outcome::Ping(p.to_vec()), |p: &[u8]| Outcome::Pong(p.to_vec()));
    let odd = [0x00, 0xff, 0xfe, 0xfd, 0xfc, 0xfb, 0x00, 0xff];
    let ten: Vec<u8> = (0..10).flat_map(|n| last(9, format!("payload-{n}").as_bytes())).collect();
    let ten_pings: Vec<Outcome> =
        (0..10).map(|n| ping(format!("payload-{n}").as_bytes())).collect();
    let table = [
        ("2.1 ping without a payload", last(9, b""), vec![ping(b"")]),
        ("2.2 ping with a text", last(9, b"Hello, world!"), vec![ping(b"Hello, world!")]),
        ("2.3 ping that is no text", last(9, &odd), vec![ping(&odd)]),
        ("2.4 ping of 125 bytes", last(9, &[0xfe; 125]), vec![ping(&[0xfe; 125])]),
        ("2.5 ping of 126 bytes", last(9, &[0xfe; 126]), broken(LongControl)),
        ("2.5 pong of 65,536 bytes", last(10, &[0xfe; 65_536])[..14].to_vec(), broken(LongControl)),
        ("2.5 close of 126 bytes", last(8, &[0xfe; 126]), broken(LongControl)),
        ("2.7 pong that nobody asked for", last(10, b""), vec![pong(b"")]),
        ("2.8 the same with a payload", last(10, b"unasked"), vec![pong(b"unasked")]),
        (
            "2.9 pong, then ping",
            [last(10, b"unasked"), last(9, b"ping")].concat(),
            vec![pong(b"unasked"), ping(b"ping")],
        ),
        ("2.10 ten pings", ten, ten_pings),
    ];
    for (case, wire, expected) in table {
        assert_reads(case, &wire, &expected);
    }
}

/// Each of the seven sets of reserved bits, on each opcode, first and after a good message.
#[test]
fn reserved_bits_are_refused() {
    for bits in 1..=7_u8 {
        for opcode in [0, 1, 2, 8, 9, 10] {
            let bad = frame(0x80 | bits << 4 | opcode, b"x");
            let case = format!("3 bits {bits} on opcode {opcode}");
            assert_reads(&case, &bad, &broken(ReservedBit));
            let after = [last(1, b"good"), last(9, b""), bad, last(1, b"late")].concat();
            let expected = [text("good"), Outcome::Ping(Vec::new()), Outcome::Broken(ReservedBit)];
            assert_reads(&case, &after, &expected);
        }
    }
}

#[test]
fn reserved_opcodes_are_refused() {
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        for payload in [&b""[..], b"reserved"] {
            let case = format!("4 opcode {opcode} with {} bytes", payload.len());
            let bad = last(opcode, payload);
            assert_reads(&case, &bad, &broken(ReservedOpcode));
            let after = [last(1, b"good"), bad, last(9, b"")].concat();
            assert_reads(&case, &after, &[text("good"), Outcome::Broken(ReservedOpcode)]);
            let within = [frame(1, b"half"), frame(opcode, payload)].concat();
            assert_reads(&case, &within, &broken(ReservedOpcode));
        }
    }
}

/// Section 5.1: not one frame of a client's goes unmasked; section 5.2: lengths are minimal.
#[test]
fn heads_that_break_the_rules_are_refused() {
    let long = |second: u8, length: &[u8]| {
        [&[0x82, 0x80 | second], length, &[0; 4], &[0; 127][..]].concat()
    };
    let table: [(&str, Vec<u8>, Vec<Outcome>); 9] = [
        ("unmasked text", b"\x81\x05Hello".to_vec(), broken(Unmasked)),
        ("unmasked ping", b"\x89\x00".to_vec(), broken(Unmasked)),
        ("unmasked close", b"\x88\x00".to_vec(), broken(Unmasked)),
        ("125 in two bytes", long(126, &[0, 125]), broken(LengthNotMinimal)),
        ("0 in eight bytes", long(127, &[0; 8]), broken(LengthNotMinimal)),
        ("65,535 in eight bytes", long(127, &65_535_u64.to_be_bytes()), broken(LengthNotMinimal)),
        ("2^63", long(127, &(1_u64 << 63).to_be_bytes()), broken(LengthTooGreat)),
        ("2^63 - 1", long(127, &(u64::MAX >> 1).to_be_bytes()), broken(TooLong)),
        ("key of zeros", masked(0x81, b"plain", [0; 4]), vec![text("plain")]),
    ];
    for (case, wire, expected) in table {
        assert_reads(case, &wire, &expected);
    }
}
