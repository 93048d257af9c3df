//! Streams over TLS: keys and numbers of records are inherited, so that neither side notices.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion};
use serde_json::json;
use testing::wait_within;

use super::served::Upgraded;
use super::subscriber::{Kind, Subscriber, connect};
use crate::harness::{Authority, DEADLINE, frame, wait_for};

pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// The server has one suite of each: AES-128-GCM.
pub(crate) const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

const KINDS: [Kind; 5] =
    [Kind::Sse, Kind::Ndjson, Kind::WebSocket, Kind::Deflated, Kind::OldNdjson];

fn serve(authority: &Authority, options: &[&str]) -> Upgraded {
    let pair = authority.issue("own", &["localhost"]).options();
    let own = ["--tls-listen=127.0.0.1:0", "--websocket-deflate", &pair[0], &pair[1]];
    Upgraded::serve(&[&own, options].concat())
}

/// A client that knows this version alone.
pub(crate) fn client(
    authority: &Authority,
    address: SocketAddr,
    version: &'static SupportedProtocolVersion,
) -> Tls {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[version]).unwrap();
    let roots = server::roots(Some(&authority.ca())).unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let connection = ClientConnection::new(Arc::new(config), name).unwrap();
    StreamOwned::new(connection, connect(address))
}

fn one_of_each(authority: &Authority, server: &Upgraded) -> Vec<Subscriber<Tls>> {
    let mut subscribers = Vec::new();
    for version in VERSIONS {
        for kind in KINDS {
            let own = format!("own:{}", subscribers.len());
            let socket = client(authority, server.tls_listen(), version);
            subscribers.push(Subscriber::on(socket, kind, &[&own, "all"], None));
        }
    }
    subscribers
}

#[track_caller]
fn all_hear(server: &Upgraded, subscribers: &mut [Subscriber<Tls>], text: &str) {
    assert_eq!(server.api.send("all", text), subscribers.len() as u64);
    for (n, subscriber) in subscribers.iter_mut().enumerate() {
        let how = (subscriber.kind, subscriber.socket.conn.protocol_version());
        assert_eq!(server.api.send(&format!("own:{n}"), n.to_string()), 1, "{how:?}");
        assert_eq!(
            (subscriber.data(), subscriber.data()),
            (json!(text), json!(n.to_string())),
            "{how:?}"
        );
    }
}

#[test]
fn streams_of_both_versions_hear_on() {
    let authority = Authority::new();
    let server = serve(&authority, &["--keepalive=0.3"]);
    let mut subscribers = one_of_each(&authority, &server);
    all_hear(&server, &mut subscribers, "before");
    for round in 0..3 {
        server.upgrade(&[]);
        all_hear(&server, &mut subscribers, &format!("after {round}"));
        for subscriber in &mut subscribers {
            // A ping is answered: numbers of records go on in both directions.
            let wanted = subscriber.keep_alives + 2;
            while subscriber.keep_alives < wanted {
                subscriber.read().unwrap();
            }
            if matches!(subscriber.kind, Kind::WebSocket | Kind::Deflated) {
                assert_eq!(subscriber.command(&json!({ "ping": round }))["ok"]["ping"], round);
            }
        }
    }
    // Longer than a record, and cut into several.
    all_hear(&server, &mut subscribers, &"x".repeat(40_000));
    let stats = server.api.stats();
    assert_eq!(stats["connections_open"], subscribers.len(), "{stats}");
    assert_eq!(stats["tls"]["faults"], json!({}), "{stats}");
}

#[test]
fn close_notify_of_a_client_behind_an_upgrade_is_heard() {
    let authority = Authority::new();
    let server = serve(&authority, &[]);
    let mut subscribers = one_of_each(&authority, &server);
    let count = subscribers.len() as u64;
    server.upgrade(&[]);
    for subscriber in &mut subscribers {
        subscriber.socket.conn.send_close_notify();
        subscriber.socket.flush().unwrap();
    }
    server.wait_closed("client_closed", count);
    drop(subscribers);
    // And ours is heard: an orderly end of each.
    let mut subscribers = one_of_each(&authority, &server);
    server.upgrade(&[]);
    assert_eq!(server.api.logout("all"), count);
    subscribers.iter_mut().for_each(Subscriber::expect_end);
}

/// A record of the client's that is half there, cut in its head, its text, its tag.
#[test]
fn half_a_record_goes_on() {
    let authority = Authority::new();
    let server = serve(&authority, &[]);
    let mut halves = Vec::new();
    for version in VERSIONS {
        for part in [1, 4, 5, 6, 20, 40] {
            let socket = client(&authority, server.tls_listen(), version);
            let mut subscriber = Subscriber::on(socket, Kind::WebSocket, &["all"], None);
            let command = json!({ "login": [format!("id:{}", halves.len())] }).to_string();
            let mut record = Vec::new();
            subscriber.socket.conn.writer().write_all(&frame(0x81, command.as_bytes())).unwrap();
            while subscriber.socket.conn.wants_write() {
                subscriber.socket.conn.write_tls(&mut record).unwrap();
            }
            subscriber.socket.sock.write_all(&record[..part]).unwrap();
            halves.push((subscriber, record[part..].to_vec()));
        }
    }
    server.upgrade(&[]);
    for (n, (subscriber, rest)) in halves.iter_mut().enumerate() {
        subscriber.socket.sock.write_all(rest).unwrap();
        assert_eq!(subscriber.answer()["ok"]["login"], json!([format!("id:{n}")]));
        assert_eq!(server.api.send(&format!("id:{n}"), "own"), 1);
        assert_eq!(subscriber.data(), "own");
    }
}

/// Slow readers whose records are cut anywhere.
#[test]
fn slow_readers_go_on_inside_of_a_record() {
    let authority = Authority::new();
    let server = serve(&authority, &["--max-backlog=8MiB"]);
    let mut subscribers = one_of_each(&authority, &server);
    let text = |n: usize| format!("{n}:{}", "0123456789abcdef".repeat(1_000 + n));
    let count = 100;
    for n in 0..count {
        assert_eq!(server.api.send("all", text(n)), subscribers.len() as u64);
    }
    let buffered = || server.api.stats()["buffered_bytes"].as_u64().unwrap();
    wait_for("enough waits", || buffered() > 1 << 18);
    server.upgrade(&[]);
    for subscriber in &mut subscribers {
        for n in 0..count {
            assert_eq!(subscriber.data(), text(n), "{:?}", subscriber.kind);
        }
    }
    all_hear(&server, &mut subscribers, "at last");
}

/// What a handshake that is not done needs cannot be written down: it goes on, or its client is
/// told the end and comes again; whoever comes meanwhile is served at the latest when it tries
/// again, and no handshake stays behind.
#[test]
fn handshakes_on_the_way_end_one_way_or_the_other() {
    let authority = Authority::new();
    let server = serve(&authority, &[]);
    let mut half = client(&authority, server.tls_listen(), &TLS13);
    let mut hello = Vec::new();
    half.conn.write_tls(&mut hello).unwrap();
    half.sock.write_all(&hello).unwrap();
    wait_for("it is under way", || server.api.stats()["tls"]["handshakes_open"] == 1);
    let (stop, address) = (AtomicBool::new(false), server.tls_listen());
    let (tried, failed) = std::thread::scope(|scope| {
        let trying = scope.spawn(|| {
            let (mut tried, mut failed) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                tried += 1;
                failed += u64::from(poll_once(&authority, address).is_err());
            }
            (tried, failed)
        });
        (0..3).for_each(|_| drop(server.upgrade(&[])));
        stop.store(true, Ordering::Relaxed);
        trying.join().unwrap()
    });
    println!("of {tried} that came by TLS during 3 upgrades {failed} had to come again");
    assert!(failed <= 6, "{failed} of {tried}");
    poll_once(&authority, address).unwrap();
    // It is gone, or it goes on.
    let _ = half.conn.complete_io(&mut half.sock);
    drop(half);
    let mut stats = json!(null);
    let is_over = || {
        stats = server.api.stats();
        stats["tls"]["handshakes_open"] == 0 && stats["connections_open"] == 0
    };
    let over = wait_within(DEADLINE, is_over);
    assert!(over, "none is left: {stats}");
}

fn poll_once(authority: &Authority, address: SocketAddr) -> io::Result<()> {
    let mut socket = client(authority, address, &TLS13);
    socket.write_all(crate::harness::get("/poll/p?wait=0", &[]).as_bytes())?;
    let mut start = [0; 12];
    socket.read_exact(&mut start)?;
    match &start {
        b"HTTP/1.1 200" => Ok(()),
        other => Err(io::Error::new(ErrorKind::InvalidData, String::from_utf8_lossy(other))),
    }
}
