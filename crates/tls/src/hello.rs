//! Whether a client's first message is whole, without a library that would keep memory for it.
//!
//! It checks nothing: what cannot be a hello, or is an odd one, is a matter for the handshake,
//! which says what is wrong with it.

use crate::limits::{HEADER_BYTES, PLAIN_BYTES_MAX};
use crate::record::{Header, kind};

/// The type of a `ClientHello` (RFC 8446, section 4).
const CLIENT_HELLO: u8 = 1;

/// Bytes of a handshake message before its body: type and length.
const MESSAGE_HEADER_BYTES: usize = 4;

/// Whether a handshake would have something to answer to `bytes`, which are all that has come: a
/// hello is whole in them, in as many records as it likes, or they begin with something else.
pub fn is_whole(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let mut message = [0; MESSAGE_HEADER_BYTES];
    let mut seen = 0;
    while let Some(header) = Header::read(rest) {
        let fits = (1..=PLAIN_BYTES_MAX).contains(&header.body);
        if header.kind != kind::HANDSHAKE || header.version[0] != 3 || !fits {
            return true;
        }
        let body = &rest[HEADER_BYTES..];
        let is_record_whole = body.len() >= header.body;
        let (body, behind) = body.split_at(header.body.min(body.len()));
        let places = message.iter_mut().skip(seen);
        places.zip(body).for_each(|(place, byte)| *place = *byte);
        seen += body.len();
        if seen > 0 && message[0] != CLIENT_HELLO {
            return true;
        }
        let [_, high, middle, low] = message;
        let len = u32::from_be_bytes([0, high, middle, low]) as usize;
        if seen >= MESSAGE_HEADER_BYTES && seen - MESSAGE_HEADER_BYTES >= len {
            return is_record_whole;
        }
        if !is_record_whole {
            return false;
        }
        rest = behind;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(body: &[u8]) -> Vec<u8> {
        [&[kind::HANDSHAKE, 3, 1, 0, body.len() as u8], body].concat()
    }

    /// A hello of 50 bytes; what is in it is not looked at.
    fn hello() -> Vec<u8> {
        [&[CLIENT_HELLO, 0, 0, 46][..], &[7; 46]].concat()
    }

    #[test]
    fn hello_is_whole_with_its_last_byte_however_it_is_cut_into_records() {
        for cut in 1..=50 {
            let records: Vec<u8> = hello().chunks(cut).flat_map(record).collect();
            for len in 0..records.len() {
                assert!(!is_whole(&records[..len]), "{len} bytes of records of {cut}");
            }
            assert!(is_whole(&records), "records of {cut}");
            assert!(is_whole(&[&records[..], &[23, 3, 3]].concat()), "and more behind it");
        }
    }

    #[test]
    fn what_is_no_hello_is_not_waited_for() {
        for other in [
            &b"GET / HTTP/1.1"[..],
            &[21, 3, 3, 0, 2],
            &[22, 2, 0, 0, 9],
            &[22, 3, 1, 0, 0],
            &[22, 3, 1, 0xff, 0xff],
            &record(&[2, 0, 0, 1, 0]),
        ] {
            assert!(is_whole(other), "{other:?}");
        }
        assert!(!is_whole(b"") && !is_whole(b"GET ") && !is_whole(&[22, 3, 1, 1]));
    }
}
