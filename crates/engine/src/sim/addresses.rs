//! Foreign clients: clients of a few addresses, by themselves and through proxies, by seed, against
//! a map of how many connections each address has.
//!
//! What is looked at is whether each is let in exactly when the map says so, whatever is split
//! wherever, and that nothing is counted when all are gone. A PROXY header stands before the first
//! request, or, where they speak TLS, before the handshake.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use hub::{Bound, DisconnectReason, Epoch, HistoryLimits, Names, Tag};

use super::lives::To;
use super::random::Random;
use super::server::{Place, SHARDS, Server, config};
use super::world::NEVER;
use super::{ended, run_seeds_of};
use crate::config::{AddressLimits, EngineConfig};
use crate::counters::WorkerSnapshot;
use crate::router::Router;
use crate::shard::NoPlace;

const PROXY: &str = "10.0.0.1";

/// Exempt, and believed nothing.
const LOCAL: &str = "127.0.0.1";

const MOST: u32 = 3;

/// Addresses that count, the last two as one.
const ADDRESSES: [&str; 5] =
    ["203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8:0:1::1", "2001:db8:0:1:2::3"];

/// What the map knows an address by.
fn counted(address: &str) -> &str {
    if address == ADDRESSES[4] { ADDRESSES[3] } else { address }
}

struct Client {
    place: Place,
    /// For which address it counts.
    source: Option<&'static str>,
    /// It is believed for whom it asks.
    is_proxy: bool,
    /// Nothing has been sent on it.
    is_new: bool,
}

struct World {
    random: Random,
    upgrades: Random,
    /// At how many moments another version takes over, and how many have.
    upgrade_one_in: usize,
    upgraded: u64,
    tls: bool,
    router: Router,
    server: Server,
    clients: Vec<Client>,
    bounds_met: u64,
}

impl World {
    fn new(seed: u64, tls: bool, upgrade_one_in: usize) -> World {
        let per_address = AddressLimits {
            connections: MOST,
            connects_per_second: 0,
            request_bytes_per_second: 0,
        };
        let config = EngineConfig {
            per_address,
            trusted: proto::Networks::new(vec!["10.0.0.0/8".parse().unwrap()]),
            history: HistoryLimits::OFF,
            ..config()
        };
        let names = Arc::new(Names::new([9; 16]));
        let epoch = Epoch::begin(Tag::of(0), 0, 0);
        let (router, mut server) = Server::start(names, config, epoch, tls.then_some(seed));
        server.set_read_bytes(64);
        World {
            random: Random::new(seed),
            upgrades: Random::new(!seed),
            upgrade_one_in,
            upgraded: 0,
            tls,
            router,
            server,
            clients: Vec::new(),
            bounds_met: 0,
        }
    }

    fn address(&mut self) -> &'static str {
        ADDRESSES[self.random.below(ADDRESSES.len())]
    }

    /// Whether one more of `address` is to be let in.
    fn has_room(&self, address: &str) -> bool {
        let mut counts = BTreeMap::<&str, u32>::new();
        for source in self.clients.iter().filter_map(|client| client.source) {
            *counts.entry(counted(source)).or_default() += 1;
        }
        counts.get(counted(address)).is_none_or(|&count| count < MOST)
    }

    fn connect(&mut self) {
        let kind = self.random.below(5);
        let (is_proxy, is_local) = (kind < 2, kind == 2);
        let source = (!is_proxy && !is_local).then(|| self.address());
        let address = source.unwrap_or(if is_local { LOCAL } else { PROXY });
        let address: IpAddr = address.parse().unwrap();
        let shard = self.random.below(SHARDS);
        let is_let_in = source.is_none_or(|source| self.has_room(source));
        match self.server.connect_silent(address, shard, 1 << 20) {
            Ok(place) => {
                assert!(is_let_in, "{address} has enough");
                self.clients.push(Client { place, source, is_proxy, is_new: true });
                if self.tls {
                    self.shake_hands(self.clients.len() - 1);
                }
            }
            Err(why) => {
                assert!(!is_let_in, "{address} has room");
                assert_eq!(why, NoPlace::Bound(Bound::ConnectionsPerAddress));
                self.bounds_met += 1;
            }
        }
    }

    /// A handshake, with whatever may stand before it.
    fn shake_hands(&mut self, index: usize) {
        let named = self.address();
        let (with_header, is_proxy) = (self.random.one_in(2), self.clients[index].is_proxy);
        let place = self.clients[index].place;
        let fails = with_header && !is_proxy;
        let is_bound = with_header && is_proxy && !self.has_room(named);
        if with_header {
            let header = header(named);
            self.server.shards[place.shard].sockets().say_first(place.socket, &header);
        }
        let (before, upgraded) = (self.server.figures(), self.upgraded);
        self.settle(place);
        let after = self.server.figures();
        let done = |figures: &WorkerSnapshot| {
            let failures = figures.tls.failures().map(|(.., count)| count).sum::<u64>();
            (figures.tls.handshakes().map(|(.., count)| count).sum::<u64>(), failures)
        };
        let ((agreed_before, failed_before), (agreed, failed)) = (done(&before), done(&after));
        let is_agreed = !fails && !is_bound;
        // Another version counts these anew.
        if upgraded == self.upgraded {
            assert_eq!(agreed - agreed_before, u64::from(is_agreed), "{named}, {with_header}");
            let failed = failed - failed_before;
            assert_eq!(failed, u64::from(fails), "a header of a foreign client's is no TLS");
        }
        self.bounds_met += u64::from(is_bound);
        match is_agreed {
            true if with_header => {
                let client = &mut self.clients[index];
                (client.source, client.is_proxy) = (Some(named), false);
            }
            true => {}
            false => self.leave(index),
        }
    }

    /// Has a shard do all there is.
    fn settle(&mut self, place: Place) {
        self.upgrade(place);
        while self.server.turn(place.shard) || self.server.wire(place).has_news() {
            self.upgrade(place);
        }
    }

    /// Perhaps another version takes over: unless a handshake has begun, which would be lost.
    fn upgrade(&mut self, Place { shard, socket, .. }: Place) {
        if !self.upgrades.one_in(self.upgrade_one_in)
            || self.server.shards[shard].sockets().has_begun(socket)
        {
            return;
        }
        assert!(self.server.tick_at_rest(), "there is no mail");
        let (names, to) = (Arc::new(Names::new([9; 16])), To::SameShard);
        self.router = self.server.upgrade(&self.router, names, to, &mut self.upgrades);
        self.upgraded += 1;
    }

    /// A poll that is answered at once, with whatever may stand before it and in it.
    fn ask(&mut self, index: usize) {
        let (with_header, with_field) = (self.random.one_in(3), self.random.one_in(2));
        let (by_header, by_field) = (self.address(), self.address());
        let client = &self.clients[index];
        let (is_proxy, is_new, source) = (client.is_proxy, client.is_new, client.source);
        let mut says = Vec::new();
        let mut is_believed = is_proxy;
        let mut status = "200";
        // As the model has it: what it counts for after each step.
        let mut named = source;
        if with_header && is_new {
            says.extend(header(by_header));
            if !is_proxy || self.tls {
                status = "400";
            } else if self.has_room(by_header) {
                (named, is_believed) = (Some(by_header), false);
                self.clients[index].is_proxy = false;
            } else {
                status = "429";
            }
        }
        self.clients[index].source = named;
        let field = match with_field {
            true => format!("X-Forwarded-For: 9.9.9.9, {by_field}, 10.0.0.7\r\n"),
            false => String::new(),
        };
        says.extend(format!("GET /poll/1?wait=0 HTTP/1.1\r\nHost: a\r\n{field}\r\n").bytes());
        if status == "200" && is_believed {
            let wanted = with_field.then_some(by_field);
            let is_same = wanted.map(counted) == named.map(counted);
            if is_same || wanted.is_none_or(|wanted| self.has_room(wanted)) {
                self.clients[index].source = wanted;
            } else {
                status = "429";
            }
        }
        self.bounds_met += u64::from(status == "429");
        self.clients[index].is_new = false;
        self.say(index, &says);
        let place = self.clients[index].place;
        let answer = self.server.wire(place).client_reads(usize::MAX);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{status}: {answer}");
        if status != "200" {
            // It lingers until its client ends too.
            self.leave(index);
        }
    }

    /// Says it in pieces, each read when it comes.
    fn say(&mut self, index: usize, mut says: &[u8]) {
        let place = self.clients[index].place;
        while !says.is_empty() {
            let len = (1 + self.random.below(30)).min(says.len());
            self.server.wire(place).client_sends(&says[..len]);
            self.server.report_one(place);
            self.server.turn(place.shard);
            says = &says[len..];
        }
        self.settle(place);
    }

    fn leave(&mut self, index: usize) {
        let place = self.clients.swap_remove(index).place;
        match self.random.below(2) {
            0 => self.server.wire(place).client_ends(),
            _ => self.server.wire(place).client_resets(),
        }
        self.settle(place);
        assert!(self.server.wire(place).server_closed, "it is gone");
    }

    fn run(mut self) -> WorkerSnapshot {
        for _ in 0..600 {
            match (self.random.below(8), self.clients.len()) {
                (0..3, _) | (_, 0) => self.connect(),
                (3, clients) => {
                    let index = self.random.below(clients);
                    self.leave(index);
                }
                (_, clients) => {
                    let index = self.random.below(clients);
                    self.ask(index);
                }
            }
        }
        let figures = self.server.figures();
        assert_eq!(figures.bounds.iter().sum::<u64>(), self.bounds_met);
        while !self.clients.is_empty() {
            self.leave(0);
        }
        self.server.end();
        self.server.check_nothing_is_left();
        self.server.figures()
    }
}

/// The header of one who asks for `client`.
fn header(client: &str) -> Vec<u8> {
    let family = if client.contains(':') { "TCP6" } else { "TCP4" };
    format!("PROXY {family} {client} {client} 1 2\r\n").into()
}

fn run_seeds(name: &str, tls: bool, happened: impl Fn(&WorkerSnapshot) -> bool) {
    for upgrade_one_in in [NEVER, 30] {
        run_seeds_of(
            name,
            40,
            |seed| World::new(seed, tls, upgrade_one_in).run(),
            |figures| {
                let reasons = [DisconnectReason::AddressLimit, DisconnectReason::BadRequest];
                reasons.iter().all(|&reason| ended(figures, reason) > 100) && happened(figures)
            },
        );
    }
}

#[test]
fn foreign_clients_are_let_in_exactly_as_a_map_says_and_leave_nothing() {
    run_seeds("foreign_clients", false, |_| true);
}

#[test]
fn foreign_clients_through_tls_are_let_in_exactly_as_a_map_says_and_leave_nothing() {
    run_seeds("foreign_clients_through_tls", true, |figures| {
        ended(figures, DisconnectReason::TlsFailed) > 100
    });
}
