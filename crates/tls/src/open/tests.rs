//! Records such as no sealer of ours makes: padded, too long, empty, out of place.

use super::*;
use crate::Alert;
use crate::limits::BODY_BYTES_MAX;
use crate::record::header;

/// A client's keys, and its server's.
fn pair(version: Version) -> [Keys; 2] {
    let [server, client] = Keys::pair(version, Suite::Aes128Gcm, &mut fastrand::Rng::with_seed(3));
    [client, server]
}

/// A record such as no sealer of ours makes.
fn record(keys: &mut Keys, kind: u8, text: &[u8]) -> Vec<u8> {
    let cipher = keys.write_cipher();
    let nonce = cipher.nonce(keys.write_seq);
    let mut end = [0; TAG_BYTES];
    let mut text = text.to_vec();
    let mut record = match keys.version() {
        Version::Tls13 => {
            let header = header(kind::DATA, text.len() + TAG_BYTES);
            cipher.seal(nonce, &header, &mut text, &[], &mut end);
            header.to_vec()
        }
        Version::Tls12 => {
            let aad = aad_of_tls12(keys.write_seq, kind, text.len());
            cipher.seal(nonce, &aad, &mut text, &[], &mut end);
            let header = header(kind, EXPLICIT_BYTES + text.len() + TAG_BYTES);
            [&header[..], &nonce[nonce.len() - EXPLICIT_BYTES..]].concat()
        }
    };
    record.extend(text);
    record.extend(end);
    keys.write_seq += 1;
    record
}

#[test]
fn padding_is_taken_off_and_a_record_of_padding_alone_refused() {
    let [mut client, mut server] = pair(Version::Tls13);
    let mut text = b"padded\x17".to_vec();
    for zeros in [0, 1, 255, PLAIN_BYTES_MAX + 1 - 7] {
        text.resize(7 + zeros, 0);
        let mut record = record(&mut client, 0, &text);
        let opened = server.opener().next(&mut record).unwrap();
        assert_eq!(opened, Opened::Data { record: record.len(), text: 5..11 });
        assert_eq!(&record[5..11], b"padded");
    }
    for zeros in [0, 1, 100] {
        let [mut client, mut server] = pair(Version::Tls13);
        let mut record = record(&mut client, 0, &vec![0; zeros]);
        assert_eq!(server.opener().next(&mut record), Err(Fault::NoType));
    }
}

#[test]
fn text_longer_than_a_record_s_is_refused() {
    for version in [Version::Tls12, Version::Tls13] {
        let inner = usize::from(version == Version::Tls13);
        for over in [0, 1, 100] {
            let [mut client, mut server] = pair(version);
            let mut text = vec![b'x'; PLAIN_BYTES_MAX + over];
            text.extend(&[kind::DATA][..inner]);
            let mut record = record(&mut client, kind::DATA, &text);
            assert!(record.len() <= HEADER_BYTES + BODY_BYTES_MAX);
            let opened = server.opener().next(&mut record);
            assert_eq!(opened.is_ok(), over == 0, "{version:?} {over}");
            assert!(opened.is_ok() || opened == Err(Fault::RecordOverflow));
        }
    }
}

#[test]
fn empty_records_and_warnings_are_bounded() {
    for version in [Version::Tls12, Version::Tls13] {
        let texts: [(u8, &[u8], &[u8]); 2] =
            [(kind::DATA, &[], &[kind::DATA]), (kind::ALERT, &[1, 90], &[1, 90, kind::ALERT])];
        for (kind, of_tls12, of_tls13) in texts {
            let text = if version == Version::Tls12 { of_tls12 } else { of_tls13 };
            let [mut client, mut server] = pair(version);
            for _ in 0..IDLE_RECORDS_MAX {
                let mut record = record(&mut client, kind, text);
                let opened = server.opener().next(&mut record);
                assert_eq!(opened, Ok(Opened::Idle { record: record.len() }));
            }
            let mut record = record(&mut client, kind, text);
            assert_eq!(server.opener().next(&mut record), Err(Fault::Idle), "{version:?}");
        }
    }
}

#[test]
fn tls12_server_refuses_to_negotiate_again() {
    let [mut client, mut server] = pair(Version::Tls12);
    let mut record = record(&mut client, kind::HANDSHAKE, &[1, 0, 0, 1, 0]);
    let fault = server.opener().next(&mut record).unwrap_err();
    assert_eq!((fault, fault.alert()), (Fault::Renegotiation, Some(Alert::NO_RENEGOTIATION)));
    assert_eq!(server.opener().next(&mut [1, 2, 3]), Ok(Opened::Closed));
}

#[test]
fn handshake_message_in_pieces_is_refused() {
    let [mut client, mut server] = pair(Version::Tls13);
    let mut record = record(&mut client, 0, &[24, 0, 0, kind::HANDSHAKE]);
    assert_eq!(server.opener().next(&mut record), Err(Fault::Fragment));
}

#[test]
fn records_are_told_from_the_first_byte_on_what_they_need() {
    let [mut client, mut server] = pair(Version::Tls13);
    let mut record = record(&mut client, 0, b"text\x17");
    for len in 0..record.len() {
        let whole = if len < HEADER_BYTES { HEADER_BYTES } else { record.len() };
        let needed = server.opener().next(&mut record[..len]);
        assert_eq!(needed, Ok(Opened::NeedMore { record: whole }));
    }
    assert!(matches!(server.opener().next(&mut record), Ok(Opened::Data { .. })));
}

#[test]
fn number_of_records_does_not_wrap() {
    let [mut client, mut server] = pair(Version::Tls13);
    server.read_seq = u32::MAX;
    let mut record = record(&mut client, 0, b"text\x17");
    assert_eq!(server.opener().next(&mut record), Err(Fault::Spent));
}

#[test]
fn tls12_record_of_another_version_is_refused() {
    let [mut client, mut server] = pair(Version::Tls12);
    let mut record = record(&mut client, kind::DATA, b"text");
    record[2] = 1;
    assert_eq!(server.opener().next(&mut record), Err(Fault::Version));
}
