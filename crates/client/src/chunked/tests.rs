//! Chunks split at every byte.

use super::*;
use std::io::Read;

fn decode(pieces: &[&[u8]]) -> Result<(Vec<u8>, ChunkedDecoder), ChunkError> {
    let (mut decoder, mut body) = (ChunkedDecoder::default(), Vec::new());
    for &piece in pieces {
        let mut input = piece;
        while let Some(data) = decoder.next(&mut input)? {
            assert!(!data.is_empty());
            body.extend_from_slice(data);
        }
    }
    Ok((body, decoder))
}

/// A body with small, large and odd chunks, and the same as chunks.
fn sample() -> (Vec<u8>, Vec<u8>) {
    let bodies: [&[u8]; 4] = [b"a", &[b'x'; 16], b"\r\n0\r\n\r\n", &[b'y'; 300]];
    let mut wire = Vec::new();
    for body in bodies {
        proto::chunked::push(&mut wire, body);
    }
    wire.extend_from_slice(proto::chunked::LAST);
    (bodies.concat(), wire)
}

#[test]
fn body_split_at_every_byte_is_the_same() {
    let (body, wire) = sample();
    for cut in 0..=wire.len() {
        let (decoded, decoder) = decode(&[&wire[..cut], &wire[cut..]]).unwrap();
        assert_eq!(decoded, body, "cut at {cut}");
        assert!(decoder.is_end());
    }
    let bytes: Vec<&[u8]> = wire.chunks(1).collect();
    assert_eq!(decode(&bytes).unwrap().0, body);
}

#[test]
fn body_is_what_another_decoder_reads() {
    let (_, wire) = sample();
    let mut expected = Vec::new();
    chunked_transfer::Decoder::new(&wire[..]).read_to_end(&mut expected).unwrap();
    assert_eq!(decode(&[&wire]).unwrap().0, expected);
}

#[test]
fn extensions_and_trailers_are_skipped() {
    let wire = b"5;a=b;c=\"d\"\r\nhello\r\n5 ;x\r\nworld\r\n0\r\nDate: now\r\nX: y\r\n\r\nrest";
    let mut input = &wire[..];
    let mut decoder = ChunkedDecoder::default();
    let mut body = Vec::new();
    while let Some(data) = decoder.next(&mut input).unwrap() {
        body.extend_from_slice(data);
    }
    assert_eq!(body, b"helloworld");
    assert!(decoder.is_end());
    assert_eq!(input, b"rest", "what follows the body is left alone");
}

#[test]
fn bad_framing_is_an_error() {
    let error = |wire: &[u8]| decode(&[wire]).unwrap_err();
    assert_eq!(error(b"\r\n"), ChunkError::Size);
    assert_eq!(error(b"xyz\r\n"), ChunkError::Size);
    assert_eq!(error(b"-1\r\n"), ChunkError::Size);
    assert_eq!(error(b"00000000000000001\r\n"), ChunkError::Size);
    assert_eq!(error(b"1\r\nab\r\n"), ChunkError::LineEnd);
    assert_eq!(error(b"1\rx"), ChunkError::LineEnd);
    assert_eq!(error(b"0\r\n\r\r"), ChunkError::LineEnd);
}

#[test]
fn largest_size_is_read() {
    let (body, decoder) = decode(&[b"ffffffffffffffff\r\nabc"]).unwrap();
    assert_eq!(body, b"abc");
    assert!(!decoder.is_end());
}
