//! The reader's own promises: what it keeps, what it bounds, what it refuses early.

use super::outcome::*;
use crate::websocket::{ReadError, Reader, Received, Rules};

/// The examples of section 5.7.
#[test]
fn examples_of_the_rfc_are_read() {
    let hello = b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_reads("a masked text", hello, &[text("Hello")]);
    let pong = b"\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58";
    assert_reads("a masked pong", pong, &[Outcome::Pong(b"Hello".to_vec())]);
    let parts = [frame(1, b"Hel"), last(0, b"lo")].concat();
    assert_reads("a fragmented text", &parts, &[text("Hello")]);
}

#[test]
fn whole_frame_is_handed_out_from_where_it_stands() {
    let mut wire = [last(1, b"first"), last(2, b"second")].concat();
    let range = wire.as_ptr_range();
    let (mut reader, mut buffer) = (Reader::default(), Vec::new());
    let mut input = &mut wire[..];
    while let Some(received) = reader.next(&mut input, &mut buffer, RULES).unwrap() {
        let at = match received {
            Received::Text(text) => text.as_ptr(),
            Received::Binary(bytes) => bytes.as_ptr(),
            other => panic!("{other:?}"),
        };
        assert!(range.contains(&at));
    }
    assert_eq!(buffer.capacity(), 0, "nothing was copied");
    assert!(reader.is_idle());
}

#[test]
fn reader_is_idle_between_messages_and_not_within() {
    let wire = [frame(1, b"ab"), last(0, b"c")].concat();
    for cut in 1..wire.len() {
        let mut peer = Peer::default();
        assert!(peer.feed(&wire[..cut], RULES));
        assert!(!peer.reader.is_idle(), "{cut} bytes");
        assert!(peer.feed(&wire[cut..], RULES));
        assert!(peer.reader.is_idle());
        assert_eq!(peer.outcomes, [text("abc")]);
    }
    assert!(size_of::<Reader>() <= 80, "{} bytes", size_of::<Reader>());
}

#[test]
fn message_of_the_greatest_length_is_read_and_one_byte_more_is_not() {
    let rules = Rules { message_bytes_max: 10, ..RULES };
    let too_long = [Outcome::Broken(ReadError::TooLong)];
    let ten = [Outcome::Binary(vec![b'x'; 10])];
    assert_eq!(read([&last(2, &[b'x'; 10])[..]], rules), ten);
    assert_eq!(read([&last(2, &[b'x'; 11])[..]], rules), too_long);
    let parts = [frame(2, &[b'x'; 4]), frame(0, &[b'x'; 6]), last(0, b"")].concat();
    assert_eq!(read([&parts[..]], rules), ten);
    let parts = [frame(2, &[b'x'; 4]), frame(0, &[b'x'; 6]), last(0, b"x")].concat();
    assert_eq!(read(parts.chunks(1), rules), too_long);
    // Its length alone is enough; a control frame does not count.
    let head = &last(2, &[0; 100_000])[..14];
    assert_eq!(read([head], rules), too_long);
    assert_eq!(read([&last(9, &[b'x'; 125])[..]], rules), [Outcome::Ping(vec![b'x'; 125])]);
}

/// A frame that breaks a rule is refused at the byte that breaks it.
#[test]
fn broken_frame_is_refused_before_its_payload() {
    let cases: [(&[u8], ReadError); 12] = [
        (&[0xc1], ReadError::ReservedBit),
        (&[0xa1], ReadError::ReservedBit),
        (&[0x91], ReadError::ReservedBit),
        (&[0x83], ReadError::ReservedOpcode),
        (&[0x8f], ReadError::ReservedOpcode),
        (&[0x08], ReadError::FragmentedControl),
        (&[0x89, 0xfe], ReadError::LongControl),
        (&[0x81, 0x05], ReadError::Unmasked),
        (&[0x80, 0x80, 0, 0, 0, 0], ReadError::NothingToContinue),
        (&[0x81, 0xfe, 0, 125, 0, 0, 0, 0], ReadError::LengthNotMinimal),
        (&[0x81, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0], ReadError::LengthNotMinimal),
        (&[0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], ReadError::LengthTooGreat),
    ];
    for (wire, error) in cases {
        assert_reads(error.close().reason, wire, &broken(error));
    }
}

#[test]
fn nothing_is_read_after_a_close_frame() {
    let wire = [last(8, b""), last(1, b"late"), vec![0xff; 20]].concat();
    assert_reads("bytes after a close", &wire, &[Outcome::Close(None, String::new())]);
}

#[test]
fn every_error_says_what_to_answer() {
    for error in ReadError::ALL {
        let close = error.close();
        assert!([1002, 1007, 1009].contains(&close.code.number()), "{error:?}");
        assert!(close.reason.len() <= 123, "{error:?}");
    }
}
