//! The log, the nodes that read it, the users, and what happens to them, one random step at a time.

use std::sync::Arc;

use hub::{ConnRef, DisconnectReason, Epoch, EventId, Names, Tag};

use super::node::Node;
use super::{IDS, NODES, Outcome, Plan, USERS};
use crate::sim::random::Random;
use crate::sim::resume::user::User;
use crate::sim::scene::{Graph, id_text};
use crate::sim::server::{Place, SHARDS};
use crate::sim::world::STARTED_MS;
use crate::slab::Key;

const STEPS: usize = 14_000;
/// In so many rounds every node has read the log, and everybody has come back and caught up.
const ROUNDS: usize = 800;

/// What was sent.
pub(super) struct Log {
    /// The subject and the number of each event.
    pub(super) events: Vec<(String, u64)>,
    /// The epochs, and with which event each begins.
    pub(super) epochs: Vec<(usize, Epoch)>,
    sequence: u64,
    index: u64,
}

/// Where a user is, or was, and how many gaps its node had told before.
#[derive(Clone, Copy, Default)]
pub(super) struct Visit {
    pub(super) node: usize,
    pub(super) gaps_before: usize,
}

pub(super) struct Cluster {
    pub(super) random: Random,
    pub(super) plan: Plan,
    pub(super) graph: Graph,
    pub(super) log: Log,
    pub(super) nodes: Vec<Node>,
    pub(super) users: Vec<User>,
    pub(super) visits: Vec<Visit>,
    /// Everybody reads all at once now.
    pub(super) hurries: bool,
    pub(super) foreign: u64,
    /// Of them those that wait for a number which comes in another epoch.
    pub(super) made_up: u64,
    pub(super) ahead: u64,
    /// Of nodes that were started anew.
    before: Outcome,
}

impl Log {
    fn new(tag: Tag) -> Log {
        let epoch = Epoch::begin(tag, 0, STARTED_MS);
        Log { events: Vec::new(), epochs: vec![(0, epoch)], sequence: 0, index: 0 }
    }

    /// Another event, in the same batch as the one before or in the next one.
    fn append(&mut self, about: String, random: &mut Random) {
        if self.sequence == 0 || random.one_in(2) {
            (self.sequence, self.index) = (self.sequence + 1 + random.below(2) as u64, 0);
        } else {
            self.index += 1;
        }
        let base = self.epochs.last().unwrap().1.base;
        self.events.push((about, base + (self.sequence << 10 | self.index)));
    }

    /// The log is another one.
    fn begin_epoch(&mut self, random: &mut Random) {
        let base = self.epochs.last().unwrap().1.base;
        let newest = self.events.last().map_or(base, |(_, number)| base.max(*number));
        let epoch = Epoch::begin(Tag::of(random.next()), newest + 1 + random.below(9) as u64, 0);
        self.epochs.push((self.events.len(), epoch));
        (self.sequence, self.index) = (0, 0);
    }

    /// The id of `number`.
    pub(super) fn id(&self, number: u64) -> EventId {
        let mut epochs = self.epochs.iter().rev();
        let (_, epoch) = epochs.find(|(_, epoch)| epoch.base <= number).expect("of some epoch");
        EventId::new(number, epoch.tag)
    }
}

impl Cluster {
    pub(super) fn new(seed: u64, plan: Plan) -> Cluster {
        let mut random = Random::new(seed);
        let graph = Graph::random(&mut random, Arc::new(Names::new([9; 16])), IDS);
        let log = Log::new(Tag::of(random.next()));
        let start = |node| Node::start(&graph, &plan, log.epochs[0].1, seed * 100 + node);
        let nodes = (0..NODES as u64).map(start).collect();
        let users = (0..USERS).map(|_| User::random(&mut random)).collect();
        Cluster {
            random,
            plan,
            graph,
            log,
            nodes,
            users,
            visits: vec![Visit::default(); USERS],
            hurries: false,
            foreign: 0,
            made_up: 0,
            ahead: 0,
            before: Outcome::default(),
        }
    }

    pub(super) fn work(&mut self) {
        for _ in 0..STEPS {
            self.step();
        }
    }

    fn step(&mut self) {
        let ms = if self.nodes.iter().any(|node| node.stalled) { self.plan.stall_ms } else { 1 };
        self.nodes.iter().for_each(|node| node.server.clock.pass(ms));
        self.strike();
        let user = self.random.below(USERS);
        let at = self.random.below(NODES);
        let Cluster { random, nodes, log, .. } = self;
        let node = &mut nodes[at];
        match random.below(16) {
            0 if self.users[user].may_come() => self.connect(user),
            1 if random.one_in(3) => self.drop_off(user),
            2 => log.append(id_text(random.below(IDS)), random),
            3..=7 if !node.stalled => node.go_on(log, random),
            8 => {
                for _ in 0..random.below(12) {
                    self.step_resume(at);
                }
            }
            9 if random.one_in(2) => self.ping(user),
            9 | 10 => self.read(user, true),
            11 if random.one_in(3) => node.fill(random),
            12 => node.notice(log),
            _ => {
                let shard = random.below(SHARDS);
                node.turn(shard, random);
            }
        }
    }

    /// What seldom happens.
    fn strike(&mut self) {
        let at = self.random.below(NODES);
        let Cluster { random, nodes, log, plan, .. } = self;
        nodes[at].stalled = match nodes[at].stalled {
            true => !random.one_in(300),
            false => random.one_in(1_500),
        };
        if random.one_in(plan.epoch_one_in) {
            log.begin_epoch(random);
        }
        if random.one_in(plan.loss_one_in) {
            nodes[at].lose(log, random);
        }
        if random.one_in(plan.restart_one_in) {
            self.restart(at);
        }
    }

    /// A node is killed and started anew. What clients have not read is lost.
    fn restart(&mut self, at: usize) {
        for user in 0..USERS {
            if self.visits[user].node == at {
                self.cut_off(user);
            }
        }
        let Cluster { graph, plan, log, nodes, before, random, .. } = self;
        before.count(&nodes[at]);
        let epoch = log.epochs.last().unwrap();
        let other = &nodes[1 - at];
        // It reads what is there at its start, which others may not have done.
        let least = if other.epoch + 1 == log.epochs.len() { other.applied } else { epoch.0 };
        let applied = least + random.below(log.events.len() - least + 1);
        nodes[at] = Node::start(graph, plan, epoch.1, random.next() >> 32);
        nodes[at].read_again(log, applied);
    }

    fn step_resume(&mut self, at: usize) {
        let Some(conn) = self.nodes[at].step_resume() else { return };
        let newest = self.nodes[at].server.event_ids.last();
        if let Some(user) = (0..USERS).find(|&user| self.is_at(user, at, conn)) {
            let online = self.users[user].online.as_mut();
            online.expect("it is there").resumed_at = newest;
        }
    }

    fn is_at(&self, user: usize, at: usize, conn: ConnRef) -> bool {
        let key = Key { slot: conn.slot() as u32, generation: conn.generation() };
        let is_it = |Place { shard, key: of, .. }| (shard, of) == (conn.worker(), key);
        let online = self.users[user].online.as_ref();
        self.visits[user].node == at && online.is_some_and(|online| is_it(online.place))
    }

    /// Every node reads the log to its end, and everybody comes and hears.
    pub(super) fn end(&mut self) {
        self.hurries = true;
        for round in 0..ROUNDS {
            for at in 0..NODES {
                let Cluster { random, nodes, log, .. } = self;
                let node = &mut nodes[at];
                node.server.clock.pass(1);
                node.empty();
                node.notice(log);
                (0..SHARDS).for_each(|shard| while node.turn(shard, random) {});
                (0..20).for_each(|_| node.go_on(log, random));
                (0..10 * USERS).for_each(|_| self.step_resume(at));
            }
            (0..USERS).for_each(|user| self.read(user, round < ROUNDS - 10));
            for user in 0..USERS {
                if self.users[user].may_come() && round < ROUNDS / 2 {
                    self.connect(user);
                }
            }
        }
        let all = self.log.events.len();
        assert!(self.nodes.iter().all(|node| node.applied == all), "all is posted");
        (0..USERS).for_each(|user| self.drop_off(user));
        self.nodes.iter_mut().for_each(Node::end);
    }

    /// Checks what everybody has heard, and adds up what has happened.
    pub(super) fn add_to(mut self, outcome: &mut Outcome) {
        self.nodes.iter().for_each(|node| self.before.count(node));
        let told = self.check() as u64;
        let Outcome { resumed, resume_gaps, gaps, renewed, full, slow, .. } = self.before;
        assert!(told <= resume_gaps + gaps, "a gap is counted");
        outcome.resumed += resumed;
        outcome.resume_gaps += resume_gaps;
        outcome.gaps += gaps;
        outcome.renewed += renewed;
        outcome.full += full;
        outcome.slow += slow;
        outcome.ahead += self.ahead;
        outcome.foreign += self.foreign;
        outcome.made_up += self.made_up;
    }
}

impl Outcome {
    /// A node is at its end.
    fn count(&mut self, node: &Node) {
        let figures = node.server.figures();
        self.resumed += node.server.resumes.resumed();
        self.resume_gaps += node.server.resumes.gaps();
        self.gaps += figures.gaps;
        self.renewed += node.renewed;
        self.full += node.met_full;
        self.slow += figures.closed[DisconnectReason::SlowReader as usize];
    }
}
