//! Attacks on the server's time: requests and commands without end.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use crate::clients::{Target, answer, command, place};
use crate::harness::{Socket, Wire, frame, get};

/// A text of a client.
const TEXT: u8 = 0x81;

/// A ping of a client.
const PING: u8 = 0x89;

/// A text of a client, whole and compressed.
const COMPRESSED_TEXT: u8 = 0xc1;

/// No attack: what a busy machine does to latencies by itself.
pub(crate) fn busy_loops(target: &Target) {
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().unwrap().get() {
            scope.spawn(|| while !target.is_over() {});
        }
    });
}

/// Connections with all ids that one may have, which log one of them in and out.
pub(crate) fn commands(target: &Target) {
    let wires: Vec<Wire> = (1..5).map(|n| target.websocket_with_ids(n * 1_000_000)).collect();
    let both = [command("logout", "1000007"), command("login", "1000007")].concat();
    target.say_all(&wires, &both);
}

/// Polls that are answered at once.
pub(crate) fn polls(target: &Target) {
    ask_on(target, "/poll/1000000?wait=0");
}

/// The same, from an unknown place on.
pub(crate) fn resumes(target: &Target) {
    ask_on(target, "/poll/1000000?wait=0&after=0000000000000001");
}

/// As many ids as a request may name beside the first.
fn many_ids() -> String {
    (1..256).map(|n| format!("&id={}", 1_000_000 + n)).collect()
}

/// Clients that ask again as soon as they are answered.
fn ask_on(target: &Target, path: &str) {
    let request = get(&format!("{path}{}", many_ids()), &[]);
    thread::scope(|scope| {
        for _ in 0..60 {
            scope.spawn(|| {
                let mut wire = Wire::connect(target.listen);
                while !target.is_over() {
                    if wire.try_send(&request).is_err() || answer(&mut wire).is_err() {
                        wire = Wire::connect(target.listen);
                    }
                }
            });
        }
    });
}

/// Clients that ask what many ids have missed since a place that is known, and hang up.
pub(crate) fn hung_up(target: &Target) {
    let place = place(target.listen, "");
    let request = get(&format!("/poll/1000000?wait=0&after={place}{}", many_ids()), &[]);
    thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                while !target.is_over() {
                    let _ = Wire::try_connect(target.listen).and_then(|mut w| w.try_send(&request));
                }
            });
        }
    });
}

/// Heads that come byte by byte and are never whole.
pub(crate) fn slow_heads(target: &Target) {
    let open = || {
        let mut wire = Wire::connect(target.listen);
        wire.send(get(&format!("/stream/1?id={}", "x".repeat(200)), &[]).trim_end());
        wire
    };
    let mut wires: Vec<Wire> = (0..5000).map(|_| open()).collect();
    while !target.is_over() {
        for wire in &mut wires {
            // Who is cut off comes again.
            if wire.try_send("x").is_err() {
                *wire = open();
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// A foreign client that connects as fast as it can, far past what its address may, and asks each
/// time. Without an address beside loopback it is no foreign client, and is served.
pub(crate) fn connects(target: &Target) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // Nothing is sent: the address from which it would be.
    let own = socket.connect("198.51.100.1:9").and_then(|()| socket.local_addr());
    let address = own.map_or(target.listen.ip(), |own| own.ip());
    let foreign = SocketAddr::new(address, target.listen.port());
    let request = get("/poll/1?wait=0", &[]);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !target.is_over() {
                    let Ok(mut wire) = Wire::try_connect(foreign) else { continue };
                    let _ = wire.try_send(&request);
                    wire.reset();
                }
            });
        }
    });
}

/// Polls that are answered at once, of which there are always more to be read of each client.
pub(crate) fn polls_ahead(target: &Target) {
    let wires: Vec<Wire> = (0..256).map(|_| Wire::connect(target.listen)).collect();
    target.say_all(&wires, get("/poll/1000000?after=0000000000000000", &[]).as_bytes());
}

/// The same of short commands.
pub(crate) fn commands_ahead(target: &Target) {
    let open = |n: usize| Socket::raw(target.listen, &format!("/stream/{}", 1_000_000 + n));
    let wires: Vec<Wire> = (0..24).map(open).collect();
    target.say_all(&wires, &command("logout", "1"));
}

/// Clients that publish as fast as it is taken, about nobody who listens.
pub(crate) fn publishes(target: &Target) {
    let open = |n: usize| Socket::raw(target.listen, &format!("/stream/{}", 1_000_000 + n));
    let wires: Vec<Wire> = (0..24).map(open).collect();
    target.say_all(&wires, &frame(TEXT, br#"{"send":{"about":2000000,"data":1},"ref":1}"#));
}

/// The same of commands that are compressed, which take more time than bytes.
pub(crate) fn compressed_ahead(target: &Target) {
    say_compressed(target, &stored_command());
}

/// The same behind 3,200 blocks with fixed tables and nothing else (RFC 1951, section 3.2.6): a
/// decoder that makes those tables for each of them takes ten milliseconds a message.
pub(crate) fn empty_blocks_ahead(target: &Target) {
    let empty = b"\x02\x08\x20\x80\x00".repeat(800);
    say_compressed(target, &[empty, stored_command()].concat());
}

/// A command as a block that is stored (RFC 1951, section 3.2.4), whose last four bytes are left
/// out (RFC 7692, section 7.2.1).
fn stored_command() -> Vec<u8> {
    let text = br#"{"logout":[1]}"#;
    [&[0, text.len() as u8, 0, !(text.len() as u8), 0xff], &text[..], &[0]].concat()
}

fn say_compressed(target: &Target, message: &[u8]) {
    let mut fields = Socket::FIELDS.to_vec();
    fields.push("Sec-WebSocket-Extensions: permessage-deflate");
    let open = |n: usize| {
        let mut wire = Wire::connect(target.listen);
        wire.send(get(&format!("/stream/{}", 1_000_000 + n), &fields));
        assert!(wire.head().field("Sec-WebSocket-Extensions").is_some(), "not compressed");
        wire
    };
    let wires: Vec<Wire> = (0..24).map(open).collect();
    target.say_all(&wires, &frame(COMPRESSED_TEXT, message));
}

/// Pings whose answers nobody reads.
pub(crate) fn pings(target: &Target) {
    let ping = frame(PING, &[b'x'; 125]);
    let pings = ping.repeat(100);
    let open = |n: usize| {
        let wire = Socket::raw(target.listen, &format!("/stream/{}", 1_000_000 + n));
        wire.socket().set_nonblocking(true).unwrap();
        wire
    };
    let mut wires: Vec<Wire> = (0..200).map(open).collect();
    while !target.is_over() {
        for (n, wire) in wires.iter_mut().enumerate() {
            match wire.try_send(&pings) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => *wire = open(n),
                _ => {}
            }
        }
        thread::sleep(Duration::from_millis(1));
    }
}
