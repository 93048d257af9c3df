//! Clients that are broken or mean harm: the server forgets them and goes on serving.

use std::io::Write;

use crate::harness::{End, Server, Stream, Wire, get, seed};

/// The server serves as ever, and nothing is left of anybody.
fn expect_unharmed(server: &Server, sockets: usize) {
    let stats = server.wait_open(0);
    assert_eq!(stats["ids_online"], 0);
    server.api.wait_settled();
    assert_eq!(server.worker_sockets(), sockets, "no descriptor is left over");
    let mut stream = server.listener("well");
    assert_eq!(server.api.send("well", "hello"), 1);
    assert_eq!(stream.data(), "hello");
}

#[test]
fn head_that_comes_byte_by_byte_is_served() {
    let server = Server::start(&[]);
    let mut wire = server.connect();
    for byte in get("/stream/1?id=two", &["Accept: text/event-stream"]).bytes() {
        wire.send([byte]);
    }
    assert_eq!(wire.head().status, 200);
    assert_eq!(server.api.send("two", 1), 1);
}

#[test]
fn garbage_is_refused_and_forgotten() {
    let server = Server::start(&["--head-timeout=5"]);
    let sockets = server.worker_sockets();
    let mut random = fastrand::Rng::with_seed(seed());
    let valid = get("/stream/1", &["Accept: */*"]);
    for round in 0..300 {
        let bytes: Vec<u8> = if round % 2 == 0 {
            (0..random.usize(1..3000)).map(|_| random.u8(..)).collect()
        } else {
            // A good request with a few bytes changed.
            let mut bytes = valid.clone().into_bytes();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
            bytes
        };
        let wire = server.ask(bytes);
        if random.bool() {
            wire.half_close();
        }
        drop(wire);
    }
    expect_unharmed(&server, sockets);
}

#[test]
fn tls_client_is_told_that_the_port_speaks_plain_http() {
    let server = Server::start(&[]);
    let mut hello = vec![0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03];
    hello.extend([0x5a; 506]);
    let mut wire = server.ask(hello);
    assert_eq!(wire.head().status, 400);
    assert!(String::from_utf8(wire.rest()).unwrap().contains("TLS"));
}

#[test]
fn endless_head_is_cut_off() {
    let server = Server::start(&[]);
    let sockets = server.worker_sockets();
    for piece in ["X-Pad: yes\r\n", "a", "\r\n", "GET ", "\0"] {
        server.connect().send_until_cut_off(piece.repeat(1000));
    }
    expect_unharmed(&server, sockets);
}

#[test]
fn bytes_after_the_head_are_ignored() {
    let server = Server::start(&[]);
    let pipelined = get("/stream/1", &["Accept: */*"]) + &get("/stream/2", &[]);
    let mut stream = {
        let mut wire = server.ask(pipelined);
        let head = wire.head();
        Stream { wire, head, cursor: None }
    };
    assert_eq!((server.api.connections("1"), server.api.connections("2")), (1, 0));
    stream.wire.send("a few bytes more");
    assert_eq!(server.api.send("1", "x"), 1);
    assert_eq!(stream.data(), "x");
    assert_eq!(server.api.stats()["connections_opened"], 1);
}

#[test]
fn upload_onto_a_stream_costs_no_memory_and_no_neighbour() {
    let server = Server::start(&["--workers=1"]);
    let sockets = server.worker_sockets();
    let mut neighbour = server.listener("1");
    let before = server.anonymous_bytes();
    let block = vec![b'x'; 256 * 1024];
    for _ in 0..4 {
        let mut uploader = server.listener("1");
        // Whether the server ends it or swallows it all is its own affair.
        let sent = (0..200).take_while(|_| uploader.wire.try_send(&block).is_ok()).count();
        assert!(sent > 0);
        assert!(server.api.send("1", sent) > 0);
        assert_eq!(neighbour.data(), sent);
    }
    assert!(server.anonymous_bytes() < before + 8 * 1024 * 1024);
    drop(neighbour);
    expect_unharmed(&server, sockets);
}

#[test]
fn thousands_of_half_open_heads_leave_the_server_serving() {
    // None is cut off before all are there.
    let server = Server::start(&["--head-timeout=120"]);
    let sockets = server.worker_sockets();
    let before = server.anonymous_bytes();
    let half = "GET /stream/1 HTTP/1.1\r\nHost: x\r\nX-Slow: ";
    let mut crowd: Vec<Wire> =
        (0..3000).map(|n| if n % 3 == 0 { server.connect() } else { server.ask(half) }).collect();
    server.wait_open(3000);
    let mut stream = server.listener("1");
    for n in 0..50 {
        crowd.iter_mut().skip(n).step_by(50).for_each(|wire| {
            // Those that have said nothing start with this.
            wire.send("G");
        });
        assert_eq!(server.api.send("1", n), 1);
        assert_eq!(stream.data(), n);
    }
    // 2 KiB each, were it to last; a head may be 8 KiB.
    assert!(server.anonymous_bytes() < before + 3000 * 2048 + 4 * 1024 * 1024);
    drop((crowd, stream));
    expect_unharmed(&server, sockets);
}

/// The ways in which a client can go.
#[derive(Clone, Copy, Debug)]
enum Exit {
    Fin,
    HalfClose,
    Reset,
}

impl Exit {
    fn take(self, mut wire: Wire) {
        match self {
            Exit::Fin => drop(wire),
            Exit::Reset => wire.reset(),
            Exit::HalfClose => {
                wire.half_close();
                // The server ends its side in turn.
                assert!(matches!(wire.end(), End::Fin | End::Reset));
            }
        }
    }
}

#[test]
fn client_may_go_in_any_way_at_any_stage() {
    let server = Server::start(&["--max-backlog=8KiB"]);
    let sockets = server.worker_sockets();
    let request = get("/stream/1?id=two", &["Accept: text/event-stream"]);
    let big = "x".repeat(4000);
    for exit in [Exit::Fin, Exit::HalfClose, Exit::Reset] {
        for _ in 0..2 {
            exit.take(server.connect());
            exit.take(server.ask(&request[..1]));
            exit.take(server.ask(&request[..20]));
            exit.take(server.ask(&request[..request.len() - 1]));
            exit.take(server.ask(&request));
            exit.take(server.ask("GARBAGE\r\n\r\n"));
            exit.take(server.ask(get("/nowhere", &[])));
            let mut logged_in = server.ask(&request);
            assert_eq!(logged_in.head().status, 200);
            exit.take(logged_in);
            let with_event = server.listener("three");
            assert_eq!(server.api.send("three", 1), 1);
            exit.take(with_event.wire);
            let with_much = server.listener("four");
            for _ in 0..20 {
                server.api.send("four", big.as_str());
            }
            exit.take(with_much.wire);
            let logged_out = server.listener("five");
            assert_eq!(server.api.logout("five"), 1);
            exit.take(logged_out.wire);
            for id in ["1", "two", "three", "four", "five"] {
                server.wait_online(id, 0);
                assert_eq!(server.api.send(id, 1), 0, "{id} after {exit:?}");
            }
        }
    }
    expect_unharmed(&server, sockets);
}

#[test]
fn storms_of_clients_leave_no_memory_behind() {
    let server = Server::start(&[]);
    let sockets = server.worker_sockets();
    let mut random = fastrand::Rng::with_seed(seed());
    let mut after = Vec::new();
    for _ in 0..6 {
        let crowd: Vec<Wire> = (0..800)
            .map(|n| server.ask(get(&format!("/stream/name:{n}?id={}", random.u32(..)), &[])))
            .collect();
        server.wait_open(800);
        for mut wire in crowd {
            match random.u32(..4) {
                0 => wire.reset(),
                1 => wire.half_close(),
                // Stray bytes as a farewell: the server may have gone on its own.
                2 => drop(wire.socket().write(b"bye")),
                _ => drop(wire.head()),
            }
        }
        server.wait_open(0);
        after.push(server.anonymous_bytes());
    }
    let growth = after[5].saturating_sub(after[2]);
    assert!(growth < 2 * 1024 * 1024, "resident after each storm: {after:?}");
    expect_unharmed(&server, sockets);
}
