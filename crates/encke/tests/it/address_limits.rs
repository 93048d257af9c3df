//! What one address and one id may have, and whose word on addresses is taken.
//!
//! A trusted peer names whatever address it likes, so one machine is a crowd of foreign clients
//! here. One who comes by itself is tried where this machine has an address beside loopback.

use std::net::{IpAddr, SocketAddr, UdpSocket};

use serde_json::{Value, json};

use crate::harness::{
    Answer, End, Head, Server, Socket, Stream, Wire, check_problem, frame, get, read_answer,
    wait_for,
};

const TRUST: &str = "--trust=127.0.0.1";

/// A header of version 1 for a client at `address`.
fn v1(address: &str) -> String {
    let family = if address.contains(':') { "TCP6" } else { "TCP4" };
    format!("PROXY {family} {address} {address} 1024 80\r\n")
}

/// The same in version 2, with a TLV.
fn v2(address: &str) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    let (family, octets) = match address.parse().unwrap() {
        IpAddr::V4(address) => (0x11, address.octets().to_vec()),
        IpAddr::V6(address) => (0x21, address.octets().to_vec()),
    };
    let rest = [&octets[..], &octets, &[4, 0, 0, 80], b"\x04\0\x01x"].concat();
    header.extend([family, 0, rest.len() as u8]);
    header.extend(rest);
    header
}

/// A connection that is for `address`.
fn proxied(server: &Server, address: &str) -> Wire {
    server.ask(v1(address))
}

/// A stream of `id` for `address`.
fn listener(server: &Server, address: &str, id: &str) -> Stream {
    Stream::on(proxied(server, address), &format!("/stream/{id}"), "application/x-ndjson")
}

/// Reads a refusal that says 429 and names `option`, and the end behind it.
fn too_many(mut wire: Wire, option: &str) -> Head {
    let answer = read_answer(&mut wire, "GET").unwrap();
    let problem: Value = serde_json::from_str(&answer.body).unwrap();
    check_problem(&problem, 429);
    assert!(problem["detail"].as_str().unwrap().contains(option), "{problem}");
    assert!(answer.head.field("retry-after").unwrap().parse::<u32>().unwrap() > 0);
    assert_eq!(wire.end(), End::Fin);
    answer.head
}

fn asks_in_vain(server: &Server, address: &str, option: &str) {
    let mut wire = proxied(server, address);
    wire.send(get("/stream/1", &[]));
    too_many(wire, option);
}

/// The answer to a poll on `wire` for which a proxy has written `fields`.
fn poll(wire: &mut Wire, fields: &[&str]) -> Answer {
    wire.send(get("/poll/1?wait=0", fields));
    read_answer(wire, "GET").unwrap()
}

fn bounds_met(server: &Server, bound: &str) -> u64 {
    server.api.stats()["bounds_met"][bound].as_u64().unwrap()
}

#[test]
fn connections_of_an_address_are_bounded_and_come_back_however_they_end() {
    const OPTION: &str = "--max-connections-per-address";
    let server = Server::start(&[TRUST, "--max-connections-per-address=4"]);
    let (crowd, neighbour) = ("203.0.113.1", "203.0.113.2");
    let mut streams: Vec<_> = (0..4).map(|_| listener(&server, crowd, "1")).collect();
    asks_in_vain(&server, crowd, OPTION);
    let mut other = listener(&server, neighbour, "1");
    assert_eq!(server.api.send("1", "all"), 5);
    streams.iter_mut().for_each(|stream| assert_eq!(stream.data(), "all"));
    assert_eq!(other.data(), "all");
    // An end, a reset, a log-out, and a request that is refused.
    drop(streams.pop());
    streams.pop().unwrap().wire.reset();
    server.wait_open(3);
    streams.extend((0..2).map(|_| listener(&server, crowd, "2")));
    asks_in_vain(&server, crowd, OPTION);
    assert_eq!(server.api.post("/logout/2", &json!(null)).ok()["closed"], 2);
    streams.drain(2..).for_each(|mut stream| stream.expect_last_chunk());
    server.wait_open(3);
    let mut refused = proxied(&server, crowd);
    refused.send(get("/nowhere", &[]));
    assert_eq!(refused.head().status, 404);
    drop(refused);
    server.wait_open(3);
    streams.extend((0..2).map(|_| listener(&server, crowd, "1")));
    asks_in_vain(&server, crowd, OPTION);
    server.wait_closed("address_limit", 3);
    assert_eq!(bounds_met(&server, "connections_per_address"), 3);
    let metrics = server.api.get("/metrics").body;
    let counts = metrics.lines().filter(|line| line.starts_with("encke_bounds_met_total"));
    let counts = counts.filter(|line| line.contains("bound=\"connections_per_address\""));
    let sum: u64 =
        counts.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(sum, 3);
}

#[test]
fn connects_a_second_are_bounded_by_address_and_pass() {
    let server = Server::start(&[TRUST, "--max-connects-per-address=5"]);
    let (crowd, neighbour) = ("203.0.113.1", "203.0.113.2");
    // 200 ms pass until the next one is let in, or a second until five are.
    let refused = (0..60).find(|_| {
        let mut wire = proxied(&server, crowd);
        wire.send(get("/poll/1?wait=0", &[]));
        wire.head().status == 429
    });
    assert!(refused.is_some_and(|at| at >= 5), "{refused:?}");
    wait_for("it is told which bound that is", || {
        let mut wire = proxied(&server, crowd);
        wire.send(get("/poll/1?wait=0", &[]));
        let answer = read_answer(&mut wire, "GET").unwrap();
        answer.body.contains("--max-connects-per-address")
    });
    let _other = listener(&server, neighbour, "1");
    wait_for("it may connect again", || {
        let mut wire = proxied(&server, crowd);
        wire.send(get("/poll/1?wait=0", &[]));
        wire.head().status == 200
    });
    assert!(bounds_met(&server, "connects_per_address") >= 2);
}

#[test]
fn request_bytes_a_second_are_bounded_by_address_on_every_transport() {
    let server = Server::start(&[TRUST, "--max-request-bytes-per-address=4KiB"]);
    let pad = format!("X-Pad: {}", "x".repeat(7000));
    // Four times as much at once: two such heads and a bit.
    let mut poller = proxied(&server, "203.0.113.1");
    let status = (0..20).find_map(|_| {
        let answer = poll(&mut poller, &[&pad]);
        (answer.head.status != 200).then_some(answer)
    });
    let answer = status.expect("20 heads of 7 KiB");
    assert_eq!(answer.head.status, 429);
    assert!(answer.body.contains("--max-request-bytes-per-address"), "{}", answer.body);
    assert_eq!(poller.end(), End::Fin);
    // Another address has sent nothing yet.
    let mut socket = proxied(&server, "203.0.113.2");
    socket.send(get("/stream/1", &Socket::FIELDS));
    assert_eq!(socket.head().status, 101);
    let pings = frame(0x89, &[b'x'; 100]).repeat(500);
    // The server may be done with it before all is written.
    let _ = socket.try_send(&pings);
    let close = [&[0x88, 15][..], &1008_u16.to_be_bytes(), b"address_limit"].concat();
    socket.take_through(&close).unwrap();
    drop(socket);
    let mut stray = listener(&server, "203.0.113.3", "1");
    stray.wire.send_until_cut_off([b'x'; 8000]);
    server.wait_closed("address_limit", 3);
    assert_eq!(bounds_met(&server, "request_bytes_per_address"), 3);
    let _other = listener(&server, "203.0.113.4", "1");
}

#[test]
fn connections_of_an_id_are_bounded_in_requests_polls_and_frames() {
    let server = Server::start(&["--max-connections-per-id=2"]);
    let mut streams: Vec<_> = (0..2).map(|_| server.listener("full")).collect();
    for path in ["/stream/full", "/poll/full", "/stream/a?id=full", "/test/full"] {
        too_many(server.ask(get(path, &[])), "--max-connections-per-id");
    }
    let mut upgrade = server.ask(get("/stream/full", &Socket::FIELDS));
    assert_eq!(upgrade.head().status, 429);
    let mut socket = Socket::open(server.listen(), "/stream/b");
    let answer = socket.ask(json!({ "login": ["c", "full"] }));
    check_problem(&answer["error"], 429);
    assert_eq!((server.api.connections("a"), server.api.connections("c")), (0, 0), "all or none");
    assert_eq!(bounds_met(&server, "connections_per_id"), 6);
    drop(streams.pop());
    server.wait_online("full", 1);
    let answer = socket.ask(json!({ "login": ["c", "full"] }));
    assert_eq!(answer["ok"]["login"], json!(["c", "full"]));
    assert_eq!(server.api.send("full", "two"), 2);
    assert_eq!(socket.data(), "two");
    // Who has it already is not refused.
    let answer = socket.ask(json!({ "login": ["full"] }));
    assert_eq!(answer["ok"]["login"], json!(["full"]));
    drop(socket);
    server.wait_online("full", 1);
    let _stream = server.listener("full");
}

#[test]
fn proxy_header_is_read_in_both_versions_wherever_it_is_split() {
    let server = Server::start(&[TRUST, "--max-connections-per-address=1"]);
    let request = get("/poll/1?wait=0", &[]);
    for address in ["203.0.113.1", "2001:db8::1"] {
        let taken = listener(&server, address, "1");
        for header in [v1(address).into_bytes(), v2(address)] {
            // At every byte: the reader's own tests, and the simulator.
            for split in [1, header.len() / 2, header.len() - 1, header.len(), header.len() + 1] {
                let all = [&header, request.as_bytes()].concat();
                let mut wire = server.connect();
                wire.send(&all[..split]);
                wire.send(&all[split..]);
                too_many(wire, "--max-connections-per-address");
            }
        }
        drop(taken);
    }
    // A proxy that speaks for itself, or knows nobody, is no foreign client.
    let local = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\0\0";
    let _streams: Vec<_> = [&local[..], b"PROXY UNKNOWN\r\n", b"", local, b""]
        .map(|header| Stream::on(server.ask(header), "/stream/1", "*/*"))
        .into();
    for broken in [&b"PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x31\x11\0\0"] {
        let mut wire = server.ask(broken);
        assert_eq!(wire.head().status, 400);
        assert_eq!(wire.end(), End::Fin);
    }
}

#[test]
fn nobody_is_believed_who_is_not_trusted() {
    let options = ["--trust=192.0.2.77,198.51.100.0/24", "--max-connections-per-address=1"];
    let server = Server::start(&options);
    for header in [v1("203.0.113.1").into_bytes(), v2("203.0.113.1")] {
        let mut wire = server.ask(header);
        let answer = read_answer(&mut wire, "GET").unwrap();
        assert_eq!(answer.head.status, 400);
        assert!(answer.body.contains("--trust"), "{}", answer.body);
    }
    // Were the fields believed the second would be one too many.
    let fields = ["Forwarded: for=203.0.113.1", "X-Forwarded-For: 203.0.113.1", "Accept: */*"];
    let mut wires = [server.connect(), server.connect()];
    for wire in &mut wires {
        wire.send(get("/stream/1", &fields));
        assert_eq!(wire.head().status, 200);
    }
    server.wait_closed("bad_request", 2);
    assert_eq!(server.api.stats()["connections_closed"]["address_limit"], 0);
}

#[test]
fn client_behind_a_proxy_header_is_believed_nothing() {
    let server = Server::start(&[TRUST, "--trust=10.0.0.0/8", "--max-connections-per-address=1"]);
    let _taken = listener(&server, "203.0.113.1", "1");
    let mut second = proxied(&server, "203.0.113.2");
    second.send(v1("203.0.113.3"));
    assert_eq!(second.head().status, 400, "one header is the proxy's, the next the client's");
    drop(second);
    server.wait_open(1);
    // It says that it is somebody else, and is counted as what it is.
    let fields = ["X-Forwarded-For: 203.0.113.1", "Forwarded: for=203.0.113.1"];
    let mut spoofer = proxied(&server, "203.0.113.2");
    assert_eq!(poll(&mut spoofer, &fields).head.status, 200);
    asks_in_vain(&server, "203.0.113.2", "--max-connections-per-address");
    // A proxy behind the proxy is believed.
    let mut chained = proxied(&server, "10.1.2.3");
    assert_eq!(poll(&mut chained, &["X-Forwarded-For: 203.0.113.4"]).head.status, 200);
    asks_in_vain(&server, "203.0.113.4", "--max-connections-per-address");
    // And the client of it that claims another address to the left of its own is not.
    let mut claims = proxied(&server, "10.1.2.3");
    let field = "Forwarded: for=9.9.9.9, for=203.0.113.4;proto=https, for=\"10.9.9.9:80\"";
    claims.send(get("/poll/1?wait=0", &[field]));
    too_many(claims, "--max-connections-per-address");
}

#[test]
fn poll_moves_its_connection_to_the_address_that_its_proxy_names() {
    let server = Server::start(&[TRUST, "--max-connections-per-address=1"]);
    let mut proxy = server.connect();
    let one = "X-Forwarded-For: 6.6.6.6, 203.0.113.1";
    assert_eq!(poll(&mut proxy, &[one]).head.status, 200);
    assert_eq!(poll(&mut proxy, &[one]).head.status, 200, "it is the one that it has");
    asks_in_vain(&server, "203.0.113.1", "--max-connections-per-address");
    let others = [
        "Forwarded: for=\"[2001:db8::1]:4711\"",
        "X-Forwarded-For: 203.0.113.2:1234",
        "X-Forwarded-For: unknown",
        "X-Nothing: is said",
    ];
    for other in others {
        assert_eq!(poll(&mut proxy, &[other]).head.status, 200);
        let freed = listener(&server, "203.0.113.1", "1");
        drop(freed);
        server.wait_open(1);
        assert_eq!(poll(&mut proxy, &[one]).head.status, 200);
    }
    assert_eq!(poll(&mut proxy, &[others[0]]).head.status, 200);
    // Named again while another has its place it is refused, and ends.
    let taken = listener(&server, "203.0.113.1", "1");
    proxy.send(get("/poll/1?wait=0", &["Origin: http://localhost", one]));
    let head = too_many(proxy, "--max-connections-per-address");
    assert_eq!(head.field("access-control-expose-headers"), Some("Retry-After"));
    drop(taken);
    server.wait_open(0);
    let _stream = listener(&server, "203.0.113.1", "1");
}

/// An address of this machine that is not loopback: the one from which it would call the world.
pub(crate) fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn foreign_client_that_comes_by_itself_is_told_so_when_it_connects() {
    let Some(address) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    let options = [
        "--listen=0.0.0.0:0",
        "--open",
        "--max-connections-per-address=3",
        "--max-connects-per-address=20",
        "--allow-origin=https://app.test",
        "--workers=2",
    ];
    let server = Server::start(&options);
    let foreign = SocketAddr::new(address, server.listen().port());
    let open = || Stream::open(foreign, "/stream/1", "*/*");
    let mut streams: Vec<_> = (0..3).map(|_| open()).collect();
    for path in ["/stream/1", "/stream/a%20b", "/nowhere"] {
        let mut wire = Wire::connect(foreign);
        wire.send(get(path, &["Origin: https://app.test"]));
        let head = too_many(wire, "--max-connections-per-address");
        assert_eq!(head.field("access-control-expose-headers"), Some("Retry-After"));
    }
    // This machine's own clients are exempt.
    let local: Vec<_> = (0..50)
        .map(|_| Stream::open(([127, 0, 0, 1], foreign.port()).into(), "/stream/1", "*/*"))
        .collect();
    assert_eq!(server.api.send("1", "all"), 53);
    drop(local);
    streams.drain(1..).for_each(|stream| stream.wire.reset());
    server.wait_open(1);
    streams.extend((0..2).map(|_| open()));
    drop(streams);
    server.wait_open(0);
    // Who connects again and again is let in 20 times a second.
    let refused = (0..1000).find(|_| {
        let mut wire = Wire::connect(foreign);
        wire.send(get("/poll/1?wait=0", &["Connection: close"]));
        let answer = read_answer(&mut wire, "GET").unwrap();
        answer.body.contains("--max-connects-per-address")
    });
    assert!(refused.is_some(), "1,000 connects were let in");
    assert!(server.api.stats()["bounds_met"]["connects_per_address"].as_u64() >= Some(1));
}

#[test]
fn trusted_proxy_and_bounds_that_are_off_hold_up_nobody() {
    let Some(address) = own_address() else {
        return testing::skip("this machine has no address beside loopback");
    };
    let off = [
        "--max-connections-per-address=0",
        "--max-connects-per-address=0",
        "--max-request-bytes-per-address=0",
    ];
    let trust = format!("--trust={address}");
    let tight = [
        "--max-connections-per-address=1",
        "--max-connects-per-address=1",
        "--max-request-bytes-per-address=4KiB",
        &trust,
    ];
    for options in [&off[..], &tight] {
        let server = Server::start(&[options, &["--listen=0.0.0.0:0", "--open"]].concat());
        let foreign = SocketAddr::new(address, server.listen().port());
        let pad = format!("X-Pad: {}", "x".repeat(7000));
        let mut wires: Vec<_> = (0..30).map(|_| Wire::connect(foreign)).collect();
        for wire in &mut wires {
            assert_eq!(poll(wire, &[&pad]).head.status, 200);
        }
    }
}
