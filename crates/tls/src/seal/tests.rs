//! What is sealed is opened, as far as there is room, under as many keys as it takes.

use super::*;
use crate::Opened;
use crate::limits::SEALED_BYTES_MAX;

const ALL: [(Version, Suite); 4] = [
    (Version::Tls13, Suite::Aes128Gcm),
    (Version::Tls13, Suite::ChaCha20Poly1305),
    (Version::Tls12, Suite::Aes128Gcm),
    (Version::Tls12, Suite::ChaCha20Poly1305),
];

fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(7)
}

/// Opens all records, and gives their text.
fn open(keys: &mut Keys, mut bytes: &mut [u8]) -> Vec<u8> {
    let (mut opener, mut text) = (keys.opener(), Vec::new());
    while !bytes.is_empty() {
        let record = match opener.next(bytes).unwrap() {
            Opened::Data { record, text: range } => {
                text.extend_from_slice(&bytes[range]);
                record
            }
            Opened::Idle { record } => record,
            other => panic!("{other:?}"),
        };
        bytes = &mut bytes[record..];
    }
    text
}

#[test]
fn parts_are_sealed_as_one_text_from_anywhere_on_and_as_far_as_there_is_room() {
    let mut random = random();
    for (version, suite) in ALL {
        let [mut server, mut client] = Keys::pair(version, suite, &mut random);
        for round in 0..400 {
            let longest = if round % 20 == 0 { 20_000 } else { 40 };
            let parts: Vec<Vec<u8>> = (0..random.usize(1..6))
                .map(|_| (0..random.usize(0..longest)).map(|_| random.u8(..)).collect())
                .collect();
            let parts: Vec<&[u8]> = parts.iter().map(|part| &part[..]).collect();
            let whole = parts.concat();
            let skip = random.usize(0..=whole.len());
            let less = random.usize(KEY_UPDATE_BYTES..SEALED_BYTES_MAX);
            let room = if round % 2 == 0 { SEALED_BYTES_MAX } else { less };
            let mut out = vec![0; room];
            let sealed = server.sealer().seal(&parts, skip, &mut out).unwrap();
            let rest = (whole.len() - skip).min(PLAIN_BYTES_MAX);
            assert_eq!(sealed.text, rest.min(room.saturating_sub(OVERHEAD_BYTES_MAX)));
            let text = open(&mut client, &mut out[..sealed.bytes]);
            assert_eq!(text, whole[skip..skip + sealed.text], "{version:?} {suite:?}");
        }
    }
}

#[test]
fn key_is_updated_after_its_records_where_it_can_be() {
    for (version, suite) in ALL {
        let [mut server, mut client] = Keys::pair(version, suite, &mut random());
        let limit = match version {
            Version::Tls13 => RECORDS_PER_KEY,
            Version::Tls12 => RECORDS_PER_CONNECTION,
        };
        (server.write_seq, client.read_seq) = (limit - 1, limit - 1);
        let mut out = [0; 200];
        let sealed = server.sealer().seal(&[&b"last"[..]], 0, &mut out).unwrap();
        assert_eq!(open(&mut client, &mut out[..sealed.bytes]), b"last");
        let sealed = server.sealer().seal(&[&b"next"[..]], 0, &mut out);
        match version {
            Version::Tls13 => {
                let bytes = sealed.unwrap().bytes;
                assert_eq!(bytes, KEY_UPDATE_BYTES + 4 + 22);
                assert_eq!(open(&mut client, &mut out[..bytes]), b"next");
                assert_eq!((server.write_seq, client.read_seq), (1, 1));
            }
            Version::Tls12 => {
                assert_eq!(sealed, Err(Unsealed::Spent));
                let mut out = [0; ALERT_BYTES_MAX];
                let bytes = server.sealer().alert(Alert::CLOSE_NOTIFY, &mut out);
                assert_eq!(client.opener().next(&mut out[..bytes]), Ok(Opened::Closed));
            }
        }
    }
}

#[test]
fn side_that_is_closed_seals_no_more() {
    for (version, suite) in ALL {
        let [mut server, _] = Keys::pair(version, suite, &mut random());
        let mut out = [0; ALERT_BYTES_MAX];
        assert!(server.sealer().alert(Alert::NO_RENEGOTIATION, &mut out) > 0);
        assert!(server.sealer().alert(Alert::CLOSE_NOTIFY, &mut out) > 0);
        assert_eq!(server.sealer().alert(Alert::CLOSE_NOTIFY, &mut out), 0);
        let sealed = server.sealer().seal(&[&b"x"[..]], 0, &mut [0; 100]);
        assert_eq!(sealed, Err(Unsealed::Closed));
    }
}

#[test]
fn no_nonce_is_used_twice_and_each_is_on_the_wire_in_tls12() {
    for (version, suite) in ALL {
        let [mut server, _] = Keys::pair(version, suite, &mut random());
        let (mut seen, mut out) = (std::collections::BTreeSet::new(), [0; 100]);
        for _ in 0..100 {
            let nonce = server.write_cipher().nonce(server.write_seq);
            assert!(seen.insert(nonce));
            server.sealer().seal(&[&b"x"[..]], 0, &mut out).unwrap();
            if (version, suite) == (Version::Tls12, Suite::Aes128Gcm) {
                assert_eq!(out[HEADER_BYTES..][..EXPLICIT_BYTES], nonce[4..]);
            }
        }
    }
}
