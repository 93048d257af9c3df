//! Here is who is in a room, on three nodes to which faults happen, by seed. Behind each fault all
//! nodes have one list, which is who is there. What those who watch were told has become that list.

use std::collections::BTreeSet;

use super::members::{hear_until, node, watch};
use super::{World, cluster_stats, wait_members};
use crate::harness::{Server, Stream, wait_for};
use crate::members::{in_room, list_in, set};

const NODES: usize = 3;
const USERS: usize = 10;

/// As long as a user may be away.
const GRACE: &str = "1";

#[derive(Clone, Copy, Debug)]
enum Fault {
    Killed,
    /// It stands still, until others take it for gone or not.
    Stopped,
    NatsKilled,
}

/// One who watches at a node, and what it was told.
struct Watcher {
    stream: Stream,
    list: BTreeSet<String>,
}

impl Watcher {
    fn new(node: &Server) -> Watcher {
        let mut stream = watch(node);
        let list = list_in(&stream.event());
        Watcher { stream, list }
    }
}

/// Nodes, users and who watches.
struct Scene {
    world: World,
    random: fastrand::Rng,
    /// `None` where it is killed.
    nodes: [Option<Server>; NODES],
    /// At which node each user is.
    users: [Option<(usize, Stream)>; USERS],
    watchers: [Option<Watcher>; NODES],
}

fn name(node: usize) -> String {
    format!("n{}", node + 1)
}

impl Scene {
    fn new(world: World, seed: u64) -> Scene {
        let nodes = [0, 1, 2].map(|n| node(&world, &name(n), GRACE));
        nodes.iter().for_each(|node| wait_members(node, NODES as u64));
        let watchers = nodes.each_ref().map(|node| Some(Watcher::new(node)));
        let random = fastrand::Rng::with_seed(seed);
        let users = std::array::from_fn(|_| None);
        Scene { world, random, nodes: nodes.map(Some), users, watchers }
    }

    fn node(&self, n: usize) -> &Server {
        self.nodes[n].as_ref().expect("it is not killed")
    }

    /// Some come, go, and change between the nodes that work.
    fn users_move(&mut self, without: Option<usize>) {
        for _ in 0..self.random.usize(3..12) {
            let (user, at) = (self.random.usize(..USERS), self.random.usize(..NODES));
            let is_there = |place: &Option<(usize, Stream)>| match place {
                Some((at, _)) => Some(*at) == without,
                None => false,
            };
            // Whoever is at a node that stands still stays, for a client does not know.
            if is_there(&self.users[user]) || Some(at) == without {
                continue;
            }
            let comes = self.users[user].is_none() || self.random.bool();
            // Where it changes, the old stream ends behind the first message of the new one.
            self.users[user] = comes.then(|| (at, in_room(self.node(at), &format!("u{user}"))));
        }
    }

    /// Its users come back to other nodes, or not at all.
    fn lose(&mut self, n: usize) {
        self.watchers[n] = None;
        for user in 0..USERS {
            if self.users[user].as_ref().is_some_and(|(at, _)| *at == n) {
                self.users[user] = None;
                if self.random.bool() {
                    let other = (n + self.random.usize(1..NODES)) % NODES;
                    let stream = in_room(self.node(other), &format!("u{user}"));
                    self.users[user] = Some((other, stream));
                }
            }
        }
    }

    fn others_see(&self, n: usize, members: u64) {
        let others = (1..NODES).map(|step| self.node((n + step) % NODES));
        others.for_each(|node| wait_members(node, members));
    }

    fn happen(&mut self, fault: Fault) {
        let n = self.random.usize(..NODES);
        match fault {
            Fault::Killed => {
                self.nodes[n].take().expect("it is not killed").into_program().kill();
                self.lose(n);
                self.users_move(Some(n));
                if self.random.bool() {
                    self.others_see(n, NODES as u64 - 1);
                    self.users_move(Some(n));
                }
                self.nodes[n] = Some(node(&self.world, &name(n), GRACE));
            }
            Fault::Stopped => {
                self.node(n).signal("STOP");
                self.users_move(Some(n));
                if self.random.bool() {
                    self.others_see(n, NODES as u64 - 1);
                    self.users_move(Some(n));
                }
                self.node(n).signal("CONT");
                // It may have ended its streams, or not: its clients go elsewhere.
                self.lose(n);
            }
            Fault::NatsKilled => {
                self.world.nats.kill();
                self.users_move(None);
                self.world.nats.restart();
                self.users_move(None);
            }
        }
    }

    /// All nodes have one list, which is who is there.
    fn check(&mut self) {
        let there: Vec<String> = (0..USERS)
            .filter(|&user| self.users[user].is_some())
            .map(|user| format!("u{user}"))
            .collect();
        let there: Vec<&str> = there.iter().map(String::as_str).collect();
        for n in 0..NODES {
            let node = self.node(n);
            let members = || cluster_stats(node)["members"].as_u64();
            wait_for("all nodes are there", || members() == Some(NODES as u64));
            wait_for("the list is who is there", || {
                let answer = node.api.get("/members/room:7");
                let list = || answer.json()["members"]["list"].as_array().cloned();
                let ids = |list: Vec<serde_json::Value>| -> BTreeSet<String> {
                    list.iter().filter_map(|member| Some(member["id"].as_str()?.into())).collect()
                };
                answer.status() == 200 && list().map(ids) == Some(set(&there))
            });
        }
        for n in 0..NODES {
            let node = self.nodes[n].as_ref().expect("it is not killed");
            let watcher = self.watchers[n].get_or_insert_with(|| Watcher::new(node));
            hear_until(&mut watcher.stream, &mut watcher.list, &there);
        }
    }
}

#[test]
fn list_is_the_same_on_all_nodes_behind_each_fault() {
    let Some(world) = World::new() else { return };
    let seed = testing::seed();
    let mut scene = Scene::new(world, seed);
    let mut faults = [Fault::Killed, Fault::Stopped, Fault::NatsKilled];
    scene.random.shuffle(&mut faults);
    scene.users_move(None);
    scene.check();
    for fault in faults {
        scene.happen(fault);
        scene.users_move(None);
        scene.check();
    }
}
