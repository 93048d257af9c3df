//! How WebSockets end: by the client, by the application, by the server, by a broken rule; and
//! clients that take more than their share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use tungstenite::Message;
use tungstenite::protocol::frame::coding::CloseCode;

use crate::harness::{End, Server, Socket, Wire, frame, wait_for};

#[test]
fn client_that_closes_gets_its_code_back() {
    let server = Server::start(&[]);
    for code in [CloseCode::Normal, CloseCode::Away, CloseCode::Library(4321)] {
        assert_eq!(Socket::open(server.listen(), "/stream/a").close(code), code);
    }
    let mut wire = Socket::raw(server.listen(), "/stream/a");
    wire.send(frame(0x88, b""));
    assert_eq!(wire.rest(), [0x88, 0]);
    drop(wire);
    server.wait_closed("client_closed", 4);
    assert_eq!(server.api.stats()["ids_online"], 0);
}

#[test]
fn half_closed_websocket_is_closed() {
    let server = Server::start(&[]);
    let mut wire = Socket::raw(server.listen(), "/stream/a");
    wire.half_close();
    assert_eq!(wire.end(), End::Fin);
    server.wait_closed("client_closed", 1);
}

#[test]
fn application_that_logs_out_says_so_in_the_close_frame() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    server.api.send("a", 1);
    assert_eq!(server.api.logout("a"), 1);
    assert_eq!(socket.data(), 1, "what waits is sent");
    assert_eq!(socket.end(), (CloseCode::Normal, "logged_out".into()));
    drop(socket);
    server.wait_closed("logged_out", 1);
}

#[test]
fn server_that_stops_says_so_in_the_close_frame() {
    let server = Server::start(&[]);
    let mut sockets: Vec<Socket> =
        (0..20).map(|n| Socket::open(server.listen(), &format!("/stream/{n}"))).collect();
    let listen = server.listen();
    let ends = thread::spawn(move || sockets.iter_mut().map(Socket::end).collect::<Vec<_>>());
    let finished = server.stop("TERM");
    assert_eq!(finished.code(), Some(0), "{}", finished.stderr);
    for end in ends.join().unwrap() {
        assert_eq!(end, (CloseCode::Away, "shutdown".into()));
    }
    assert!(Wire::try_connect(listen).is_err());
}

#[test]
fn broken_rule_is_named_in_the_close_frame_and_counted() {
    let server = Server::start(&["--max-message=1KiB"]);
    let mut counts = (0, 0);
    for (bytes, code) in [
        (vec![0x81, 0x01, b'x'], 1002),
        (frame(0xc1, b"x"), 1002),
        (frame(0x83, b"x"), 1002),
        (frame(0x80, b"x"), 1002),
        (frame(0x09, b"x"), 1002),
        (frame(0x89, &[b'x'; 126]), 1002),
        (frame(0x88, b"x"), 1002),
        (frame(0x88, &1005_u16.to_be_bytes()), 1002),
        (frame(0x81, b"\xc3\x28"), 1007),
        ([frame(0x01, b"\xf0\x9f"), frame(0x80, b"x")].concat(), 1007),
        (frame(0x81, &[b' '; 1025]), 1009),
        ([frame(0x01, &[b' '; 1024]), frame(0x80, b" ")].concat(), 1009),
        (vec![0x82, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4], 1009),
    ] {
        let mut wire = Socket::raw(server.listen(), "/stream/a");
        wire.send(&bytes);
        let answer = wire.rest();
        let [0x88, len, high, low, reason @ ..] = &answer[..] else { panic!("{answer:?}") };
        assert_eq!(u16::from_be_bytes([*high, *low]), code, "{bytes:?}");
        assert_eq!(usize::from(*len), 2 + reason.len());
        assert!(str::from_utf8(reason).unwrap().len() > 5);
        drop(wire);
        match code {
            1009 => counts.1 += 1,
            _ => counts.0 += 1,
        }
    }
    server.wait_closed("protocol_error", counts.0);
    server.wait_closed("message_too_large", counts.1);
    assert_eq!(server.wait_open(0)["ids_online"], 0);
}

/// What is left of a message that is too long is read and forgotten, or the reset that answers
/// unread bytes could overtake the close frame.
#[test]
fn long_message_is_answered_although_it_goes_on() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    socket.send(Message::Text("x".repeat(500_000).into()));
    assert_eq!(socket.end().0, CloseCode::Size);
    server.wait_closed("message_too_large", 1);
}

#[test]
fn events_that_nobody_reads_make_a_slow_reader() {
    let server = Server::start(&["--max-backlog=16KiB"]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    let data = json!("x".repeat(8000));
    wait_for("the reader is found too slow", || server.api.send("a", data.clone()) == 0);
    server.wait_closed("slow_reader", 1);
    assert!(socket.is_reset());
}

#[test]
fn client_that_talks_without_end_takes_nobody_elses_turn() {
    let server = Server::start(&["--workers=1"]);
    let done = AtomicBool::new(false);
    let mut stream = server.listener("b");
    thread::scope(|scope| {
        for _ in 0..2 {
            let (listen, done) = (server.listen(), &done);
            scope.spawn(move || {
                let mut wire = Socket::raw(listen, "/stream/a");
                let pongs = frame(0x8a, b"unasked").repeat(10_000);
                while !done.load(Ordering::Relaxed) {
                    wire.send(&pongs);
                }
                wire.send(frame(0x88, b""));
                assert_eq!(wire.rest(), [0x88, 0]);
            });
        }
        server.wait_online("a", 2);
        for n in 0..300 {
            assert_eq!(server.api.send("b", n), 1);
            assert_eq!(stream.data(), n);
        }
        done.store(true, Ordering::Relaxed);
    });
    server.wait_closed("client_closed", 2);
}
