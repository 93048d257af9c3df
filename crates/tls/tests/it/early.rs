//! Early data, which a client has from a server of before and ours refuses: it is passed over, and
//! the handshake goes on.

use std::io::Write;

use rustls::crypto::aws_lc_rs::kx_group;
use rustls::{CipherSuite, ClientConfig, Connection, HandshakeKind};
use tls::{Alert, Choice, Failure, Suite, Version};

use crate::both::handshake;
use crate::parties::{Full, Ours, Trust, both_suites};

/// A client that has a ticket for early data, of a server with the same name.
fn with_ticket(trust: &Trust, mut config: ClientConfig, max_fragment: Option<usize>) -> Full {
    let suite = match config.crypto_provider().cipher_suites[0].suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => Suite::Aes128Gcm,
        _ => Suite::ChaCha20Poly1305,
    };
    let mut server = trust.full_server(Version::Tls13, suite);
    server.max_early_data_size = 1 << 16;
    config.enable_early_data = true;
    // The copies share their tickets.
    let (mut client, mut server) = (Full::client(config.clone()), Full::server(server));
    for _ in 0..3 {
        server.hear(&client.out()).unwrap();
        client.hear(&server.out()).unwrap();
    }
    config.max_fragment_size = max_fragment;
    Full::client(config)
}

/// A record, or more, for each of these lengths.
fn send_early(full: &mut Full, lengths: &[usize]) {
    let Connection::Client(client) = &mut full.0 else { panic!("it is a server") };
    for len in lengths {
        client.early_data().unwrap().write_all(&vec![b'e'; *len]).unwrap();
    }
}

fn goes_on(ours: &mut Ours, full: &mut Full, piece: usize) {
    handshake(ours, full, piece);
    let Connection::Client(client) = &full.0 else { panic!("it is a server") };
    assert!(!client.is_early_data_accepted());
    assert_eq!(ours.hear(&full.say(b"GET")).unwrap(), b"GET");
    assert_eq!(full.hear(&ours.say(b"200")).unwrap(), b"200");
}

#[test]
fn early_data_in_several_records_is_passed_over() {
    let trust = Trust::new();
    for suite in [Suite::Aes128Gcm, Suite::ChaCha20Poly1305] {
        for lengths in [&[16_000][..], &[6_000; 2], &[1_000; 15], &[100; 100], &[1; 500], &[1]] {
            for piece in [usize::MAX, 5_000, 700, 7] {
                let config = trust.full_client(Version::Tls13, suite);
                let mut full = with_ticket(&trust, config, None);
                send_early(&mut full, lengths);
                let mut ours = Ours::server(&trust, both_suites());
                goes_on(&mut ours, &mut full, piece);
            }
        }
    }
}

/// What the handshake's key has opened is no early data, though it waits for more in the same way.
#[test]
fn client_s_end_in_pieces_behind_early_data_is_heard() {
    let trust = Trust::new();
    for piece in [usize::MAX, 40, 1] {
        let config = trust.full_client(Version::Tls13, Suite::Aes128Gcm);
        let mut full = with_ticket(&trust, config, Some(32));
        send_early(&mut full, &[3_000]);
        let mut ours = Ours::server(&trust, both_suites());
        goes_on(&mut ours, &mut full, piece);
    }
}

/// The client's key is for a group that is not ours: it is asked for another hello.
#[test]
fn early_data_before_another_hello_is_passed_over() {
    let trust = Trust::new();
    let whole = trust.full_client(Version::Tls13, Suite::Aes128Gcm);
    let mut provider = (**whole.crypto_provider()).clone();
    provider.kx_groups = vec![kx_group::SECP384R1, kx_group::X25519];
    let mut config = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(trust.roots.clone())
        .with_no_client_auth();
    config.alpn_protocols = whole.alpn_protocols;
    for (lengths, max_fragment) in [
        (&[12_000][..], None),
        (&[6_000; 2], None),
        (&[1_000; 15], None),
        // Then its end comes in pieces, too.
        (&[3_000], Some(32)),
    ] {
        for piece in [usize::MAX, 700] {
            let mut full = with_ticket(&trust, config.clone(), max_fragment);
            send_early(&mut full, lengths);
            let mut ours = Ours::server(&trust, both_suites());
            goes_on(&mut ours, &mut full, piece);
            let kind = full.0.handshake_kind();
            assert_eq!(kind, Some(HandshakeKind::FullWithHelloRetryRequest));
        }
    }
}

#[test]
fn early_data_beyond_its_bound_ends_the_handshake() {
    let trust = Trust::new();
    for (lengths, piece) in [(&[6_000; 3][..], usize::MAX), (&[1; 1_000], 900)] {
        let config = trust.full_client(Version::Tls13, Suite::Aes128Gcm);
        let mut full = with_ticket(&trust, config, None);
        send_early(&mut full, lengths);
        let mut ours = Ours::server(&trust, both_suites());
        let bytes = full.out();
        let mut pieces = bytes.chunks(piece.min(bytes.len()));
        let refused = pieces.find_map(|piece| ours.step(piece).1.err());
        assert_eq!(refused, Some(Failure::Refused(Alert::BAD_RECORD_MAC)));
    }
}

/// A hello of TLS 1.3 that says that early data comes with it (extension 42), without a session.
fn hello_with_early_data(trust: &Trust) -> Vec<u8> {
    let config = trust.full_client(Version::Tls13, Suite::Aes128Gcm);
    let mut hello = Full::client(config).out();
    // Behind the record's head of 5 bytes, the message's of 4, the version and the random.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    at += 1 + usize::from(hello[at]);
    hello.extend([0, 42, 0, 0]);
    // The lengths of the record, of the message and of the extensions.
    for place in [3, 7, at] {
        let len = u16::from_be_bytes([hello[place], hello[place + 1]]) + 4;
        hello[place..place + 2].copy_from_slice(&len.to_be_bytes());
    }
    hello
}

#[test]
fn records_without_a_byte_among_refused_early_data_end_the_handshake() {
    let trust = Trust::new();
    for body in [0, 1, 16] {
        let mut ours = Ours::server(&trust, Choice::default());
        ours.step(&hello_with_early_data(&trust)).1.unwrap();
        // All were looked at again with each of them: ten seconds of a worker for these.
        let record = [&[23, 3, 3, 0, body][..], &vec![7; usize::from(body)]].concat();
        let refused = ours.step(&record.repeat(19_000 / (1 + usize::from(body)))).1.err();
        assert_eq!(refused, Some(Failure::Refused(Alert::BAD_RECORD_MAC)), "{body}");
    }
}
