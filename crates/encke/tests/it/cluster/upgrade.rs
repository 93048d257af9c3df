//! Two versions side by side: nodes of the previous one, as `cargo xtask programs` builds it from a
//! commit of the past, are replaced one by one while everybody goes on.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{park_timeout, scope};
use std::time::Duration;

use serde_json::{Value, json};
use testing::postgres::Postgres;

use super::{World, connections_at_all, send_to_all, wait_members};
use crate::harness::{Api, Program, Server, Wire, encke, get, wait_for};

const NODES: usize = 3;

/// A cluster whose nodes come and go under clients and senders.
struct Cluster {
    world: World,
    postgres: Postgres,
    previous: PathBuf,
    traffic: Traffic,
}

/// What senders and listeners know and tell.
#[derive(Default)]
struct Traffic {
    /// Where each node is while it runs.
    places: Mutex<[Option<Place>; NODES]>,
    /// No more is sent.
    ended: AtomicBool,
    /// The test has failed, so nobody waits for anything any more.
    failed: AtomicBool,
    /// How much of each sender was acknowledged.
    acknowledged: [AtomicU64; NODES],
}

/// Ends what goes on beside a test that fails, for which it would wait.
struct Ending<'a>(&'a Traffic);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
            self.0.ended.store(true, Ordering::Relaxed);
        }
    }
}

#[derive(Clone, Copy)]
struct Place {
    streams: SocketAddr,
    api: SocketAddr,
}

impl Cluster {
    /// `None`, and the test is skipped, where something of it is missing.
    fn new() -> Option<Cluster> {
        // A clone without history tries what it can: nodes are replaced by their like.
        let previous =
            testing::found("previous/encke").unwrap_or_else(|| env!("CARGO_BIN_EXE_encke").into());
        let (world, postgres) = (World::new()?, Postgres::start(&[])?);
        Some(Cluster { world, postgres, previous, traffic: Traffic::default() })
    }

    /// Starts a node: of this version unless `program` is given.
    fn start(&self, node: usize, program: Option<&Path>) -> Server {
        let name = format!("n{node}");
        let options = [
            super::NAME.to_owned(),
            format!("--nats={}", self.world.nats.url()),
            format!("--node={name}"),
            format!("--postgres={}", self.postgres.url()),
            "--history-events=100000".to_owned(),
        ];
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let store = self.world.store(&name);
        let server = match program {
            Some(program) => Server::start_program(program, &store, &options),
            None => Server::start_in(&store, &options),
        };
        let place = Place { streams: server.listen(), api: server.api.address() };
        self.traffic.places.lock().unwrap()[node] = Some(place);
        server
    }

    /// Ends a node in order, and starts this version in its place.
    fn upgrade(&self, node: usize, old: Server) -> Server {
        self.traffic.places.lock().unwrap()[node] = None;
        let ended = old.stop("TERM");
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        self.start(node, None)
    }
}

impl Traffic {
    /// Any node that runs, from `first` on.
    fn place(&self, first: usize) -> Place {
        let places = *self.places.lock().unwrap();
        (0..NODES).find_map(|n| places[(first + n) % NODES]).unwrap()
    }

    /// Sends about `alice` at one node, or at the next one while that is away: one by one, and in
    /// streams of lines. Numbers grow, past what was not acknowledged too; returns those that were.
    fn send(&self, sender: usize) -> Vec<u64> {
        let (mut number, mut known) = (0, Vec::new());
        while !self.ended.load(Ordering::Relaxed) {
            let api = Api::new(self.place(sender).api);
            let event = |n: u64| json!({ "about": "alice", "data": [sender, n] });
            if number % 8 == 0 {
                let lines: String =
                    (number..number + 4).map(|n| format!("{}\n", event(n))).collect();
                let kind = Some("application/x-ndjson");
                let answer = api.request("POST", "/send", kind, lines.as_bytes());
                let body = answer.map(|answer| answer.body).unwrap_or_default();
                let sent = body.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
                known.extend(
                    (number..).zip(sent).filter(|(_, one)| one["id"].is_string()).map(|(n, _)| n),
                );
                number += 4;
            } else {
                let mut event = event(number);
                // Nodes that do not read keys in the log must meet none there.
                if number % 8 == 7 {
                    event["key"] = json!(format!("{sender} {number}"));
                }
                let answer = api.try_post("/send", &event);
                known.extend(answer.is_ok_and(|answer| answer.status() == 200).then_some(number));
                number += 1;
            }
            self.acknowledged[sender].store(known.len() as u64, Ordering::Relaxed);
            park_timeout(Duration::from_millis(1));
        }
        known
    }

    /// Waits until each sender has so many more acknowledged.
    fn wait_traffic(&self, more: u64) {
        let counts = || self.acknowledged.each_ref().map(|count| count.load(Ordering::Relaxed));
        let before = counts();
        wait_for("sends go on", || {
            counts().iter().zip(before).all(|(now, before)| *now >= before + more)
        });
    }

    /// Hears what `bob` hears until the end, from one node after the other.
    fn listen(&self, first: usize) -> Vec<(usize, u64)> {
        let (mut heard, mut place) = (Vec::new(), None::<String>);
        let mut wire = self.connect(first, None);
        loop {
            assert!(!self.failed.load(Ordering::Relaxed), "the test has failed elsewhere");
            // It is empty, or an error, where the stream ends.
            let chunk = wire.chunk().unwrap_or_default();
            if chunk.is_empty() {
                wire = self.connect(first, place.as_deref());
                continue;
            }
            let Ok(event) = serde_json::from_slice::<Value>(&chunk) else { continue };
            let id = event["id"].as_str().unwrap_or_else(|| panic!("no event: {event}"));
            assert!(place.as_deref().is_none_or(|place| place < id), "ids grow");
            place = Some(id.to_owned());
            if event["data"] == "end" {
                return heard;
            }
            let number = |at: usize| event["data"][at].as_u64().unwrap();
            heard.push((number(0) as usize, number(1)));
        }
    }

    fn connect(&self, first: usize, place: Option<&str>) -> Wire {
        let place = place.map(|place| format!("Last-Event-ID: {place}"));
        let fields: Vec<&str> = place.as_deref().into_iter().collect();
        let mut found = None;
        wait_for("a node takes the client", || {
            let wire = Wire::try_connect(self.place(first).streams);
            found = wire.ok().and_then(|mut wire| {
                wire.try_send(get("/stream/bob", &fields)).ok()?;
                let head = wire.try_head().ok()?;
                (head.status == 200).then_some(wire)
            });
            found.is_some()
        });
        found.unwrap()
    }
}

/// Each node's sends and changes are the other's, in full.
fn check_side_by_side(nodes: &[Server], round: usize) {
    let reader = format!("reader-{round}");
    let mut streams: Vec<_> = nodes.iter().map(|node| node.listener(&reader)).collect();
    for (n, node) in nodes.iter().enumerate() {
        let subject = format!("subject-{round}-{n}");
        node.api.subscribe(&reader, &subject);
        for other in nodes {
            send_to_all(other, &subject, n, NODES as u64);
        }
        for stream in &mut streams {
            (0..NODES).for_each(|_| assert_eq!(stream.data(), n));
        }
    }
    for node in nodes {
        assert_eq!(connections_at_all(node, &reader), NODES as u64);
    }
}

#[test]
fn nodes_of_two_versions_are_one_cluster_and_an_upgrade_loses_nothing() {
    let Some(cluster) = Cluster::new() else { return };
    let mut nodes: Vec<Server> =
        (0..NODES).map(|node| cluster.start(node, Some(&cluster.previous))).collect();
    nodes.iter().for_each(|node| wait_members(node, NODES as u64));
    nodes[0].api.subscribe("bob", "alice");
    scope(|scope| {
        let traffic = &cluster.traffic;
        let _ending = Ending(traffic);
        let clients: Vec<_> = (0..NODES).map(|n| scope.spawn(move || traffic.listen(n))).collect();
        wait_for("all are online", || nodes[0].api.connections("bob") == NODES as u64);
        let senders: Vec<_> = (0..NODES).map(|n| scope.spawn(move || traffic.send(n))).collect();
        traffic.wait_traffic(50);
        for round in 0..NODES {
            let old = nodes.remove(round);
            nodes.insert(round, cluster.upgrade(round, old));
            nodes.iter().for_each(|node| wait_members(node, NODES as u64));
            check_side_by_side(&nodes, round);
            traffic.wait_traffic(50);
        }
        traffic.ended.store(true, Ordering::Relaxed);
        let known: Vec<_> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
        wait_for("all are back", || nodes[0].api.connections("bob") == NODES as u64);
        nodes[0].api.send("alice", "end");
        for client in clients {
            let heard = client.join().unwrap();
            for (sender, known) in known.iter().enumerate() {
                let of = heard.iter().filter(|(from, _)| *from == sender).map(|(_, n)| *n);
                let of: Vec<u64> = of.collect();
                assert!(of.is_sorted_by(|a, b| a < b), "in order, once");
                let lost: Vec<_> = known.iter().filter(|n| of.binary_search(n).is_err()).collect();
                assert!(lost.is_empty(), "of sender {sender} {lost:?} of {} are lost", known.len());
            }
        }
    });
}

/// Puts `record` into the log of the first epoch, past all nodes.
fn publish(nats: SocketAddr, record: &[u8]) {
    let mut wire = Wire::connect(nats);
    let subject = "encke.c.1.log.E";
    wire.send(format!("CONNECT {{\"verbose\":false}}\r\nPUB {subject} {}\r\n", record.len()));
    wire.send([record, b"\r\nPING\r\n"].concat());
    wire.take_through(b"PONG\r\n").unwrap();
}

/// What no node can read is passed over by all alike; what a newer one could read, by none.
#[test]
fn node_that_meets_a_record_of_a_newer_version_says_so_and_ends() {
    let Some(world) = World::new() else { return };
    let node = world.node("n1", &[]);
    let mut stream = node.listener("alice");
    publish(world.nats.address(), b"no record");
    assert_eq!(node.api.send("alice", 1), 1);
    assert_eq!(stream.data(), 1);
    // A head as all formats have it, by somebody who had read nothing yet, and a body to come.
    let record = [&[250, b'E'][..], &[0; 32], b"what a later format has"].concat();
    publish(world.nats.address(), &record);
    stream.expect_last_chunk();
    let ended = node.into_program().finish();
    assert_eq!(ended.code(), Some(1), "{ended:?}");
    let words = ["a newer version of Encke", "of format 250", "start the newer version here"];
    for words in words.into_iter().chain(["no longer part of its cluster"]) {
        assert!(ended.stderr.contains(words), "{words:?} in {}", ended.stderr);
    }
    // It does not come back either while the record is there.
    let again = world.store("n1");
    let nats = format!("--nats={}", world.nats.url());
    let arguments = ["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", super::NAME, &nats];
    let mut command = encke(arguments);
    let ended = Program::run(command.arg("--node=n1").arg("--data").arg(again));
    assert!(ended.stderr.contains("a newer version of Encke"), "{ended:?}");
}
