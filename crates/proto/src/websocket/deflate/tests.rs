//! What is compressed is read back.

use super::*;
use crate::testing;

fn inflated(bytes: &[u8], bytes_max: usize) -> Result<String, ReadError> {
    let mut out = Vec::new();
    match inflate(true, bytes, bytes_max, &mut out)? {
        Received::Text(text) => Ok(text.to_owned()),
        other => panic!("{other:?}"),
    }
}

/// Sections 7.2.3.1 to 7.2.3.6. The second message of 7.2.3.2 refers to the first, so it is
/// refused here.
#[test]
fn examples_of_the_rfc_are_read() {
    let table: [(&str, &[u8], Result<&str, ReadError>); 6] = [
        ("one block", b"\xf2\x48\xcd\xc9\xc9\x07\x00", Ok("Hello")),
        ("earlier window", b"\xf2\x00\x11\x00\x00", Err(ReadError::Undecompressable)),
        ("no compression", b"\x00\x05\x00\xfa\xffHello\x00", Ok("Hello")),
        ("last block", b"\xf3\x48\xcd\xc9\xc9\x07\x00\x00", Ok("Hello")),
        ("two blocks", b"\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00", Ok("Hello")),
        ("empty", b"\x00", Ok("")),
    ];
    for (case, bytes, expected) in table {
        assert_eq!(inflated(bytes, 100), expected.map(str::to_owned), "{case}");
    }
    assert_eq!(Deflater::default().compress(b"Hello"), b"\xf2\x48\xcd\xc9\xc9\x07\x00");
    assert_eq!(Deflater::default().compress(b""), b"\x00");
}

#[test]
fn what_was_compressed_is_read_back() {
    let mut deflater = Deflater::default();
    testing::seeded(500, |rng| {
        let text = testing::text(rng, 200).repeat(rng.usize(..200));
        let compressed = deflater.compress(text.as_bytes());
        assert_eq!(inflated(&compressed, text.len()), Ok(text.clone()));
        if !text.is_empty() {
            assert_eq!(inflated(&compressed, text.len() - 1), Err(ReadError::TooLong));
        }
    });
}

#[test]
fn event_is_compressed_where_that_makes_it_shorter() {
    let mut deflater = Deflater::default();
    let long = format!("{{\"data\":\"{}\"}}", "again and ".repeat(50));
    let frame = deflater.event(&long);
    let [first, len, payload @ ..] = frame.body() else { panic!("a head") };
    assert_eq!((*first, usize::from(*len)), (0xc1, payload.len()));
    assert!(payload.len() < 60, "{} bytes", payload.len());
    assert_eq!(inflated(payload, 1000), Ok(long));
    assert_eq!(deflater.event("{}"), crate::websocket::event("{}"));
}

/// An empty one has two bytes, and takes a decoder some time.
#[test]
fn last_blocks_of_a_message_are_a_few_at_most() {
    let message = |count: usize| [b"\x03\x00".repeat(count), vec![0]].concat();
    for (count, expected) in [(1, Ok("")), (8, Ok("")), (2_000, Err(ReadError::Undecompressable))] {
        assert_eq!(inflated(&message(count), 4_096), expected.map(str::to_owned), "{count}");
    }
}

/// A few bytes that decompress to much are refused at the bound, and take no more than that.
#[test]
fn decompression_bomb_is_too_long() {
    let bomb = Deflater::default().compress(&vec![b'x'; 50 << 20]);
    assert!(bomb.len() < 60_000, "{} bytes", bomb.len());
    let mut out = Vec::new();
    let result = inflate(true, &bomb, 4096, &mut out);
    assert_eq!(result, Err(ReadError::TooLong));
    assert!(out.capacity() <= 2 * STEP, "{} bytes", out.capacity());
}

#[test]
fn broken_messages_are_refused() {
    let whole = Deflater::default().compress("κόσμε, again and again and again".as_bytes());
    for len in 0..whole.len() {
        let result = inflated(&whole[..len], 1000);
        assert!(result.is_err(), "{len} bytes gave {result:?}");
    }
    testing::seeded(5_000, |rng| {
        let noise: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
        if let Ok(text) = inflated(&noise, 1000) {
            assert!(text.len() <= 1000);
        }
    });
    let not_text = Deflater::default().compress(b"\xff\xff\xff");
    assert_eq!(inflated(&not_text, 10), Err(ReadError::InvalidUtf8));
}
