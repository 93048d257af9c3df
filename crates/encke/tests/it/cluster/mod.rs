//! Several nodes over a real NATS: one audience, one order, and nothing lost in silence.

mod api_keys;
mod demo;
mod drain;
mod epochs;
mod erlang;
mod failures;
mod graph;
mod keep;
mod keys;
mod member_faults;
mod members;
mod nemesis;
mod publish;
mod replica;
mod sends;
mod streams_events;
mod tokens;
mod upgrade;

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use testing::{NatsServer, tried_again};

use crate::harness::{Api, Program, Server, Stream, get, wait_for};

/// The name of the cluster in all tests: each has a NATS of its own.
const NAME: &str = "--cluster=c";

/// A NATS and nodes on stores that outlive them.
pub(crate) struct World {
    pub(crate) nats: NatsServer,
    stores: TempDir,
}

impl World {
    /// `None`, and the test is skipped, where there is no NATS.
    pub(crate) fn new() -> Option<World> {
        Some(World::over(NatsServer::start(&testing::nats_current()?)))
    }

    fn over(nats: NatsServer) -> World {
        World { nats, stores: tempfile::tempdir().unwrap() }
    }

    /// The node of that name.
    pub(crate) fn node(&self, name: &str, options: &[&str]) -> Server {
        self.node_at(name, &self.nats.url(), options)
    }

    /// The same, which reaches NATS at `url`.
    fn node_at(&self, name: &str, url: &str, options: &[&str]) -> Server {
        let (nats, node) = (format!("--nats={url}"), format!("--node={name}"));
        let mut all = vec![NAME, &nats, &node];
        all.extend(options);
        Server::start_in(&self.store(name), &all)
    }

    /// The same, which may take its time to become a member.
    fn starting(&self, name: &str, options: &[&str]) -> (Program, Api) {
        let (nats, node) = (format!("--nats={}", self.nats.url()), format!("--node={name}"));
        let mut all = vec![NAME, &nats, &node];
        all.extend(options);
        Server::starting_in(&self.store(name), &all)
    }

    fn store(&self, name: &str) -> std::path::PathBuf {
        self.stores.path().join(Path::new(name))
    }

    /// So many nodes that know of each other.
    fn nodes<const N: usize>(&self) -> [Server; N] {
        self.nodes_with(&[])
    }

    /// The same, with these options.
    pub(crate) fn nodes_with<const N: usize>(&self, options: &[&str]) -> [Server; N] {
        let nodes: Vec<Server> = (1..=N).map(|n| self.node(&format!("n{n}"), options)).collect();
        nodes.iter().for_each(|node| wait_members(node, N as u64));
        nodes.try_into().ok().unwrap()
    }
}

fn cluster_stats(node: &Server) -> Value {
    node.api.stats()["cluster"].take()
}

fn wait_members(node: &Server, members: u64) {
    wait_for(&format!("{members} members"), || cluster_stats(node)["members"] == members);
}

/// Waits until all of them reach NATS and have read the log: from then on each counts in time.
fn wait_ready(nodes: &[&Server]) {
    wait_for("all nodes are ready", || {
        nodes.iter().all(|node| node.api.get("/readyz").status() == 200)
    });
}

/// An answer that has the parts of all nodes. Where the machine stands still one may come too late
/// for it, and the answer says so: then it is asked for again, and that is told.
#[track_caller]
fn whole(ask: impl Fn() -> Value) -> Value {
    for _ in 0..4 {
        let answer = ask();
        if answer["at_least"] != true {
            return answer;
        }
        tried_again("a node's part came too late for an answer");
    }
    panic!("some node never answers in time");
}

/// How many connections an id has at all nodes.
#[track_caller]
fn connections_at_all(node: &Server, id: &str) -> u64 {
    let answer = whole(|| node.api.get(&format!("/connections/{id}")).ok());
    answer["connections"].as_u64().unwrap()
}

/// Sends an event that `expected` connections hear, whichever nodes they are at. Where the machine
/// stands still a count may come too late for the answer, which says so: the event cannot be sent
/// again, so that is forgiven and told.
#[track_caller]
fn send_to_all(node: &Server, about: &str, data: impl Into<Value>, expected: u64) {
    let answer = node.api.post("/send", &json!({ "about": about, "data": data.into() })).ok();
    let delivered = answer["delivered"].as_u64().unwrap();
    if answer["at_least"] == true {
        assert!(delivered <= expected, "{answer}");
        tried_again("a node's count came too late for an answer");
    } else {
        assert_eq!(delivered, expected, "{answer}");
    }
}

/// A stream that goes on at `node` where `place` says.
fn resume(node: &Server, id: &str, place: &str) -> Stream {
    let fields = ["Accept: application/x-ndjson", &format!("Last-Event-ID: {place}")];
    let mut wire = node.ask(get(&format!("/stream/{id}"), &fields));
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    Stream { wire, head, cursor: None }
}

/// The payloads of the next `count` events, and the id of the last.
fn hear(stream: &mut Stream, count: usize) -> (Vec<Value>, String) {
    let mut place = String::new();
    let data = (0..count).map(|_| {
        let mut event = stream.event();
        let id = event["id"].as_str().unwrap_or_else(|| panic!("{event}")).to_owned();
        assert!(place < id, "ids grow: {place} {id}");
        place = id;
        event["data"].take()
    });
    (data.collect(), place)
}
