//! Logging out: at once, however a connection ends, and while events are on their way to it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::harness::{Api, Server, Stream, seed};

#[test]
fn logout_of_one_id_ends_the_connection_with_all_its_ids() {
    let server = Server::start(&[]);
    let mut both = server.listener("a?id=b");
    let mut only = server.listener("b");
    assert_eq!(server.api.logout("a"), 1);
    both.expect_last_chunk();
    assert_eq!((server.api.connections("a"), server.api.connections("b")), (0, 1));
    assert_eq!(server.api.send("b", 1), 1);
    assert_eq!(only.data(), 1);
    assert_eq!((server.api.logout("b"), server.api.logout("b")), (1, 0));
    only.expect_last_chunk();
}

#[test]
fn client_that_is_logged_out_and_stays_is_gone_for_the_server() {
    let server = Server::start(&[]);
    let sockets = server.worker_sockets();
    let mut streams: Vec<_> = (0..20).map(|_| server.listener("a")).collect();
    assert_eq!(server.api.logout("a"), 20);
    assert_eq!((server.api.send("a", 1), server.api.connections("a")), (0, 0));
    streams.iter_mut().for_each(Stream::expect_last_chunk);
    // They do not close their side; the server does not wait for it for ever.
    let stats = server.wait_open(0);
    assert_eq!(stats["connections_closed"]["logged_out"], 20);
    assert_eq!(server.worker_sockets(), sockets);
    drop(streams);
}

#[test]
fn id_comes_and_goes_thousands_of_times() {
    let server = Server::start(&[]);
    for n in 0..2000 {
        let id = format!("visitor:{}", n % 7);
        let stream = server.listener(&id);
        assert_eq!(server.api.connections(&id), 1, "who has read the head is online");
        assert_eq!(server.api.logout(&id), 1);
        assert_eq!(server.api.connections(&id), 0);
        drop(stream);
    }
    server.wait_open(0);
    assert_eq!(server.api.stats()["ids_online"], 0);
    server.api.wait_settled();
}

/// A client that comes, hears a few events and goes, again and again, each time in another way.
struct Visitor {
    number: u64,
    listen: SocketAddr,
    api: Api,
    random: fastrand::Rng,
}

/// What visits came to.
#[derive(Default)]
struct Account {
    /// Events that visitors have read.
    heard: u64,
    /// Deliveries that the senders among them were told of.
    delivered: u64,
}

impl Visitor {
    fn visit(&mut self, visit: u64, account: &mut Account) {
        // Slots are given away again: what is about another visit must never arrive here.
        let own = format!("own:{}:{visit}", self.number);
        let mut stream = Stream::open(self.listen, &format!("/stream/all?id={own}"), "*/*");
        for _ in 0..self.random.u32(..4) {
            assert_eq!(stream.event()["about"], "all", "at {own}");
            account.heard += 1;
        }
        match self.random.u32(..4) {
            0 => stream.wire.reset(),
            1 => {
                stream.wire.half_close();
                stream.end();
            }
            2 => assert_eq!(self.api.logout(&own), 1),
            _ => drop(stream),
        }
        // The server may not know yet that it is gone.
        account.delivered += self.api.send(&own, "to nobody");
    }
}

#[test]
fn events_fly_while_connections_end_and_every_count_is_true() {
    const EVENTS: u64 = 3000;
    const VISITORS: u64 = 6;
    let seed = seed();
    let server = Server::start(&["--max-backlog=64MiB"]);
    let mut staying: Vec<_> = (0..3).map(|_| server.listener("all")).collect();
    let done = AtomicBool::new(false);
    let account = thread::scope(|scope| {
        let visitors: Vec<_> = (0..VISITORS)
            .map(|number| {
                let (listen, api) = (server.listen(), server.api.another());
                let random = fastrand::Rng::with_seed(seed ^ number);
                let (mut visitor, done) = (Visitor { number, listen, api, random }, &done);
                scope.spawn(move || {
                    let mut account = Account::default();
                    let mut visits = 0..;
                    while !done.load(Ordering::Relaxed) {
                        visitor.visit(visits.next().unwrap(), &mut account);
                    }
                    account
                })
            })
            .collect();
        let mut account = Account::default();
        let mut send = |data| {
            let count = server.api.send("all", data);
            assert!(count >= staying.len() as u64, "{count} deliveries of {data}");
            account.delivered += count;
        };
        (0..EVENTS).for_each(&mut send);
        done.store(true, Ordering::Relaxed);
        // Those that still wait for an event get what they need to leave.
        while !visitors.iter().all(thread::ScopedJoinHandle::is_finished) {
            send(EVENTS);
        }
        for visitor in visitors {
            let Account { heard, delivered } = visitor.join().unwrap();
            account.heard += heard;
            account.delivered += delivered;
        }
        account
    });
    for stream in &mut staying {
        for n in 0..EVENTS {
            assert_eq!(stream.data(), n);
        }
    }
    let heard = account.heard + EVENTS * staying.len() as u64;
    assert!(heard <= account.delivered, "{heard} heard, {} delivered", account.delivered);
    let stats = server.wait_open(3);
    assert_eq!(stats["deliveries"], account.delivered);
    assert_eq!(stats["ids_online"], 1);
    server.api.wait_settled();
}
