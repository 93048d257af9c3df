//! Handshakes: all that may be agreed on, in pieces of every size, and those that come to nothing.

use rustls::{ClientConfig, Error};
use tls::{Agreed, Alert, Choice, Failure, Suite, Version};

use crate::both::{Role, connected, handshake};
use crate::parties::{ALL, Full, Ours, Trust, both_suites};

#[test]
fn handshake_with_either_end_of_rustls_ends_in_keys() {
    for (version, suite) in ALL {
        for role in [Role::Server, Role::Client] {
            let (ours, full) = connected(role, version, suite);
            let agreed = Agreed { version, suite, resumed: false, named: true, only_looks: false };
            assert_eq!(ours.agreed, Some(agreed), "{role:?}");
            assert_eq!((ours.keys.version(), ours.keys.suite()), (version, suite));
            assert_eq!(full.0.alpn_protocol(), Some(&b"http/1.1"[..]));
        }
    }
}

#[test]
fn handshake_in_pieces_of_any_size_is_the_same() {
    let trust = Trust::new();
    for (version, suite) in ALL {
        for piece in [1, 2, 5, 6, 7, 100, 300] {
            let mut ours = Ours::server(&trust, both_suites());
            let mut full = Full::client(trust.full_client(version, suite));
            handshake(&mut ours, &mut full, piece);
            assert_eq!(full.hear(&ours.say(b"there")).unwrap(), b"there");
            let mut ours = Ours::client(&trust, both_suites());
            let mut full = Full::server(trust.full_server(version, suite));
            handshake(&mut ours, &mut full, piece);
            assert_eq!(full.hear(&ours.say(b"back")).unwrap(), b"back");
        }
    }
}

#[test]
fn what_comes_behind_the_handshake_is_the_keys_wherever_it_is_cut() {
    for (version, suite) in ALL {
        let mut cut = 1;
        loop {
            let trust = Trust::new();
            let mut ours = Ours::server(&trust, both_suites());
            let mut full = Full::client(trust.full_client(version, suite));
            // A client of TLS 1.3 sends its request with the end of its handshake, and may update
            // its keys before. One of TLS 1.2 waits for the server's end.
            let hello = full.out();
            let (out, _) = ours.step(&hello);
            full.hear(&out).unwrap();
            let mut bytes = full.out();
            if version == Version::Tls13 {
                full.0.refresh_traffic_keys().unwrap();
                bytes.extend(full.say(b"GET / HTTP/1.1\r\n\r\n"));
            }
            if cut >= bytes.len() {
                break;
            }
            let (mut out, mut text) = (Vec::new(), Vec::new());
            for piece in [&bytes[..cut], &bytes[cut..]] {
                out.extend(ours.step(piece).0);
                if ours.agreed.is_some() {
                    text.extend(ours.hear(&[]).unwrap());
                }
            }
            assert!(full.hear(&out).unwrap().is_empty());
            if version == Version::Tls13 {
                assert_eq!(text, b"GET / HTTP/1.1\r\n\r\n", "{suite:?} cut at {cut}");
                assert!(ours.keys.owe_update());
            }
            assert_eq!(full.hear(&ours.say(b"HTTP/1.1 200 OK")).unwrap(), b"HTTP/1.1 200 OK");
            cut += 1;
        }
        assert!(cut > 50);
    }
}

#[test]
fn server_s_order_of_suites_counts() {
    let trust = Trust::new();
    let mut ours = Ours::server(&trust, both_suites());
    // This one has ChaCha20 first, as OpenSSL's have.
    let mut config = trust.full_client(Version::Tls13, Suite::ChaCha20Poly1305);
    let mut provider = (**config.crypto_provider()).clone();
    provider.cipher_suites.push(rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256);
    config = client_with(&trust, provider);
    let mut full = Full::client(config);
    handshake(&mut ours, &mut full, usize::MAX);
    assert_eq!(ours.agreed.unwrap().suite, Suite::Aes128Gcm);
}

fn client_with(trust: &Trust, provider: rustls::crypto::CryptoProvider) -> ClientConfig {
    ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trust.roots.clone())
        .with_no_client_auth()
}

#[test]
fn post_quantum_exchange_is_taken_where_it_is_chosen() {
    let trust = Trust::new();
    for post_quantum in [false, true] {
        let choice = Choice { post_quantum, ..Choice::default() };
        let mut ours = Ours::server(&trust, choice);
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.kx_groups.insert(0, rustls::crypto::aws_lc_rs::kx_group::X25519MLKEM768);
        let mut full = Full::client(client_with(&trust, provider));
        handshake(&mut ours, &mut full, 900);
        let group = full.0.negotiated_key_exchange_group().unwrap().name();
        assert_eq!(group == rustls::NamedGroup::X25519MLKEM768, post_quantum, "{group:?}");
        assert_eq!(full.hear(&ours.say(b"x")).unwrap(), b"x");
    }
}

#[test]
fn client_that_speaks_h2_alone_gets_its_alert() {
    let trust = Trust::new();
    for (version, suite) in ALL {
        let mut ours = Ours::server(&trust, both_suites());
        let mut config = trust.full_client(version, suite);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let mut full = Full::client(config);
        let (out, done) = ours.step(&full.out());
        assert_eq!(done, Err(Failure::Refused(Alert::NO_APPLICATION_PROTOCOL)));
        let error = full.hear(&out).unwrap_err();
        assert_eq!(error, Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol));
        assert!(!ours.keys.are_set());
        assert_eq!(ours.step(b"more").1, Err(Failure::Ended));
    }
}

#[test]
fn client_that_has_no_suite_of_ours_is_refused() {
    let trust = Trust::new();
    let mut ours = Ours::server(&trust, Choice::default());
    let config = trust.full_client(Version::Tls13, Suite::ChaCha20Poly1305);
    let mut full = Full::client(config);
    let (out, done) = ours.step(&full.out());
    assert_eq!(done, Err(Failure::Refused(Alert::HANDSHAKE_FAILURE)));
    assert!(full.hear(&out).is_err());
}

#[test]
fn client_that_does_not_trust_the_server_is_counted_by_its_alert() {
    let (trust, other) = (Trust::new(), Trust::new());
    for (version, suite) in ALL {
        let mut ours = Ours::server(&trust, both_suites());
        let mut full = Full::client(other.full_client(version, suite));
        let (out, _) = ours.step(&full.out());
        full.hear(&out).unwrap_err();
        let (_, done) = ours.step(&full.out());
        assert!(matches!(done, Err(Failure::Received(_))), "{done:?}");
        assert!(!ours.keys.are_set());
    }
}

#[test]
fn what_is_not_tls_is_told_apart() {
    let trust = Trust::new();
    let mut ours = Ours::server(&trust, Choice::default());
    assert_eq!(ours.step(b"GET /").1, Err(Failure::NotTls));
    // A record of a version that there is not, and one that is too long: rustls says what it is.
    for (bytes, alert) in [
        (&[22, 9, 9, 0, 5, 1, 0, 0, 1, 0][..], Alert::DECODE_ERROR),
        (&[22, 3, 1, 0xff, 0xff], Alert::DECODE_ERROR),
        (&[23, 3, 3, 0, 1, 0], Alert::UNEXPECTED_MESSAGE),
    ] {
        let mut ours = Ours::server(&trust, Choice::default());
        let (out, done) = ours.step(bytes);
        assert_eq!(done, Err(Failure::Refused(alert)), "{bytes:?}");
        assert_eq!((out[0], out[out.len() - 1]), (21, alert.0), "{bytes:?}");
    }
}

/// rustls has no alert for these.
#[test]
fn fault_in_a_handshake_that_is_not_sealed_is_told_by_an_alert() {
    let trust = Trust::new();
    // Data among the pieces of a client's hello.
    let mut ours = Ours::server(&trust, Choice::default());
    let (out, done) = ours.step(&[22, 3, 1, 0, 2, 1, 0, 23, 3, 3, 0, 0]);
    assert_eq!(done, Err(Failure::Refused(Alert::UNEXPECTED_MESSAGE)));
    assert_eq!(out, [21, 3, 3, 0, 2, 2, 10]);
    // A key exchange without a key, and a change of keys among the pieces of one.
    for (bytes, alert) in [
        (&[22, 3, 3, 0, 5, 16, 0, 0, 1, 0][..], Alert::DECODE_ERROR),
        (&[22, 3, 3, 0, 2, 16, 0, 20, 3, 3, 0, 1, 1], Alert::UNEXPECTED_MESSAGE),
    ] {
        let mut ours = Ours::server(&trust, Choice::default());
        let config = trust.full_client(Version::Tls12, Suite::Aes128Gcm);
        ours.step(&Full::client(config).out()).1.unwrap();
        let (out, done) = ours.step(bytes);
        assert_eq!(done, Err(Failure::Refused(alert)));
        assert_eq!(out, [21, 3, 3, 0, 2, 2, alert.0]);
    }
    // Behind a server's hello of TLS 1.3 all is sealed, and only rustls has the keys.
    let mut ours = Ours::server(&trust, Choice::default());
    let config = trust.full_client(Version::Tls13, Suite::Aes128Gcm);
    ours.step(&Full::client(config).out()).1.unwrap();
    let (out, done) = ours.step(&[22, 3, 3, 0, 2, 16, 0, 23, 3, 3, 0, 0]);
    assert!(done.is_err());
    assert!(!out.starts_with(&[21, 3, 3, 0, 2]), "{out:?}");
}

#[test]
fn client_that_cannot_verify_the_key_is_told_so() {
    let trust = Trust::new();
    let mut ours = Ours::server(&trust, Choice::default());
    let mut hello = Full::client(trust.full_client(Version::Tls12, Suite::Aes128Gcm)).out();
    // The extension `signature_algorithms` with ECDSA by P-384 twice, and none by P-256.
    let is_there = |part: &[u8]| part[..3] == [0, 13, 0] && part[3] == part[5] + 2 && part[4] == 0;
    let at = 6 + hello.windows(6).position(is_there).unwrap();
    let len = usize::from(hello[at - 1]);
    let schemes = hello[at..at + len].chunks_exact_mut(2);
    schemes.filter(|scheme| **scheme == [4, 3]).for_each(|scheme| scheme[0] = 5);
    let (out, done) = ours.step(&hello);
    assert_eq!(done, Err(Failure::Refused(Alert::HANDSHAKE_FAILURE)));
    assert_eq!(out, [21, 3, 3, 0, 2, 2, 40]);
}

/// rustls waits for the end of a record that is a little too long, and then says so.
#[test]
fn record_that_is_too_long_is_refused_wherever_it_is_cut() {
    let trust = Trust::new();
    let record = [&[23, 3, 3, 0x41, 1][..], &[7; 0x4101]].concat();
    for cut in [5, 6, 100, record.len() - 4, record.len() - 1, record.len()] {
        let mut ours = Ours::server(&trust, Choice::default());
        let config = trust.full_client(Version::Tls13, Suite::Aes128Gcm);
        ours.step(&Full::client(config).out()).1.unwrap();
        let pieces = [&record[..cut], &record[cut..]];
        let refused = pieces.into_iter().find_map(|piece| ours.step(piece).1.err());
        assert!(matches!(refused, Some(Failure::Refused(_))), "cut at {cut}: {refused:?}");
    }
}

#[test]
fn handshake_that_never_ends_is_bounded() {
    let trust = Trust::new();
    let mut ours = Ours::server(&trust, Choice::default());
    // A client's hello of 64 KiB that never becomes whole.
    let mut bytes = 0;
    let first = [&[22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff][..], &[3; 0x3ffc]].concat();
    let more = [&[22, 3, 1, 0x40, 0][..], &[3; 0x4000]].concat();
    let failure = (0..100).find_map(|at| {
        let record = if at == 0 { &first } else { &more };
        bytes += record.len();
        ours.step(record).1.err()
    });
    assert!(failure.is_some());
    assert!(bytes <= tls::limits::HANDSHAKE_BYTES_MAX + more.len(), "{bytes}");
    // Warnings, one after the other, and records without a byte.
    for record in [&[21, 3, 1, 0, 2, 1, 90][..], &[22, 3, 1, 0, 0]] {
        let mut ours = Ours::server(&trust, Choice::default());
        assert!((0..100_000).any(|_| ours.step(record).1.is_err()), "{record:?}");
    }
}

/// A client's part behind its hello is short: it shows no certificate.
#[test]
fn what_follows_an_answered_hello_is_bounded_by_a_record() {
    let trust = Trust::new();
    let config = trust.full_client(Version::Tls12, Suite::Aes128Gcm);
    let mut ours = Ours::server(&trust, Choice::default());
    let (answer, step) = ours.step(&Full::client(config).out());
    assert!(!answer.is_empty() && step == Ok(false));
    // Its key exchange has 65,520 bytes, it says.
    let first = [&[22, 3, 3, 0x40, 0, 16, 0, 0xff, 0xf0][..], &[3; 0x3ffc]].concat();
    assert_eq!(ours.step(&first).1, Ok(false));
    let more = [&[22, 3, 3, 0x40, 0][..], &[3; 0x4000]].concat();
    assert_eq!(ours.step(&more).1, Err(Failure::TooLong));
}
