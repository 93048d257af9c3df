//! Keys that are read back, made up and made of noise.

use super::*;
use crate::limits::SEALED_BYTES_MAX;
use crate::{Alert, Opened, Suite};

const ALL: [(Version, Suite); 4] = [
    (Version::Tls13, Suite::Aes128Gcm),
    (Version::Tls13, Suite::ChaCha20Poly1305),
    (Version::Tls12, Suite::Aes128Gcm),
    (Version::Tls12, Suite::ChaCha20Poly1305),
];

fn sealed(keys: &mut Keys, text: &[u8]) -> Vec<u8> {
    let mut out = vec![0; SEALED_BYTES_MAX];
    let sealed = keys.sealer().seal(&[text], 0, &mut out).unwrap();
    out.truncate(sealed.bytes);
    out
}

fn read_back(bytes: &[u8]) -> Option<Keys> {
    // Whatever stood there before.
    let [mut keys, _] =
        Keys::pair(Version::Tls13, Suite::ChaCha20Poly1305, &mut fastrand::Rng::with_seed(9));
    (keys.write_seq, keys.note) = (9, 9);
    let is_read = keys.read_back(bytes);
    assert_eq!(keys.are_set(), is_read);
    assert!(is_read || keys.read.iter().chain(&keys.write).chain(&keys.ready).max() == Some(&0));
    is_read.then_some(keys)
}

fn again(keys: &Keys) -> Keys {
    read_back(&*keys.write_down()).unwrap()
}

#[test]
fn keys_that_are_read_back_seal_and_open_as_those_that_stay() {
    let mut random = fastrand::Rng::with_seed(5);
    for (version, suite) in ALL {
        let [mut server, mut client] = Keys::pair(version, suite, &mut random);
        (server.write_seq, client.read_seq) = (70_000, 70_000);
        for round in 0..10_u8 {
            if version == Version::Tls13 && round % 3 == 0 {
                server.mark(Flags::OWES_UPDATE, true);
            }
            server.note = 7;
            let mut successor = again(&server);
            assert_eq!((successor.note, server.note), (0, 7));
            let text = [round; 40];
            let mut bytes = sealed(&mut successor, &text);
            assert_eq!(bytes, sealed(&mut server, &text), "{version:?} {suite:?}");
            assert_eq!(*successor.write_down(), *server.write_down());
            // The reader changes hands between the records, too.
            let (mut at, mut heard) = (0, Vec::new());
            while at < bytes.len() {
                client = again(&client);
                match client.opener().next(&mut bytes[at..]).unwrap() {
                    Opened::Data { record, text } => {
                        heard.extend_from_slice(&bytes[at..][text]);
                        at += record;
                    }
                    Opened::Idle { record } => at += record,
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(heard, text);
            let mut back = sealed(&mut client, b"back");
            server = successor;
            assert!(matches!(server.opener().next(&mut back), Ok(Opened::Data { .. })));
        }
    }
}

#[test]
fn layout_is_as_it_is_told() {
    let mut random = fastrand::Rng::with_seed(6);
    let [server, mut client] = Keys::pair(Version::Tls12, Suite::Aes128Gcm, &mut random);
    (client.write_seq, client.read_seq, client.idle_records) = (0x0001_0203, 0x0405_0607, 9);
    client.mark(Flags::READ_CLOSED, true);
    let bytes = client.write_down();
    assert_eq!(bytes[..12], [1, 7, 9, 9, 0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(bytes[12..44], client.read);
    assert_eq!(bytes[44..76], client.write);
    assert_eq!(bytes[76..], client.ready);
    assert_eq!(server.write_down()[1..3], [7, 0]);
}

#[test]
fn what_no_connection_can_have_come_to_is_refused() {
    let mut random = fastrand::Rng::with_seed(7);
    let [server, _] = Keys::pair(Version::Tls12, Suite::Aes128Gcm, &mut random);
    let [new, _] = Keys::pair(Version::Tls13, Suite::Aes128Gcm, &mut random);
    assert!(read_back(&*Keys::default().write_down()).is_none());
    for len in (0..200).filter(|&len| len != KEYS_BYTES) {
        let mut bytes = server.write_down().to_vec();
        bytes.resize(len, 0);
        assert!(read_back(&bytes).is_none(), "{len} bytes");
    }
    let with = |keys: &Keys, at: usize, byte: u8| {
        let mut bytes = keys.write_down();
        bytes[at] = byte;
        read_back(&*bytes).is_some()
    };
    for byte in 0..=255 {
        assert_eq!(with(&server, 0, byte), byte == 1, "layout {byte}");
        assert_eq!(with(&server, 1, byte), (4..8).contains(&byte), "suite {byte}");
        assert_eq!(with(&server, 2, byte), byte < 16 && byte & 2 == 0, "flags {byte}");
        assert_eq!(with(&new, 2, byte), byte < 16, "flags {byte}");
        assert_eq!(with(&server, 3, byte), byte <= IDLE_RECORDS_MAX, "idle records {byte}");
    }
    assert!(!with(&server, 4, 2), "a number beyond the last");
}

#[test]
fn noise_is_refused_or_is_keys_that_do_no_harm() {
    let mut random = fastrand::Rng::with_seed(8);
    let mut taken = 0;
    for round in 0..20_000 {
        let mut bytes = [0; KEYS_BYTES];
        random.fill(&mut bytes);
        if round % 2 == 0 {
            // All noise is hardly ever taken.
            let head = [1, random.u8(3..9), random.u8(..18), random.u8(..36), random.u8(..2)];
            bytes[..5].copy_from_slice(&head);
        }
        let len = if random.u8(..8) == 0 { random.usize(..=KEYS_BYTES) } else { KEYS_BYTES };
        let Some(mut keys) = read_back(&bytes[..len]) else { continue };
        taken += 1;
        assert_eq!(*keys.write_down(), bytes);
        let mut out = vec![0; 200];
        for _ in 0..3 {
            let _ = keys.sealer().seal(&[&b"text"[..]], 0, &mut out);
            let _ = keys.opener().next(&mut bytes);
            let mut record = [23, 3, 3, 0, 40, 1, 2, 3].to_vec();
            record.resize(45, 9);
            let _ = keys.opener().next(&mut record);
        }
        for _ in 0..20 {
            let _ = keys.sealer().alert(Alert(100), &mut [0; _]);
        }
        let _ = keys.sealer().alert(Alert::CLOSE_NOTIFY, &mut [0; _]);
        assert!(read_back(&*keys.write_down()).is_some());
    }
    assert!(taken > 1_000, "{taken}");
}
