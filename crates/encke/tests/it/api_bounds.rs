//! The bounds of the API port: who may be silent, how long, and who is answered all the same.

use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Server, Wire, check_problem, read_answer, wait_for};

/// The head of a stream of events that never come.
const SILENT: &str = "POST /send HTTP/1.1\r\nHost: localhost\r\n\
     Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";

/// One probe on a connection of its own.
fn probe(server: &Server, path: &str) -> io::Result<u16> {
    let mut wire = Wire::try_connect(server.api.address())?;
    wire.try_send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))?;
    Ok(read_answer(&mut wire, "GET")?.status())
}

#[test]
fn thousands_of_silent_senders_block_neither_the_api_nor_its_probes() {
    sys::limits::raise_descriptors().unwrap();
    let server = Server::start(&[]);
    let mut senders = Vec::new();
    while senders.len() < 4_200 {
        let mut wire = Wire::connect(server.api.address());
        // One that comes while all places are taken is refused at once.
        let _ = wire.try_send(SILENT);
        senders.push(wire);
        if senders.len() % 600 == 0 {
            for path in ["/healthz", "/readyz", "/metrics"] {
                assert_eq!(probe(&server, path).unwrap(), 200, "{path}, {} silent", senders.len());
            }
        }
    }
    let event = json!({ "about": 1, "data": 1 });
    wait_for("the API takes an event", || {
        server.api.try_post("/send", &event).is_ok_and(|answer| answer.status() == 200)
    });
    // Those who were silent while places were scarce are told so. Who that is, is chance: once
    // enough have gone, places are scarce for nobody.
    let mut first = None;
    wait_for("a silent sender is told so", || {
        let is_told =
            |wire: &Wire| String::from_utf8_lossy(&wire.peek()).contains("\"status\":408");
        first = senders.iter().position(is_told);
        first.is_some()
    });
    let told = &mut senders[first.unwrap()];
    assert_eq!(told.head().status, 200);
    let problem: Value = serde_json::from_slice(&told.chunk().unwrap()).unwrap();
    check_problem(&problem, 408);
    assert_eq!(problem["line"], 1);
    assert_eq!(told.chunk().unwrap(), b"");
}

#[test]
fn connections_that_ask_for_nothing_block_nobody_either() {
    sys::limits::raise_descriptors().unwrap();
    let server = Server::start(&[]);
    let silent: Vec<Wire> = (0..4_200)
        .map(|n| {
            let mut wire = Wire::connect(server.api.address());
            // Some say half a head, some the preface of HTTP/2 and nothing more.
            let start = ["", "GET /sta", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"];
            let _ = wire.try_send(start[n % 3]);
            wire
        })
        .collect();
    wait_for("a probe is answered", || probe(&server, "/healthz").is_ok_and(|code| code == 200));
    wait_for("the API has places", || probe(&server, "/stats").is_ok_and(|code| code == 200));
    drop(silent);
}

#[test]
fn last_answer_of_a_stream_reaches_a_sender_that_writes_on() {
    for run in 0..12 {
        let server = Server::start(&[]);
        let mut sender = Wire::connect(server.api.address());
        let line = "15\r\n{\"about\":1,\"data\":1}\n\r\n";
        sender.send([SILENT, line].concat());
        assert_eq!(sender.head().status, 200);
        let mut answers = sender.chunk().unwrap();
        let mut body = Wire::from(sender.socket().try_clone().unwrap());
        std::thread::scope(|scope| {
            // It notices nothing but that no more can be written.
            scope.spawn(move || while body.try_send(line).is_ok() {});
            while answers.iter().filter(|&&byte| byte == b'\n').count() < 1000 {
                answers.extend(sender.chunk().unwrap());
            }
            server.signal("TERM");
            let end = loop {
                match sender.chunk() {
                    Ok(piece) if piece.is_empty() => break Ok(()),
                    Ok(piece) => answers.extend(piece),
                    Err(error) => break Err(error),
                }
            };
            // Lets the writer end, however this does.
            let _ = sender.socket().shutdown(Shutdown::Both);
            assert!(end.is_ok(), "run {run}: {end:?}");
        });
        let last = answers.split(|&byte| byte == b'\n').nth_back(1).unwrap();
        check_problem(&serde_json::from_slice(last).unwrap(), 503);
        assert_eq!(server.into_program().finish().code(), Some(0));
    }
}

#[test]
fn refusal_reaches_a_client_that_writes_a_long_body_first() {
    let server = Server::start(&[]);
    let body = "x".repeat(8 << 20);
    for (head, status) in [
        ("POST /nowhere HTTP/1.1\r\nHost: localhost\r\n", 404),
        ("POST /send HTTP/1.1\r\nHost: evil.test\r\n", 421),
        ("POST /send HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/html\r\n", 415),
    ] {
        let mut wire = Wire::connect(server.api.address());
        wire.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
        wire.send(&body);
        read_answer(&mut wire, "POST").unwrap().problem(status);
    }
}

#[test]
fn want_of_descriptors_is_told_seldom_and_ends_when_it_ends() {
    let server = Server::start_with_descriptors(100, &["--workers=1"]);
    // A connection that stands, by which the server's clock is read.
    let uptime = || server.api.stats()["uptime_seconds"].as_f64().unwrap();
    uptime();
    let crowd: Vec<Wire> = (0..120).map(|_| Wire::connect(server.api.address())).collect();
    let warnings = || server.stderr().matches("cannot accept a connection to the API").count();
    wait_for("it is told", || warnings() > 0);
    let start = uptime();
    wait_for("two seconds of want", || uptime() > start + 2.0);
    assert!(warnings() <= 2, "{} lines", warnings());
    drop(crowd);
    wait_for("the API is reached again", || probe(&server, "/healthz").is_ok());
}

#[test]
fn hangup_ends_nothing_and_is_told() {
    let server = Server::start(&[]);
    let mut stream = server.listener("1");
    server.signal("HUP");
    wait_for("it is told", || server.stderr().contains("SIGHUP"));
    assert_eq!(server.api.send("1", "still here"), 1);
    assert_eq!(stream.data(), "still here");
    assert_eq!(server.stop("TERM").code(), Some(0));
}

#[test]
fn nobody_is_served_by_a_server_that_does_not_start() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let cookie = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(cookie.path(), "secret").unwrap();
    let erlang = format!("--erlang-port={}", taken.local_addr().unwrap().port());
    for _ in 0..5 {
        let data = tempfile::tempdir().unwrap();
        let listen = SocketAddr::from(([127, 0, 0, 1], testing::free_port()));
        let mut command = crate::harness::encke(["serve", "--json", "--api=127.0.0.1:0", &erlang]);
        command.args(["--erlang-node=encke@127.0.0.1", "--erlang-cookie-file"]).arg(cookie.path());
        command.arg(format!("--listen={listen}")).arg("--data").arg(data.path());
        let mut program = crate::harness::Program::spawn(&mut command);
        let deadline = Instant::now() + crate::harness::DEADLINE;
        while !program.has_ended() {
            assert!(Instant::now() < deadline, "{}", program.stderr());
            let Ok(mut wire) = Wire::try_connect(listen) else { continue };
            let asked = wire.try_send("GET /stream/1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
            assert!(asked.and_then(|()| wire.try_head()).is_err(), "served before the rest stood");
        }
        let finished = program.finish();
        assert_eq!(finished.code(), Some(1), "{finished:?}");
        assert!(finished.stderr.contains("--erlang-port"), "{finished:?}");
    }
}
