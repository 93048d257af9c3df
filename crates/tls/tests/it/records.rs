//! Records from and to rustls: whole, split, forged, out of order, and what stands between them.

use rustls::{AlertDescription, Error};
use tls::{Alert, Fault, Version};

use crate::both::{Role, connected};
use crate::parties::ALL;

const ROLES: [Role; 2] = [Role::Server, Role::Client];

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

#[test]
fn text_of_any_length_is_read_at_the_other_end() {
    for (version, suite) in ALL {
        for role in ROLES {
            let (mut ours, mut full) = connected(role, version, suite);
            for len in [1, 15, 16, 17, 100, 4_000, 16_383, 16_384, 16_385, 100_000] {
                let text = text(len);
                assert_eq!(full.hear(&ours.say(&text)).unwrap(), text, "{version:?} {role:?}");
                assert_eq!(ours.hear(&full.say(&text)).unwrap(), text, "{version:?} {role:?}");
            }
        }
    }
}

#[test]
fn records_split_anywhere_are_opened_the_same() {
    for (version, suite) in ALL {
        let (mut ours, mut full) = connected(Role::Server, version, suite);
        let sent = [full.say(b"first"), full.say(b"second, longer"), full.say(b"3")].concat();
        let mut heard = Vec::new();
        for byte in sent {
            heard.extend(ours.hear(&[byte]).unwrap());
        }
        assert_eq!(heard, b"firstsecond, longer3");
        for cut in 1..60 {
            let sent = [full.say(b"again"), full.say(b"and again")].concat();
            let cut = cut.min(sent.len());
            let mut heard = ours.hear(&sent[..cut]).unwrap();
            heard.extend(ours.hear(&sent[cut..]).unwrap());
            assert_eq!(heard, b"againand again");
        }
    }
}

#[test]
fn record_with_any_bit_forged_is_refused_and_nothing_after_it_opened() {
    for (version, suite) in ALL {
        let (mut ours, mut full) = connected(Role::Server, version, suite);
        let record = full.say(b"twenty bytes of text");
        let mut at = 0;
        while at < record.len() {
            let (mut other, mut sender) = connected(Role::Server, version, suite);
            let mut record = sender.say(b"twenty bytes of text");
            // A length that is larger waits for the rest of its record.
            record[at] ^= 1 << (at % 8);
            let heard = other.hear(&record);
            let is_length = at == 3 || at == 4;
            match heard {
                Err(fault) => {
                    assert!(fault.alert().is_some());
                    assert_eq!(other.hear(&sender.say(b"more")), Ok(Vec::new()));
                    assert!(other.is_closed);
                }
                Ok(heard) => assert!(heard.is_empty() && is_length, "{version:?} at {at}"),
            }
            // The rest is ciphertext like any other.
            at += if at < 16 { 1 } else { 7 };
        }
        assert_eq!(ours.hear(&record).unwrap(), b"twenty bytes of text");
        assert_eq!(ours.hear(&record), Err(Fault::BadRecordMac), "it came twice");
    }
}

#[test]
fn records_out_of_order_or_left_out_are_refused() {
    for (version, suite) in ALL {
        let (mut ours, mut full) = connected(Role::Client, version, suite);
        // Tickets come first.
        ours.hear(&full.out()).unwrap();
        let (_first, second) = (full.say(b"1"), full.say(b"2"));
        assert_eq!(ours.hear(&second), Err(Fault::BadRecordMac));
        let alert = ours.alert(Alert::BAD_RECORD_MAC);
        let error = full.hear(&alert).unwrap_err();
        assert_eq!(error, Error::AlertReceived(AlertDescription::BadRecordMac));
        assert!(ours.alert(Alert::CLOSE_NOTIFY).is_empty(), "that was the last word");
    }
}

#[test]
fn record_too_long_is_refused_by_its_header() {
    for (version, suite) in ALL {
        let (mut ours, _) = connected(Role::Server, version, suite);
        assert_eq!(ours.hear(&[23, 3, 3, 0x41, 0]), Ok(Vec::new()), "2^14 + 256 are allowed");
        let (mut ours, mut full) = connected(Role::Server, version, suite);
        assert_eq!(ours.hear(&[23, 3, 3, 0x41, 1]), Err(Fault::RecordOverflow));
        let alert = ours.alert(Fault::RecordOverflow.alert().unwrap());
        let error = full.hear(&alert).unwrap_err();
        assert_eq!(error, Error::AlertReceived(AlertDescription::RecordOverflow));
    }
}

#[test]
fn records_in_the_clear_have_no_place_behind_the_handshake() {
    for (version, suite) in ALL {
        for kind in [20, 21, 22, 24, 0] {
            let (mut ours, _) = connected(Role::Server, version, suite);
            let heard = ours.hear(&[kind, 3, 3, 0, 2, 1, 0]);
            let sealed = version == Version::Tls12 && (kind == 21 || kind == 22);
            let fault = if sealed { Fault::BadRecordMac } else { Fault::UnexpectedType(kind) };
            assert_eq!(heard, Err(fault), "{version:?}");
        }
    }
}

#[test]
fn key_updates_of_the_peer_are_followed_and_answered_once() {
    for (version, suite) in ALL.into_iter().filter(|(version, _)| *version == Version::Tls13) {
        for role in ROLES {
            let (mut ours, mut full) = connected(role, version, suite);
            for round in 0..100 {
                // Twice before we say anything: one answer is enough.
                for _ in 0..2 {
                    full.0.refresh_traffic_keys().unwrap();
                    let heard = ours.hear(&full.say(b"under another key")).unwrap();
                    assert_eq!(heard, b"under another key");
                }
                assert!(ours.keys.owe_update());
                let said = ours.say(b"so are we");
                assert_eq!(said.len(), 27 + 22 + 9, "round {round}");
                assert_eq!(full.hear(&said).unwrap(), b"so are we");
                assert!(!ours.keys.owe_update());
            }
        }
    }
}

#[test]
fn torrent_of_key_updates_is_refused() {
    for (version, suite) in ALL.into_iter().filter(|(version, _)| *version == Version::Tls13) {
        let (mut ours, mut full) = connected(Role::Server, version, suite);
        for _ in 0..32 {
            full.0.refresh_traffic_keys().unwrap();
            assert_eq!(ours.hear(&full.out()), Ok(Vec::new()));
        }
        assert_eq!(ours.hear(&full.say(b"data")).unwrap(), b"data");
        let heard: Result<Vec<_>, _> = (0..33)
            .map(|_| {
                full.0.refresh_traffic_keys().unwrap();
                ours.hear(&full.out())
            })
            .collect();
        assert_eq!(heard, Err(Fault::Idle));
    }
}

#[test]
fn either_side_may_say_that_it_has_said_all() {
    for (version, suite) in ALL {
        for role in ROLES {
            let (mut ours, mut full) = connected(role, version, suite);
            let mut bytes = ours.say(b"the end");
            bytes.extend(ours.alert(Alert::CLOSE_NOTIFY));
            assert!(ours.keys.are_write_closed());
            assert_eq!(full.hear(&bytes).unwrap(), b"the end");
            assert!(full.0.process_new_packets().unwrap().peer_has_closed());
            let mut bytes = full.say(b"mine too");
            full.0.send_close_notify();
            bytes.extend(full.out());
            bytes.extend(b"and what is behind it does not count");
            assert_eq!(ours.hear(&bytes).unwrap(), b"mine too");
            assert!(ours.is_closed);
        }
    }
}
