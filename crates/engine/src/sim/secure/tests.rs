//! What can go wrong below a connection that begins with TLS.

use std::net::{IpAddr, Ipv4Addr};

use hub::DisconnectReason;
use tls::Alert;

use super::super::ended;
use super::super::one::{One, STREAM};
use super::super::random::Random;
use super::super::server::{Place, silent_config};
use crate::config::{AddressLimits, EngineConfig};
use crate::limits::{HELLO_BYTES_MAX, LINGER_MS};

fn start() -> One {
    One::start_secure(silent_config(), 7)
}

/// A client that has not begun its handshake.
fn silent(one: &mut One) -> Place {
    one.server.connect_silent(Ipv4Addr::LOCALHOST.into(), 0, 1 << 20).unwrap()
}

impl One {
    fn handshakes(&mut self) -> usize {
        self.server.shards[0].sockets().unfinished().0
    }

    fn handshakes_done(&self) -> u64 {
        self.server.figures().tls.handshakes().map(|(.., count)| count).sum()
    }

    /// A client was told what it did, all that it had said was read, and its end or some time is
    /// waited for.
    fn ends_well(&mut self, client: Place) {
        assert!(self.wire(client).server_ended && !self.is_closed(client));
        assert!(self.server.shards[0].sockets().say_nothing_more(client.socket).is_empty());
        match client.socket % 2 {
            0 => self.wire(client).client_ends(),
            _ => {
                // Junk is no reason to wait for longer.
                self.server.shards[0].sockets().inject(client.socket, b"junk");
                self.turn_after(LINGER_MS - 300);
                assert!(!self.is_closed(client));
                self.server.shards[0].sockets().inject(client.socket, b"junk");
                self.turn_after(500);
            }
        }
        self.settle();
        assert!(self.is_closed(client));
    }

    /// Has the kernel report what a client says until it has said it.
    fn hear_out(&mut self, client: Place) {
        while self.turn_after(0) || self.wire(client).has_news() {}
    }

    /// Has the kernel report until nothing comes any more.
    fn settle(&mut self) {
        for _ in 0..2_000 {
            self.turn_after(0);
        }
    }

    fn all_leave(mut self, clients: &[Place]) {
        for &client in clients {
            self.wire(client).client_ends();
        }
        self.server.end();
        assert_eq!(self.handshakes(), 0);
        self.server.check_nothing_is_left();
    }
}

#[test]
fn handshake_that_does_not_come_is_cut_in_its_time() {
    let mut one = start();
    let silent_one = silent(&mut one);
    one.server.wire(silent_one).report();
    let half = silent(&mut one);
    while one.handshakes() == 0 {
        one.server.report_one(half);
    }
    one.server.wire(half).report();
    one.turn_after(9_900);
    assert!(!one.is_closed(silent_one) && !one.is_closed(half));
    one.turn_after(300);
    assert!(one.is_closed(silent_one) && one.is_closed(half));
    assert_eq!(ended(&one.server.figures(), DisconnectReason::TlsTimeout), 2);
    one.all_leave(&[]);
}

/// What is said of a hello is kept, and nothing else is until it is whole.
#[test]
fn hello_that_is_not_whole_costs_its_own_bytes() {
    let mut one = start();
    let client = silent(&mut one);
    one.server.shards[0].sockets().says_so_much(client.socket, 150);
    one.settle();
    let sockets = one.server.shards[0].sockets();
    assert_eq!((sockets.unfinished(), sockets.has_begun(client.socket)), ((0, 1), false));
    let kept = one.server.account.bytes();
    assert!((150..700).contains(&kept), "{kept}");
    // A longer one than any that is waited for.
    let other = silent(&mut one);
    let long = [&[22, 3, 1, 0x3e, 0x80, 1, 0, 0x3e, 0x7c][..], &[0; HELLO_BYTES_MAX]].concat();
    one.server.shards[0].sockets().say_nothing_more(other.socket);
    one.server.shards[0].sockets().inject(other.socket, &long);
    one.settle();
    assert_eq!(one.server.shards[0].sockets().unfinished(), (1, 1));
    assert!(one.server.account.bytes() > 4_000);
    one.turn_after(10_200);
    assert!(one.is_closed(client) && one.is_closed(other));
    one.all_leave(&[]);
}

/// Its end is reported once, perhaps with what it has said.
#[test]
fn client_that_says_a_part_of_a_hello_and_goes_at_once_is_not_waited_for() {
    for seed in 0..20 {
        let mut one = One::start_secure(silent_config(), seed);
        let client = silent(&mut one);
        one.server.shards[0].sockets().says_so_much(client.socket, 150);
        one.wire(client).client_ends();
        one.settle();
        assert!(one.is_closed(client), "seed {seed}");
        assert_eq!(ended(&one.server.figures(), DisconnectReason::TlsTimeout), 0, "seed {seed}");
        one.all_leave(&[]);
    }
}

#[test]
fn client_that_goes_within_its_handshake_leaves_nothing() {
    for resets in [true, false] {
        let mut one = start();
        let client = silent(&mut one);
        while one.handshakes() == 0 {
            one.server.report_one(client);
        }
        assert!(one.server.account.bytes() > 4_000, "what it keeps is accounted for");
        one.server.shards[0].sockets().say_nothing_more(client.socket);
        match resets {
            true => one.wire(client).client_resets(),
            false => one.wire(client).client_ends(),
        }
        one.settle();
        assert!(one.is_closed(client));
        one.all_leave(&[]);
    }
}

/// What rustls has begun cannot be written down: it ends with its process. A hello that is not
/// whole goes along.
#[test]
fn handshake_under_way_ends_with_an_upgrade_and_no_other() {
    for seed in 0..20 {
        let mut one = start();
        let random = &mut Random::new(seed);
        let (good, half) = (one.client(1 << 20, STREAM), silent(&mut one));
        let sockets = one.server.shards[0].sockets();
        let rest = sockets.say_nothing_more(half.socket);
        let (first, rest) = rest.split_at(random.below(rest.len()));
        sockets.inject(half.socket, first);
        one.hear_out(half);
        let begun = silent(&mut one);
        while !one.server.shards[0].sockets().has_begun(begun.socket) {
            one.server.report_one(begun);
        }
        one.upgrade(random);
        assert!(one.is_closed(begun) && !one.is_closed(half) && !one.is_closed(good));
        assert_eq!(one.server.figures().connections_open, 2);
        one.server.shards[0].sockets().inject(half.socket, rest);
        one.hear_out(half);
        one.say(half, STREAM.as_bytes());
        one.send("1", "5");
        one.settle();
        assert!([good, half].iter().all(|&client| one.reads(client).ends_with("\"data\":5}\n")));
        one.all_leave(&[good, half]);
    }
}

#[test]
fn broken_record_ends_its_connection_with_an_alert_and_no_other() {
    let mut one = start();
    let (bad, good) = (one.client(1 << 20, STREAM), one.client(1 << 20, STREAM));
    one.settle();
    let forged = [&[23, 3, 3, 0, 40][..], &[1; 40], &[2; 50_000]].concat();
    one.server.shards[0].sockets().inject(bad.socket, &forged);
    one.settle();
    one.ends_well(bad);
    assert_eq!(ended(&one.server.figures(), DisconnectReason::TlsFailed), 1);
    let faults: Vec<_> = one.server.figures().tls.faults().collect();
    assert_eq!(faults, [("bad_record_mac", 1)]);
    let alert = one.server.shards[0].sockets().alert_to(bad.socket);
    assert_eq!(alert, Some(Alert::BAD_RECORD_MAC));
    one.send("1", "5");
    one.settle();
    assert!(one.reads(good).ends_with("\"data\":5}\n"));
    one.all_leave(&[good]);
}

/// As a directory of certificates does (RFC 8737, section 4).
#[test]
fn client_that_has_come_to_see_a_certificate_is_closed_behind_it() {
    let mut one = start();
    let client = silent(&mut one);
    one.server.shards[0].sockets().only_looks(client.socket);
    one.settle();
    assert!(one.is_closed(client));
    assert_eq!(ended(&one.server.figures(), DisconnectReason::Answered), 1);
    assert_eq!((one.handshakes_done(), one.server.figures().tls.failures().count()), (1, 0));
    one.all_leave(&[]);
}

#[test]
fn bytes_that_are_no_handshake_end_the_connection() {
    let mut one = start();
    let client = silent(&mut one);
    one.server.shards[0].sockets().say_nothing_more(client.socket);
    one.server.shards[0].sockets().inject(client.socket, b"GET /stream/1 HTTP/1.1\r\n\r\n");
    one.settle();
    one.ends_well(client);
    let failures: Vec<_> = one.server.figures().tls.failures().collect();
    assert_eq!(failures, [("nobody", "not_tls", 1)]);
    one.all_leave(&[]);
}

/// A head that is longer than what is read at a time, in records that are longer too.
#[test]
fn text_for_which_there_is_no_room_yet_is_not_lost() {
    let mut one = start();
    one.server.set_read_bytes(64);
    let filler = "x".repeat(3_000);
    let head = format!("GET /stream/1 HTTP/1.0\r\nX-Filler: {filler}\r\n\r\n");
    let clients: Vec<Place> = (0..20).map(|_| one.client(1 << 20, &head)).collect();
    one.settle();
    for &client in &clients {
        assert!(one.reads(client).starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(one.wire(client).received, head.len());
    }
    one.all_leave(&clients);
}

/// What a client has no room for waits as ciphertext, and is accounted for.
#[test]
fn record_that_is_cut_off_is_accounted_for_and_goes_on_when_there_is_room() {
    let mut one = start();
    // Its head fills the kernel, and is not read.
    let client = one.client(100, STREAM);
    one.settle();
    let data = format!("\"{}\"", "y".repeat(9_000));
    one.send("1", &data);
    one.settle();
    let kept = one.server.account.bytes();
    assert!((9_000..30_000).contains(&kept), "{kept}");
    let mut heard = String::new();
    for _ in 0..5 {
        heard.push_str(&one.reads(client));
        one.settle();
    }
    assert!(heard.starts_with("HTTP/1.1 200 OK\r\n"));
    assert!(heard.ends_with(&format!("{data}}}\n")), "{} bytes", heard.len());
    assert_eq!(one.server.account.bytes(), 0);
    one.all_leave(&[client]);
}

/// A proxy that is trusted says for whom it asks, before the hello and in the clear.
#[test]
fn header_before_the_hello_is_read_wherever_it_is_cut() {
    const FOREIGN: &str = "203.0.113.7";
    let v1 = format!("PROXY TCP4 {FOREIGN} 192.0.2.1 1 2\r\n");
    let mut v2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x11".to_vec();
    v2.extend([203, 0, 113, 7, 192, 0, 2, 1, 0, 1, 0, 2]);
    // A TLV that says nothing.
    v2.extend([4, 0, 2, 7, 7]);
    for header in [v1.as_bytes(), &v2] {
        let per_address =
            AddressLimits { connections: 1, connects_per_second: 0, request_bytes_per_second: 0 };
        let trusted = proto::Networks::new(vec!["10.0.0.1".parse().unwrap()]);
        let config = EngineConfig { per_address, trusted, ..silent_config() };
        let mut one = One::start_secure(config, 7);
        let foreign: IpAddr = FOREIGN.parse().unwrap();
        let (mut random, mut agreed) = (Random::new(7), 0);
        for cut in 0..header.len() + 300 {
            let proxy: IpAddr = "10.0.0.1".parse().unwrap();
            let client = one.server.connect_silent(proxy, 0, 1 << 20).unwrap();
            let sockets = one.server.shards[0].sockets();
            let hello = sockets.say_nothing_more(client.socket);
            let says = [header, &hello].concat();
            let (first, rest) = says.split_at(cut.min(says.len()));
            one.server.shards[0].sockets().inject(client.socket, first);
            one.hear_out(client);
            if cut % 2 == 0 && !one.server.shards[0].sockets().has_begun(client.socket) {
                agreed += one.handshakes_done();
                one.upgrade(&mut random);
            }
            one.server.shards[0].sockets().inject(client.socket, rest);
            one.hear_out(client);
            assert_eq!(agreed + one.handshakes_done(), cut as u64 + 1, "cut at {cut}");
            assert!(one.server.connect_silent(foreign, 0, 1).is_err(), "its address counts");
            one.say(client, STREAM.as_bytes());
            one.hear_out(client);
            assert!(one.reads(client).starts_with("HTTP/1.1 200 OK\r\n"));
            one.wire(client).client_ends();
            one.hear_out(client);
            assert!(one.is_closed(client));
        }
        one.all_leave(&[]);
    }
}
