//! Clients of WebSockets that are broken or mean harm. The server bounds what they cost, answers
//! what the protocol has an answer for, and goes on serving the others.

use serde_json::{Value, json};

use crate::harness::{End, Server, Socket, Wire, frame, seed};

/// The server serves as ever, and nothing is left of anybody.
fn expect_unharmed(server: &Server, sockets: usize) {
    assert_eq!(server.wait_open(0)["ids_online"], 0);
    server.api.wait_settled();
    assert_eq!(server.worker_sockets(), sockets, "no descriptor is left over");
    let mut socket = Socket::open(server.listen(), "/stream/well");
    assert_eq!(server.api.send("well", "hello"), 1);
    assert_eq!(socket.data(), "hello");
}

/// The code of the close frame that comes next, and an orderly end behind it.
fn close_code(wire: &mut Wire) -> u16 {
    let rest = wire.rest();
    let [0x88, len, high, low, reason @ ..] = &rest[..] else { panic!("{rest:?}") };
    assert_eq!(usize::from(*len), 2 + reason.len());
    u16::from_be_bytes([*high, *low])
}

/// Each client stands in the middle of a message for ever: it costs what it has sent, within
/// `--max-message`, and nobody waits for it.
#[test]
fn thousand_half_messages_are_kept_within_their_bound() {
    let server = Server::start(&["--max-message=16KiB"]);
    let sockets = server.worker_sockets();
    let before = server.anonymous_bytes();
    let whole = frame(0x81, &[b' '; 16 * 1024]);
    let halves = [
        whole[..whole.len() - 1].to_vec(),
        // A head without its mask, and one of eight bytes of length that has come in part.
        whole[..5].to_vec(),
        vec![0x81, 0xff, 0, 0, 0, 0],
        frame(0x01, &[b'x'; 16 * 1024]),
        frame(0x89, b"ping")[..7].to_vec(),
    ];
    let mut crowd: Vec<Wire> =
        (0..1_000).map(|_| Socket::raw(server.listen(), "/stream/half")).collect();
    let mut socket = Socket::open(server.listen(), "/stream/half");
    // All at once, when all are there: who says nothing behind it is ended in time.
    for (n, wire) in crowd.iter_mut().enumerate() {
        wire.send(&halves[n % halves.len()]);
    }
    for number in 0..3 {
        assert_eq!(server.api.send("half", number), 1_001, "half a message cuts nobody off");
        assert_eq!(socket.data(), number);
    }
    // 400 of them have 16 KiB each; twice that is what a growing buffer may take.
    assert!(server.anonymous_bytes() < before + 400 * 32 * 1024 + (8 << 20));
    drop((crowd, socket));
    expect_unharmed(&server, sockets);
}

#[test]
fn giant_lengths_are_refused_before_anything_is_kept() {
    let server = Server::start(&[]);
    let before = server.anonymous_bytes();
    let head = |first: u8, length: u64| {
        let mut head = vec![first, 0xff];
        head.extend(length.to_be_bytes());
        head.extend([1, 2, 3, 4]);
        head
    };
    for (bytes, code) in [
        (head(0x81, 4_097), 1002),
        (head(0x81, 65_536), 1009),
        (head(0x82, u64::from(u32::MAX) + 1), 1009),
        (head(0x81, u64::MAX >> 1), 1009),
        (head(0x81, 1 << 63), 1002),
        (head(0x81, u64::MAX), 1002),
        (head(0x01, u64::MAX >> 1), 1009),
        ([frame(0x01, b"x"), head(0x80, u64::MAX >> 1)].concat(), 1009),
        // A control frame says so with its second byte.
        (head(0x89, 126), 1002),
    ] {
        let mut wire = Socket::raw(server.listen(), "/stream/a");
        wire.send(&bytes);
        assert_eq!(close_code(&mut wire), code, "{bytes:?}");
    }
    assert!(server.anonymous_bytes() < before + (4 << 20));
    assert_eq!(server.wait_open(0)["ids_online"], 0);
}

#[test]
fn ten_thousand_pings_that_nobody_reads_the_answers_to_hold_up_nobody() {
    const PINGS: u16 = 10_000;
    let server = Server::start(&["--workers=1", "--max-backlog=2MiB"]);
    let before = server.anonymous_bytes();
    let mut wire = Socket::raw(server.listen(), "/stream/a");
    let mut neighbour = server.listener("b");
    let pings: Vec<u8> = (0..PINGS).flat_map(|n| frame(0x89, &n.to_be_bytes())).collect();
    for (number, piece) in pings.chunks(4_321).enumerate() {
        wire.send(piece);
        assert_eq!(server.api.send("b", number), 1);
        assert_eq!(neighbour.data(), number);
    }
    // 64 bytes for the place of each answer, were it to wait.
    assert!(server.anonymous_bytes() < before + (6 << 20));
    for number in 0..PINGS {
        let [high, low] = number.to_be_bytes();
        assert_eq!(wire.take(4).unwrap(), [0x8a, 2, high, low]);
    }
    assert!(wire.is_open());
}

#[test]
fn answers_that_nobody_reads_make_a_slow_reader() {
    let server = Server::start(&["--max-backlog=16KiB"]);
    // Many at a time: the client's kernel keeps millions of the shortest answers.
    for (closed, message) in
        [frame(0x81, b"no command"), frame(0x89, &[1; 125]), frame(0x89, b"")].iter().enumerate()
    {
        let mut wire = Socket::raw(server.listen(), "/stream/a");
        wire.send_until_cut_off(message.repeat(100));
        server.wait_closed("slow_reader", closed as u64 + 1);
    }
}

/// What a client was sent before it closed comes whole, then the answer to its close frame, and
/// nothing behind that.
#[test]
fn client_that_closes_during_a_backlog_gets_what_waits_and_its_code() {
    let server = Server::start(&["--max-backlog=64MiB"]);
    let sockets = server.worker_sockets();
    let mut wire = Socket::raw(server.listen(), "/stream/a");
    let text = "x".repeat(60_000);
    for number in 0..20 {
        assert_eq!(server.api.send("a", json!([number, text])), 1);
    }
    wire.send([frame(0x88, b"\x03\xe9away"), frame(0x81, br#"{"login":["b"]}"#)].concat());
    let rest = wire.rest();
    let mut events = rest.as_slice();
    for number in 0..20 {
        let [0x81, 126, high, low, payload @ ..] = events else { panic!("event {number}") };
        let (event, behind) = payload.split_at(u16::from_be_bytes([*high, *low]).into());
        let event: Value = serde_json::from_slice(event).unwrap();
        assert_eq!(event["data"][0], number);
        events = behind;
    }
    assert_eq!(events, b"\x88\x02\x03\xe9");
    assert_eq!((server.api.send("a", "too late"), server.api.send("b", "never")), (0, 0));
    server.wait_closed("client_closed", 1);
    expect_unharmed(&server, sockets);
}

#[test]
fn client_that_closes_and_never_reads_is_gone_after_a_moment() {
    let server = Server::start(&["--max-backlog=64MiB"]);
    let sockets = server.worker_sockets();
    let wires: Vec<Wire> = (0..3)
        .map(|ending| {
            let mut wire = Socket::raw(server.listen(), "/stream/a");
            for _ in 0..150 {
                server.api.send("a", "x".repeat(60_000));
            }
            match ending {
                0 => wire.send(frame(0x88, b"")),
                1 => wire.send(b"\xff"),
                _ => drop(server.api.logout("a")),
            }
            server.wait_online("a", 0);
            wire
        })
        .collect();
    for reason in ["client_closed", "protocol_error", "logged_out"] {
        server.wait_closed(reason, 1);
    }
    expect_unharmed(&server, sockets);
    for mut wire in wires {
        assert_eq!(wire.end(), End::Reset, "what it did not take is dropped");
    }
}

#[test]
fn hostile_bytes_end_their_connection_and_nothing_else() {
    let server = Server::start(&["--max-message=1KiB"]);
    let sockets = server.worker_sockets();
    let mut random = fastrand::Rng::with_seed(seed());
    let good = [
        frame(0x81, br#"{"login":["a","b",7]}"#),
        frame(0x01, br#"{"logout""#),
        frame(0x89, b"ping"),
        frame(0x80, br#":["b"]}"#),
        frame(0x82, b"\x01\x02"),
        frame(0x88, b"\x03\xe8bye"),
    ];
    for round in 0..300 {
        let mut wire = Socket::raw(server.listen(), "/stream/x");
        let mut bytes = good.concat();
        if round % 3 == 0 {
            bytes = (0..random.usize(1..3000)).map(|_| random.u8(..)).collect();
        }
        for _ in 0..random.usize(..4) {
            let at = random.usize(..bytes.len());
            bytes[at] = random.u8(..);
        }
        bytes.truncate(random.usize(1..=bytes.len()));
        // The server may have ended it meanwhile.
        let _ = wire.try_send(&bytes);
        match random.u8(..3) {
            0 => wire.half_close(),
            1 => wire.reset(),
            _ => drop(wire),
        }
    }
    expect_unharmed(&server, sockets);
}
