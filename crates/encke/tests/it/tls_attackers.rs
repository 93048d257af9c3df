//! Streams over TLS whose network or peer breaks its rules: records forged, too long and in pieces,
//! a version talked down, names and dates that do not fit. Each ends alone, and others go on.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, CertificateError, ClientConfig, ClientConnection, Error};
use rustls::{PeerMisbehaved, RootCertStore, SupportedProtocolVersion};

use super::tls_api::{metric, metric_if_any, shown};
use crate::harness::{Authority, DEADLINE, Issued, Server, get, tls_client, wait_for};

const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A server of one worker: what has come before a request is dealt with before the next one is.
fn server(pair: &Issued) -> Server {
    let [certificate, key] = pair.options();
    Server::start(&["--tls-listen=127.0.0.1:0", "--workers=1", &certificate, &key])
}

/// A client of rustls whose bytes go through the test's hands.
struct Client {
    tls: ClientConnection,
    wire: TcpStream,
}

impl Client {
    fn connect(
        server: &Server,
        authority: &Authority,
        versions: &[&'static SupportedProtocolVersion],
    ) -> Client {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.ca()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("localhost").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let wire = TcpStream::connect(server.tls_listen()).unwrap();
        wire.set_read_timeout(Some(DEADLINE)).unwrap();
        wire.set_nodelay(true).unwrap();
        Client { tls, wire }
    }

    /// What it has to send, after it was told to send `text`.
    fn out(&mut self, text: &[u8]) -> Vec<u8> {
        self.tls.writer().write_all(text).unwrap();
        let mut out = Vec::new();
        while self.tls.wants_write() {
            self.tls.write_tls(&mut out).unwrap();
        }
        out
    }

    fn send(&mut self, bytes: &[u8]) {
        self.wire.write_all(bytes).unwrap();
    }

    /// Takes what comes next from the server.
    fn hear(&mut self) -> Result<String, Error> {
        let len = self.tls.read_tls(&mut self.wire).unwrap();
        assert!(len > 0, "the server has ended without an alert");
        self.tls.process_new_packets()?;
        let mut text = String::new();
        match self.tls.reader().read_to_string(&mut text) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => panic!("{error}"),
            _ => Ok(text),
        }
    }

    /// Goes on until it may send text; what it has to send before that is left to be sent.
    fn until_it_may_speak(&mut self) {
        let hello = self.out(b"");
        self.send(&hello);
        while !self.tls.wants_write() {
            assert_eq!(self.hear().unwrap(), "");
        }
    }

    fn shake_hands(&mut self) {
        while self.tls.is_handshaking() {
            self.tls.complete_io(&mut self.wire).unwrap();
        }
    }

    fn hear_until(&mut self, end: &str) -> String {
        let mut text = String::new();
        while !text.contains(end) {
            text += &self.hear().unwrap();
        }
        text
    }

    /// Goes on hearing until the server ends it with an alert.
    fn alert(&mut self) -> AlertDescription {
        loop {
            match self.hear() {
                Ok(text) => assert_eq!(text, ""),
                Err(Error::AlertReceived(alert)) => return alert,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn forged_and_too_long_records_end_their_connection_with_an_alert() {
    let authority = Authority::new();
    let server = server(&authority.issue("own", &["localhost"]));
    let mut innocent = tls_client(server.tls_listen(), "localhost", &authority.ca());
    innocent.write_all(get("/stream/bob", &[]).as_bytes()).unwrap();
    server.wait_online("bob", 1);
    for (round, version) in (1..).zip(VERSIONS) {
        let mut forged = Client::connect(&server, &authority, &[version]);
        forged.shake_hands();
        let mut record = forged.out(get("/stream/eve", &[]).as_bytes());
        let last = record.len() - 20;
        record[last] ^= 1;
        forged.send(&record);
        assert_eq!(forged.alert(), AlertDescription::BadRecordMac, "{version:?}");
        let mut long = Client::connect(&server, &authority, &[version]);
        long.shake_hands();
        // 2^14 + 256 bytes and one (RFC 8446, section 5.2).
        long.send(&[23, 3, 3, 0x41, 1]);
        assert_eq!(long.alert(), AlertDescription::RecordOverflow, "{version:?}");
        for alert in ["bad_record_mac", "record_overflow"] {
            let figure = format!("encke_tls_faults_total{{alert=\"{alert}\"}} ");
            wait_for("it is counted", || metric_if_any(&server, &figure) == Some(round));
        }
    }
    assert_eq!(server.api.connections("eve"), 0);
    assert_eq!(server.api.send("bob", "still here"), 1);
    let mut text = String::new();
    while !text.contains("still here") {
        let mut piece = [0; 1024];
        let len = innocent.read(&mut piece).unwrap();
        assert!(len > 0, "it ended after {text:?}");
        text += str::from_utf8(&piece[..len]).unwrap();
    }
}

/// The rest of a client's handshake and its request, cut at every byte: the first parts of all
/// are dealt with before the second ones are sent.
#[test]
fn client_is_heard_wherever_its_bytes_are_cut() {
    let authority = Authority::new();
    let server = server(&authority.issue("own", &["localhost"]));
    let mut probe = Client::connect(&server, &authority, &[&TLS13]);
    probe.shake_hands();
    let request = get("/poll/bob?wait=0", &[]);
    let mut ask_twice = || {
        for _ in 0..2 {
            let bytes = probe.out(request.as_bytes());
            probe.send(&bytes);
            probe.hear_until("[]\n");
        }
    };
    for version in VERSIONS {
        let mut cuts = Vec::new();
        loop {
            let mut client = Client::connect(&server, &authority, &[version]);
            client.until_it_may_speak();
            // In TLS 1.2 the request waits for the end of the server's handshake.
            let bytes = client.out(request.as_bytes());
            let Some((first, rest)) = bytes.split_at_checked(cuts.len() + 1) else { break };
            client.send(first);
            cuts.push((client, rest.to_vec()));
        }
        assert!(cuts.len() > 80, "{version:?}: {}", cuts.len());
        ask_twice();
        for (client, rest) in &mut cuts {
            client.send(rest);
        }
        // And the request alone.
        for (at, (client, _)) in cuts.iter_mut().enumerate() {
            while client.tls.is_handshaking() {
                client.hear().unwrap();
            }
            if version.version == TLS12.version {
                let bytes = client.out(b"");
                let at = (at + 1).min(bytes.len());
                client.send(&bytes[..at]);
                client.send(&bytes[at..]);
            }
            let answer = client.hear_until("[]\n");
            assert!(answer.starts_with("HTTP/1.1 200"), "cut at {at}: {answer}");
        }
    }
}

#[test]
fn client_s_bytes_may_come_one_by_one() {
    let authority = Authority::new();
    let server = server(&authority.issue("own", &["localhost"]));
    for version in VERSIONS {
        let mut client = Client::connect(&server, &authority, &[version]);
        let request = get("/poll/bob?wait=0", &[]);
        client.tls.writer().write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        while !answer.contains("[]\n") {
            for byte in client.out(b"") {
                client.send(&[byte]);
            }
            answer += &client.hear().unwrap();
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

/// Somebody on the way strikes TLS 1.3 off the client's hello: what the server puts into its random
/// bytes then tells the client (RFC 8446, section 4.1.3).
#[test]
fn version_that_is_talked_down_is_seen_by_the_client() {
    let authority = Authority::new();
    let server = server(&authority.issue("own", &["localhost"]));
    let mut client = Client::connect(&server, &authority, &[&TLS12, &TLS13]);
    let mut hello = client.out(b"");
    // The extension `supported_versions` with 1.3 and 1.2 in it becomes one that nobody knows.
    let versions = [0, 43, 0, 5, 4, 3, 4, 3, 3];
    let at = hello.windows(versions.len()).position(|part| part == versions).unwrap();
    hello[at..at + 2].copy_from_slice(&[0xfa, 0xfa]);
    client.send(&hello);
    let seen = client.hear().unwrap_err();
    let downgrade = PeerMisbehaved::AttemptedDowngradeToTls12WhenTls13IsSupported;
    assert_eq!(seen, Error::PeerMisbehaved(downgrade));
}

#[test]
fn name_without_a_certificate_gets_the_first_one() {
    let authority = Authority::new();
    let [first, second] = ["first", "second"].map(|name| authority.issue(name, &[name]));
    let (one, two) = (first.options(), second.options());
    let tls = "--tls-listen=127.0.0.1:0";
    let server = Server::start(&[tls, &one[0], &one[1], &two[0], &two[1]]);
    let pem = std::fs::read_to_string(&first.certificate).unwrap().replace('\r', "");
    for (name, unmatched) in [(Some("third"), 1), (None, 1)] {
        let Some(shown) = shown(server.tls_listen(), name) else { return };
        assert!(pem.starts_with(&shown), "{name:?} gets {shown}");
        assert_eq!(metric(&server, "encke_tls_unmatched_names_total "), unmatched);
    }
}

#[test]
fn expired_certificate_is_refused_by_the_client_and_counted() {
    let authority = Authority::new();
    let server = server(&authority.issue_until("old", &["localhost"], 2020));
    for (round, version) in (1..).zip(VERSIONS) {
        let mut client = Client::connect(&server, &authority, &[version]);
        let hello = client.out(b"");
        client.send(&hello);
        let error = loop {
            if let Err(error) = client.hear() {
                break error;
            }
        };
        let Error::InvalidCertificate(why) = error else { panic!("{error}") };
        assert!(matches!(why, CertificateError::ExpiredContext { .. }), "{why:?}");
        let alert = client.out(b"");
        client.send(&alert);
        let figure =
            "encke_tls_handshake_failures_total{by=\"client\",reason=\"certificate_expired\"} ";
        wait_for("it is counted", || metric_if_any(&server, figure) == Some(round));
    }
}
