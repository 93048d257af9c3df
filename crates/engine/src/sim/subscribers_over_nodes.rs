//! Clients of the hub at three nodes of a cluster by seed, against the rule of the protocol: they
//! come, with a token or without, and go on at other nodes, which may not have come to their place
//! yet, while the log grows, and nodes lag, or are killed and read the log again. Each hears what
//! is for it once and in the log's order, and nobody of a gap.

use std::sync::Arc;

use hub::{EventId, Nobody};
use topics::TopicFollowers;

use super::one::One;
use super::random::Random;
use super::server::{Place, SHARDS, posted};
use super::subscribers::{HUB, post_numbered, remember};
use super::subscribers_by_seed::{HubClient, TOPICS, encoded};
use super::subscribers_upgraded::guarded_node;
use crate::Outgoing;
use crate::ahead::FutureCursors;
use crate::limits::NAMED_MS;

const NODES: usize = 3;
const STEPS: usize = 250;

/// So far a node lags behind the log.
const LAG_MAX: usize = 20;

/// What stands in the log.
enum HubEntry {
    /// An update, as it was published.
    Update { form: String, topics: Vec<&'static str>, is_private: bool },
    /// An event about an id of the graph.
    Bob,
}

struct HubNode {
    one: One,
    future: FutureCursors,
    /// The number before the log's first.
    base: u64,
    /// So many entries of the log it has posted.
    applied: usize,
}

impl HubNode {
    /// One that has read the log up to there again.
    fn start(log: &[HubEntry]) -> HubNode {
        let one = guarded_node();
        // Since the last time that this machine was started; nothing is older.
        one.server.clock.pass(1_000_000);
        let (future, base) = (FutureCursors::default(), one.server.event_ids.last());
        let mut node = HubNode { one, future, base, applied: log.len() };
        // Whoever comes from now on comes at this time.
        node.turn();
        for (at, entry) in log.iter().enumerate() {
            let (id, age_ms) = (node.id(at), (log.len() - at) as u64);
            match entry {
                HubEntry::Update { form, .. } => remember(&node.one, form, id, age_ms),
                HubEntry::Bob => {
                    let outgoing = Outgoing::new("bob", &at.to_string()).unwrap();
                    let _ = node.one.router.remember(outgoing, id, age_ms);
                }
            }
        }
        node
    }

    /// The id of an entry, which is the same at each node.
    fn id(&self, at: usize) -> EventId {
        self.one.server.event_ids.id(self.base + 1 + at as u64)
    }

    fn post_next(&mut self, log: &[HubEntry]) {
        let Some(entry) = log.get(self.applied) else { return };
        let id = self.id(self.applied);
        match entry {
            HubEntry::Update { form, .. } => post_numbered(&self.one, form, id),
            HubEntry::Bob => {
                let outgoing = Outgoing::new("bob", &self.applied.to_string()).unwrap();
                posted(&mut self.one.router.send_numbered(outgoing, id), &Nobody);
            }
        }
        self.applied += 1;
    }

    fn turn(&mut self) {
        self.one.server.clock.pass(1);
        let resumes = Arc::clone(&self.one.server.resumes);
        while self.future.go_on(&self.one.router, &resumes, self.one.server.clock.now_ms()) {}
        for shard in 0..SHARDS {
            self.one.server.turn(shard);
        }
    }

    fn answer(&mut self) {
        let topics = Arc::clone(self.one.router.topics().unwrap());
        self.one.answer(&TopicFollowers::new(&topics, &Nobody));
    }
}

struct HubCluster {
    nodes: Vec<HubNode>,
    log: Vec<HubEntry>,
    random: Random,
    clients: Vec<HubClient>,
    /// At which node each is.
    at: Vec<usize>,
    /// Clients that came to a node before that had come to their place.
    faster: usize,
}

impl HubCluster {
    fn new(seed: u64) -> HubCluster {
        let nodes = (0..NODES).map(|_| HubNode::start(&[])).collect();
        let (random, clients, at) = (Random::new(seed), Vec::new(), Vec::new());
        HubCluster { nodes, log: Vec::new(), random, clients, at, faster: 0 }
    }

    fn step(&mut self) {
        match self.random.below(12) {
            0..2 => self.come(),
            2 => self.go(),
            3..7 => self.publish(),
            7 if self.random.one_in(8) => self.kill(),
            8 => self.nodes.iter_mut().for_each(HubNode::answer),
            _ => self.read(),
        }
        for at in 0..NODES {
            let lags = self.log.len() - self.nodes[at].applied > LAG_MAX;
            if lags || self.random.one_in(4) {
                self.nodes[at].post_next(&self.log);
            }
            if !self.random.one_in(4) {
                self.nodes[at].turn();
            }
        }
    }

    /// Somebody comes, or comes back, at any node.
    fn come(&mut self) {
        let away = self.clients.iter().position(|client| client.place.is_none());
        let client = match away.filter(|_| !self.random.one_in(3)) {
            Some(client) => client,
            None => {
                self.clients.push(HubClient::of(&mut self.random));
                self.at.push(0);
                self.clients.len() - 1
            }
        };
        let at = self.random.below(NODES);
        let (shard, room) = (self.random.below(SHARDS), 200 + self.random.below(2_000));
        let node = &mut self.nodes[at];
        let place = node.one.server.connect(shard, room);
        let of = &mut self.clients[client];
        of.text.clear();
        if of.last.is_empty() {
            of.expected = (node.applied..self.log.len())
                .filter(|&entry| hears(of, &self.log[entry]))
                .collect();
            of.heard.clear();
        } else if of.heard.last().is_some_and(|heard| *heard >= node.applied) {
            self.faster += 1;
        }
        node.one.say(place, of.request().as_bytes());
        node.turn();
        (of.place, self.at[client]) = (Some(place), at);
    }

    fn go(&mut self) {
        if self.clients.is_empty() {
            return;
        }
        let client = self.random.below(self.clients.len());
        self.read_one(client);
        let (of, at) = (&mut self.clients[client], self.at[client]);
        // It must know where it stands.
        if let Some(place) = of.place.filter(|_| !of.last.is_empty()) {
            of.place = None;
            self.nodes[at].one.wire(place).client_ends();
        }
    }

    fn publish(&mut self) {
        let number = self.log.len();
        let entry = match self.random.one_in(6) {
            true => HubEntry::Bob,
            false => {
                let topics: Vec<&str> = (0..1 + self.random.below(3))
                    .map(|_| TOPICS[self.random.below(TOPICS.len())])
                    .collect();
                let named = topics.iter().map(|topic| format!("topic={}&", encoded(topic)));
                let is_private = self.random.one_in(2);
                let private = if is_private { "&private=on" } else { "" };
                let own = match self.random.one_in(3) {
                    true => format!("&id=urn:{number}"),
                    false => String::new(),
                };
                let form = format!("{}data={number}{private}{own}", named.collect::<String>());
                HubEntry::Update { form, topics, is_private }
            }
        };
        let clients = self.clients.iter_mut().filter(|client| hears(client, &entry));
        clients.for_each(|client| client.expected.push(number));
        self.log.push(entry);
    }

    /// A node is killed, and starts again with what it, or another one, has read of the log.
    fn kill(&mut self) {
        let at = self.random.below(NODES);
        for client in 0..self.clients.len() {
            if self.at[client] == at && self.clients[client].place.is_some() {
                self.read_one(client);
                self.clients[client].place = None;
            }
        }
        self.nodes[at] = HubNode::start(&self.log[..self.nodes[at].applied]);
    }

    fn read(&mut self) {
        if !self.clients.is_empty() {
            let client = self.random.below(self.clients.len());
            self.read_one(client);
        }
    }

    fn read_one(&mut self, client: usize) {
        let (at, of) = (self.at[client], &mut self.clients[client]);
        let Some(place) = of.place else { return };
        let one: &mut One = &mut self.nodes[at].one;
        assert!(!one.is_closed(place), "nobody is closed");
        of.text.push_str(&one.reads(place));
        of.understand();
    }

    /// All hear what is left. How much was heard in all, and how many were faster than their node.
    fn end(mut self) -> (usize, usize) {
        while self.clients.iter().any(|client| client.place.is_none()) {
            self.come();
        }
        for _ in 0..NAMED_MS + 400 {
            for node in &mut self.nodes {
                node.post_next(&self.log);
                node.answer();
                node.turn();
            }
            (0..self.clients.len()).for_each(|client| self.read_one(client));
        }
        for client in &self.clients {
            assert_eq!(client.heard, client.expected, "{} {}", client.request(), client.text);
        }
        (self.clients.iter().map(|client| client.heard.len()).sum(), self.faster)
    }
}

fn hears(client: &HubClient, entry: &HubEntry) -> bool {
    match entry {
        HubEntry::Update { topics, is_private, .. } => client.hears(topics, *is_private),
        HubEntry::Bob => client.hears_bob(),
    }
}

#[test]
fn hub_of_nodes_by_seed_each_hears_what_is_for_it_once_wherever_it_goes_on() {
    let seed = testing::seed();
    let (mut heard, mut faster) = (0, 0);
    for run in 0..40 {
        let mut cluster = HubCluster::new(seed.wrapping_add(run));
        (0..STEPS).for_each(|_| cluster.step());
        let (of_run, faster_of_run) = cluster.end();
        (heard, faster) = (heard + of_run, faster + faster_of_run);
    }
    assert!(heard > 3_000 && faster > 30, "{heard} heard, {faster} were faster");
}

/// A client of `topic=note` at this node, behind a place.
fn behind(one: &mut One, place: &str) -> Place {
    let line = format!("Last-Event-ID: {place}\r\n");
    let request = format!("GET {HUB}?topic=note HTTP/1.0\r\nHost: hub.test\r\n{line}\r\n");
    one.client(1 << 20, &request)
}

#[test]
fn place_that_no_node_knows_is_a_gap_in_its_time_and_what_came_meanwhile_is_heard() {
    let mut node = HubNode::start(&[]);
    let client = behind(&mut node.one, "urn:nobody");
    node.turn();
    post_numbered(&node.one, "topic=note&data=meanwhile", node.id(0));
    node.turn();
    node.answer();
    node.turn();
    assert_eq!(node.one.reads(client), "", "its head waits");
    node.one.server.clock.pass(NAMED_MS);
    node.turn();
    node.answer();
    node.turn();
    let read = node.one.reads(client);
    assert!(read.contains("\r\nLast-Event-ID: earliest"), "{read}");
    assert!(read.contains("event: gap\n") && read.ends_with("data: meanwhile\n\n"), "{read}");
}

#[test]
fn what_comes_to_one_that_has_heard_it_elsewhere_goes_when_its_place_is_known() {
    let mut node = HubNode::start(&[]);
    let client = behind(&mut node.one, "urn:1");
    node.turn();
    for (at, form) in ["data=0", "data=1&id=urn:1", "data=2"].into_iter().enumerate() {
        post_numbered(&node.one, &format!("topic=note&{form}"), node.id(at));
        node.turn();
    }
    node.one.server.clock.pass(NAMED_MS);
    node.turn();
    node.answer();
    node.turn();
    let read = node.one.reads(client);
    assert!(read.contains("\r\nLast-Event-ID: urn:1\r\n"), "{read}");
    assert_eq!(read.matches("data: ").count(), 1, "{read}");
    assert!(read.ends_with("data: 2\n\n"), "{read}");
}
