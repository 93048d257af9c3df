//! A room with a bound: who came when others had all places, at one node and over several, in turn
//! and by seed.

use std::collections::{BTreeMap, BTreeSet};

use super::*;

#[test]
fn places_are_given_in_the_order_of_the_log_whichever_node_a_user_is_at() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.want(1);
    cluster.want(2);
    cluster.run();
    for (node, sub) in [(2, "a"), (1, "b"), (2, "c")] {
        cluster.joined(node, sub, None);
        cluster.run();
    }
    let is_past = |cluster: &Cluster, node: u64, sub: &str| {
        cluster.nodes[&node].0.list(ROOM).unwrap().is_past(sub, 2)
    };
    for node in [1, 2] {
        let past = ["a", "b", "c", "nobody"].map(|sub| is_past(&cluster, node, sub));
        assert_eq!(past, [false, false, true, false], "at {node}");
    }
    cluster.left(1, "b");
    cluster.run();
    assert!(!is_past(&cluster, 2, "c"), "a place is free");
    // A member that is at another node too takes no other place.
    cluster.joined(1, "c", None);
    cluster.run();
    assert!(!is_past(&cluster, 1, "c"));
    cluster.joined(1, "d", None);
    cluster.run();
    let past = ["a", "d"].map(|sub| is_past(&cluster, 1, sub));
    assert_eq!(past, [false, true]);
}

#[test]
fn node_that_asks_later_counts_all_who_were_there_before_its_own_users() {
    let mut cluster = Cluster::new(&[1, 2]);
    cluster.joined(2, "a", None);
    cluster.want(2);
    cluster.run();
    // Its users are said before those of the other, which answers.
    cluster.joined(1, "b", None);
    cluster.want(1);
    cluster.run();
    let list = cluster.nodes[&1].0.list(ROOM).unwrap();
    assert_eq!((list.is_past("a", 1), list.is_past("b", 1)), (false, true));
    let list = cluster.nodes[&2].0.list(ROOM).unwrap();
    assert!(!list.is_past("a", 1));
}

/// Nodes that read one log, each as far as it has come.
struct World {
    random: fastrand::Rng,
    most: usize,
    log: Vec<(u64, Vec<RoomNote>)>,
    nodes: BTreeMap<u64, One>,
    users: usize,
}

struct One {
    rooms: Rooms,
    read: usize,
    here: Users,
    /// Users that wait for a list which has this of what their node has said.
    waiting: BTreeMap<Box<str>, u64>,
    /// Users that are past the bound, which is in doubt.
    held: BTreeSet<Box<str>>,
    let_in: BTreeSet<Box<str>>,
    refused: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let ids = [1, 2, 3];
        let one = |me: u64| {
            let mut rooms = Rooms::new(5_000, |sub, _| sub.len());
            rooms.step(0, RoomStep::View { nodes: ids.to_vec(), me: Some(me), epoch: 1 });
            let (here, waiting) = (Users::new(), BTreeMap::new());
            let (held, let_in) = (BTreeSet::new(), BTreeSet::new());
            One { rooms, read: 0, here, waiting, held, let_in, refused: 0 }
        };
        let nodes = ids.into_iter().map(|me| (me, one(me))).collect();
        World { most: random.usize(1..4), random, log: Vec::new(), nodes, users: 0 }
    }

    fn step(&mut self) {
        let what = self.random.usize(0..10);
        let id = self.random.u64(1..4);
        let one = self.nodes.get_mut(&id).unwrap();
        match what {
            0 => {
                self.users += 1;
                // Now and then a user of another node.
                let user = self.random.usize(1..self.users + 1).max(self.users.saturating_sub(2));
                one.come(user.to_string().into());
            }
            1 => {
                let place = self.random.usize(0..one.here.len().max(1));
                if let Some(sub) = one.here.keys().nth(place).cloned() {
                    one.leave(sub);
                }
            }
            2..5 => self.say(id),
            _ => self.read(id),
        }
        self.look(id);
    }

    /// Some node says what it has to say, or reads on.
    fn talk(&mut self) {
        let id = self.random.u64(1..4);
        match self.random.bool() {
            true => self.say(id),
            false => self.read(id),
        }
        self.look(id);
    }

    fn say(&mut self, id: u64) {
        let One { rooms, here, .. } = self.nodes.get_mut(&id).unwrap();
        let said = rooms.next_record(|_| here.clone().into_iter().collect());
        self.log.extend(said);
    }

    fn read(&mut self, id: u64) {
        let one = self.nodes.get_mut(&id).unwrap();
        let Some((from, notes)) = self.log.get(one.read).cloned() else { return };
        one.read += 1;
        let sequence = 100 + one.read as u64;
        one.rooms.step(0, RoomStep::Notes { sequence, from, notes });
        while one.rooms.next_action().is_some() {}
    }

    /// Whose list has come is let in, or refused.
    fn look(&mut self, id: u64) {
        let one = self.nodes.get_mut(&id).unwrap();
        let read = one.rooms.said().1;
        let come = |said: &u64| *said <= read && one.rooms.list(ROOM).is_some();
        let ready = one.waiting.iter().filter(|(_, said)| come(said));
        let ready: Vec<Box<str>> = ready.map(|(sub, _)| sub.clone()).collect();
        one.waiting.retain(|sub, _| !ready.contains(sub));
        one.held.extend(ready);
        one.check(self.most, 0);
        self.check();
    }

    fn check(&self) {
        let all: BTreeSet<&Box<str>> = self.nodes.values().flat_map(|one| &one.let_in).collect();
        assert!(all.len() <= self.most, "{all:?} of {}", self.most);
    }
}

impl One {
    fn come(&mut self, sub: Box<str>) {
        if self.here.insert(sub.clone(), None).is_none() {
            self.rooms.update(ROOM, sub.clone(), RoomChange::Joined(None));
            self.rooms.want(ROOM);
            self.waiting.insert(sub, self.rooms.said().0);
        }
    }

    /// Lets in and refuses, but for those who are in doubt of more than `most_doubt` nodes.
    fn check(&mut self, most: usize, most_doubt: usize) {
        for sub in self.held.clone() {
            let list = self.rooms.list(ROOM).unwrap();
            let nodes = list.in_doubt(&sub).map_or(0, |doubt| doubt.nodes);
            match (list.is_past(&sub, most), nodes > most_doubt) {
                (true, true) => continue,
                (true, false) => {
                    self.refused += 1;
                    self.leave(sub.clone());
                }
                (false, _) => drop(self.let_in.insert(sub.clone())),
            }
            self.held.remove(&sub);
        }
    }

    fn leave(&mut self, sub: Box<str>) {
        self.here.remove(&sub);
        self.waiting.remove(&sub);
        self.held.remove(&sub);
        self.let_in.remove(&sub);
        self.rooms.update(ROOM, sub, RoomChange::Left);
    }
}

/// They come while nodes ask and answer, or all before; nobody leaves.
#[test]
fn crowd_that_comes_to_all_nodes_at_once_gets_all_places() {
    let first = testing::seed();
    let (mut late, mut given, mut places) = (0, 0, 0);
    for seed in first..first + 2_000 {
        let mut world = World::new(seed);
        let mut crowd: Vec<_> = (0..9).map(|user| (user % 3 + 1, user.to_string())).collect();
        // One that comes to a second node counts for all others, which can cost places.
        let is_shared = world.random.bool();
        crowd.extend(is_shared.then(|| (2, "0".to_owned())));
        world.random.shuffle(&mut crowd);
        let at_once = world.random.bool();
        while let Some((id, user)) = crowd.pop() {
            world.nodes.get_mut(&id).unwrap().come(user.into());
            let steps = if at_once { 0 } else { world.random.usize(0..12) };
            (0..steps).for_each(|_| world.talk());
        }
        // Who is in doubt waits as long as all do who asked before.
        for doubt in 0..3 {
            (0..500).for_each(|_| world.talk());
            late += world.nodes.values().map(|one| one.held.len()).sum::<usize>();
            for id in 1..4 {
                let one = world.nodes.get_mut(&id).unwrap();
                one.check(world.most, doubt);
                world.check();
            }
        }
        let let_in: BTreeSet<&Box<str>> =
            world.nodes.values().flat_map(|one| &one.let_in).collect();
        if is_shared {
            (given, places) = (given + let_in.len(), places + world.most);
        } else {
            assert_eq!(let_in.len(), world.most, "seed {seed}");
        }
    }
    assert!(100 * given > 95 * places, "{given} of {places} places were given");
    assert!(late > 100, "{late} were in doubt");
}

#[test]
fn no_more_are_let_in_than_there_are_places_whoever_reads_how_far() {
    let first = testing::seed();
    let (mut let_in, mut refused) = (0, 0);
    for seed in first..first + 2_000 {
        let mut world = World::new(seed);
        (0..300).for_each(|_| world.step());
        let_in += world.nodes.values().map(|one| one.let_in.len()).sum::<usize>();
        refused += world.nodes.values().map(|one| one.refused).sum::<usize>();
    }
    assert!(let_in > 1_000 && refused > 1_000, "{let_in} are in, {refused} were refused");
}
