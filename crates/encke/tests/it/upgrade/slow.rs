//! Slow readers: what waits for them is inherited, and goes on inside of the frame in which it was
//! cut.

use std::net::{SocketAddr, TcpStream};

use serde_json::json;
use socket2::{Domain, SockAddr, Socket, Type};

use super::served::Upgraded;
use super::subscriber::{Kind, STREAMS, Subscriber};
use crate::harness::{DEADLINE, wait_for};

/// Events of a kilobyte: far more than the kernel has room for.
const EVENTS: usize = 1_000;

/// A connection of a client that has next to no room for what it does not read.
fn narrow(address: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&SockAddr::from(address)).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    TcpStream::from(socket)
}

fn text(n: usize) -> String {
    // A cut anywhere shows: no two pieces are alike.
    let words: String =
        (0..140).map(|word| format!("{:06x}.", word * 7919 + n * 104_729)).collect();
    format!("{n}:{words}")
}

#[test]
fn slow_readers_of_every_transport_go_on_byte_for_byte() {
    let server = Upgraded::serve(&["--max-backlog=8MiB", "--websocket-deflate"]);
    let open = |&kind: &Kind| Subscriber::on(narrow(server.listen()), kind, &["slow"], None);
    let mut subscribers: Vec<Subscriber> = STREAMS.iter().map(open).collect();
    let mut sent = 0;
    let send = |sent: &mut usize, count: usize| {
        let event = |n| json!({ "about": "slow", "data": text(n) }).to_string() + "\n";
        let lines: String = (*sent..*sent + count).map(event).collect();
        let answers = server.api.post_lines("/send", &lines).body;
        let good = format!("{{\"delivered\":{},", STREAMS.len());
        answers.lines().for_each(|answer| assert!(answer.starts_with(&good), "{answer}"));
        assert_eq!(answers.lines().count(), count);
        *sent += count;
    };
    send(&mut sent, EVENTS);
    let mut heard = 0;
    // Each reads a little in between, so that the cut is another one each time.
    for round in 0..3 {
        server.upgrade(&[]);
        send(&mut sent, 50);
        for subscriber in &mut subscribers {
            for n in heard..heard + 77 {
                assert_eq!(subscriber.data(), text(n), "{:?} in round {round}", subscriber.kind);
            }
        }
        heard += 77;
    }
    for subscriber in &mut subscribers {
        for n in heard..sent {
            assert_eq!(subscriber.data(), text(n), "{:?}", subscriber.kind);
        }
    }
    // A worker counts what it has written behind the write, which may be read before.
    wait_for("nothing waits", || server.api.stats()["buffered_bytes"] == 0);
    let stats = server.api.stats();
    assert_eq!(stats["deliveries"], sent * STREAMS.len(), "{stats}");
    assert_eq!((&stats["dropped"], &stats["buffered_bytes"]), (&json!(0), &json!(0)), "{stats}");
}

/// The bound on what waits is the same one before and behind.
#[test]
fn slow_reader_that_is_inherited_is_closed_at_its_bound() {
    let server = Upgraded::serve(&["--max-backlog=1MiB"]);
    let slow = Subscriber::on(narrow(server.listen()), Kind::Ndjson, &["slow"], None);
    let mut sent = 0;
    while server.api.stats()["buffered_bytes"].as_u64().unwrap() < 500_000 {
        assert_eq!(server.api.send("slow", text(sent)), 1);
        sent += 1;
    }
    server.upgrade(&[]);
    // The kernel may have taken a little more by now; and a worker tells it with its first turn.
    let buffered = || server.api.stats()["buffered_bytes"].as_u64().unwrap();
    wait_for("what waits is counted", || buffered() >= 200_000);
    assert_eq!(server.api.send("slow", "fits"), 1);
    for n in 0..1_500 {
        server.api.send("slow", text(n));
    }
    server.wait_closed("slow_reader", 1);
    assert_eq!(server.api.connections("slow"), 0);
    wait_for("nothing waits", || server.api.stats()["buffered_bytes"] == 0);
    drop(slow);
}
