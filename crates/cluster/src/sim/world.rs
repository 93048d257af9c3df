//! The world: time, the log, the store, hosts, clients, and what is on its way between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client::Client;
use super::host::Host;
use super::log::Log;
use super::plan::{self, Figures, PairState, Plan, Send, Witness};
use super::store::Store;
use crate::{Change, Epoch, MessageId, Node, Published, RoomNote};

/// Bytes of pairs in one part of a change: four pairs of small numbers.
pub(super) const PART_BYTES: usize = 48;

/// Something on its way. `u64` after a host is the process that it is for.
pub(super) enum Event {
    Work,
    /// A log is opened, or a follower of it looks where it is.
    Follow {
        host: usize,
        process: u64,
        epoch: u64,
        from: Option<u64>,
        opens: bool,
    },
    Read {
        host: usize,
        run: u64,
    },
    Arrive {
        host: usize,
        process: u64,
        epoch: u64,
        id: MessageId,
        record: Arc<[u8]>,
    },
    /// What came of a publish, and whether there is no log that takes anything.
    Ack {
        host: usize,
        process: u64,
        epoch: u64,
        id: MessageId,
        outcome: Published,
        gone: bool,
    },
    Core {
        host: usize,
        process: u64,
        bytes: Vec<u8>,
    },
    /// The log before `epoch` is sealed and that of `epoch` made; then it is agreed on, if nothing
    /// else was until then.
    Seal {
        host: usize,
        process: u64,
        epoch: u64,
        above: u64,
    },
    Agree {
        host: usize,
        process: u64,
        epoch: u64,
        above: u64,
        until_ms: u64,
    },
    Epoch {
        host: usize,
        process: u64,
    },
    Post {
        host: usize,
        process: u64,
    },
    Apply {
        host: usize,
        process: u64,
        change: Change,
    },
    ReadChanges {
        host: usize,
        process: u64,
    },
    Fetch {
        host: usize,
        process: u64,
        version: u64,
    },
    CheckVersion {
        host: usize,
        process: u64,
        ask: u64,
    },
    /// A node is told what was polled some time ago.
    Polled {
        host: usize,
        process: u64,
        version: u64,
    },
    Change {
        host: usize,
        process: u64,
        change: Change,
    },
    /// A follower looks where the log is.
    Look {
        host: usize,
        process: u64,
    },
    /// A server takes the next thing that the log says of rooms.
    RoomStep {
        host: usize,
        process: u64,
    },
    /// A node is given what its server says of rooms.
    RoomSay {
        host: usize,
        process: u64,
        me: u64,
        notes: Vec<RoomNote>,
    },
    Start {
        host: usize,
    },
    Uncut {
        host: usize,
    },
}

/// The world.
pub(super) struct World {
    pub(super) now: u64,
    pub(super) step: u64,
    pub(super) random: fastrand::Rng,
    pub(super) plan: Plan,
    pub(super) order: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub(super) hosts: Vec<Host>,
    pub(super) clients: Vec<Client>,
    pub(super) epoch: Epoch,
    pub(super) logs: BTreeMap<u64, Log>,
    pub(super) bases: BTreeMap<u64, u64>,
    /// When each epoch was agreed on.
    pub(super) agreed_ms: BTreeMap<u64, u64>,
    pub(super) store: Store,
    pub(super) sends: Vec<Send>,
    pub(super) pairs: BTreeMap<(usize, usize), PairState>,
    pub(super) asked: Vec<(usize, usize)>,
    /// Who has posted what to how many: epoch and number, then process and count.
    pub(super) posted: BTreeMap<(u64, u64), Vec<(u64, u32)>>,
    pub(super) witnesses: Vec<Witness>,
    /// From when on each revocation counts.
    pub(super) revoked_ms: Vec<Option<u64>>,
    pub(super) figures: Figures,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> World {
        let mut random = fastrand::Rng::with_seed(seed);
        let epoch = Epoch { number: 1, base: random.u64(1..1 << 40) };
        let client = |id| Client { id: id % plan.clients.div_ceil(2), ..Client::default() };
        let mut world = World {
            now: 1_000_000,
            step: 0,
            random,
            plan,
            order: 0,
            queue: BTreeMap::new(),
            hosts: (0..plan.hosts).map(|_| Host::new()).collect(),
            clients: (0..plan.clients).map(client).collect(),
            epoch,
            logs: BTreeMap::from([(1, Log::default())]),
            bases: BTreeMap::from([(1, epoch.base)]),
            agreed_ms: BTreeMap::new(),
            store: Store::default(),
            sends: Vec::new(),
            pairs: BTreeMap::new(),
            asked: Vec::new(),
            posted: BTreeMap::new(),
            witnesses: Vec::new(),
            revoked_ms: Vec::new(),
            figures: Figures::default(),
        };
        for host in 0..plan.hosts {
            let wait = world.random.u64(0..2_000);
            world.after(wait, Event::Start { host });
        }
        world.after(1, Event::Work);
        world
    }

    pub(super) fn at(&mut self, at_ms: u64, event: Event) {
        self.order += 1;
        self.queue.insert((at_ms.max(self.now), self.order), event);
    }

    pub(super) fn after(&mut self, wait_ms: u64, event: Event) {
        self.at(self.now + wait_ms, event);
    }

    /// One in so many, if any.
    pub(super) fn one_in(&mut self, many: u32) -> bool {
        many > 0 && self.random.u32(0..many) == 0
    }

    /// So many of a hundred, while there are faults.
    pub(super) fn percent(&mut self, percent: u32) -> bool {
        self.is_faulty() && self.random.u32(0..100) < percent
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.now < 1_000_000 + self.plan.faults_ms
    }

    pub(super) fn is_cut(&self, host: usize) -> bool {
        self.hosts[host].cut_until_ms > self.now
    }

    /// Runs until `until_ms`.
    pub(super) fn run_until(&mut self, until_ms: u64) {
        while self.now < until_ms {
            let queued = self.queue.first_key_value().map(|(&(at_ms, _), _)| at_ms);
            let tick = |host: &Host| {
                let deadline = host.node.as_ref()?.next_deadline();
                Some(deadline.max(host.paused_until_ms))
            };
            let ticks: Vec<Option<u64>> = self.hosts.iter().map(tick).collect();
            let next = ticks.iter().flatten().copied().min().unwrap_or(u64::MAX);
            let now = queued.unwrap_or(u64::MAX).min(next).max(self.now);
            if now >= until_ms {
                self.now = until_ms;
                return;
            }
            self.now = now;
            if queued == Some(now) || queued.is_some_and(|queued| queued < now) {
                let Some((_, event)) = self.queue.pop_first() else { return };
                self.happen(event);
            } else if let Some(host) = ticks.iter().position(|&tick| tick == Some(next)) {
                self.drive(host, |node, now| node.tick(now));
            }
        }
    }

    /// Gives an input to a host's node, if there is one, and does what it asks for.
    pub(super) fn drive(&mut self, host: usize, input: impl FnOnce(&mut Node, u64)) {
        let now = self.now;
        let Some(node) = &mut self.hosts[host].node else { return };
        input(node, now);
        loop {
            let Some(node) = &mut self.hosts[host].node else { return };
            let Some(action) = node.next_action() else { break };
            self.act(host, action);
        }
        let one = &mut self.hosts[host];
        one.graph_at = one.node.as_ref().and_then(Node::mark).unwrap_or(one.graph_at);
        self.let_wait_go_on(host);
        self.say_rooms(host);
        self.check_revocations_at(host);
    }

    /// Host and process that an event is for, if it is for one.
    fn addressee(event: &Event) -> Option<(usize, u64)> {
        match *event {
            Event::Follow { host, process, .. }
            | Event::Ack { host, process, .. }
            | Event::Core { host, process, .. }
            | Event::Seal { host, process, .. }
            | Event::Agree { host, process, .. }
            | Event::Epoch { host, process }
            | Event::Post { host, process }
            | Event::RoomStep { host, process }
            | Event::RoomSay { host, process, .. }
            | Event::Look { host, process }
            | Event::Apply { host, process, .. }
            | Event::ReadChanges { host, process }
            | Event::Fetch { host, process, .. }
            | Event::CheckVersion { host, process, .. }
            | Event::Polled { host, process, .. }
            | Event::Change { host, process, .. } => Some((host, process)),
            _ => None,
        }
    }

    fn happen(&mut self, event: Event) {
        if let Some((host, process)) = World::addressee(&event) {
            if self.hosts[host].process != process || self.hosts[host].node.is_none() {
                return;
            }
            if self.hosts[host].paused_until_ms > self.now {
                return self.at(self.hosts[host].paused_until_ms, event);
            }
        }
        match event {
            Event::Work => self.work(),
            Event::Start { host } => self.start(host),
            Event::Follow { host, epoch, from, opens, .. } => {
                self.follow(host, epoch, from, opens);
            }
            Event::Read { host, run } => self.read(host, run),
            Event::Arrive { host, process, epoch, id, record } => {
                self.arrive((host, process), epoch, id, record);
            }
            Event::Ack { host, epoch, id, outcome, gone, .. } => {
                self.drive(host, |node, now| node.published(now, epoch, &id, outcome));
                if gone {
                    self.drive(host, |node, now| node.stream_gone(now, epoch));
                }
            }
            Event::Core { host, bytes, .. } => self.hear_core(host, &bytes),
            Event::Seal { host, epoch, above, .. } => self.seal(host, epoch, above),
            Event::Agree { host, epoch, above, until_ms, .. } => {
                self.agree(host, epoch, above, until_ms);
            }
            Event::Epoch { host, process } if self.is_cut(host) => {
                self.after(300, Event::Epoch { host, process });
            }
            Event::Epoch { host, .. } => {
                let epoch = self.epoch;
                self.drive(host, |node, now| node.epoch(now, epoch));
            }
            Event::Post { host, .. } => self.post(host),
            Event::RoomStep { host, .. } => self.step_rooms(host),
            Event::RoomSay { host, me, notes, .. } => {
                self.drive(host, |node, now| node.submit_rooms(now, me, notes));
            }
            Event::Apply { host, change, .. } => {
                if change.version == self.hosts[host].graph.place.version + 1 {
                    self.hosts[host].graph.apply(&change);
                }
                self.moved(host);
            }
            Event::ReadChanges { host, process } => {
                if self.store.away_until_ms > self.now {
                    return self.after(200, Event::ReadChanges { host, process });
                }
                self.store.catch_up(&mut self.hosts[host].graph);
                self.moved(host);
            }
            Event::Fetch { host, version, .. } => {
                if self.store.away_until_ms <= self.now {
                    let change = self.store.changes[version as usize - 1].clone();
                    self.figures.fetched += 1;
                    self.drive(host, |node, now| node.change(now, change));
                }
            }
            Event::CheckVersion { host, ask, .. } => {
                if self.store.away_until_ms <= self.now {
                    let version = self.store.graph.place.version;
                    self.drive(host, |node, now| node.latest_version(now, ask, version));
                } else {
                    self.figures.note(plan::UNANSWERED);
                }
            }
            Event::Polled { host, version, .. } => {
                self.drive(host, |node, now| node.latest_version(now, 0, version));
            }
            Event::Change { host, change, .. } => {
                self.drive(host, |node, now| node.change(now, change));
            }
            Event::Look { host, .. } => self.follow_again(host),
            Event::Uncut { host } => {
                if !self.is_cut(host) && self.hosts[host].node.is_some() {
                    self.follow_again(host);
                }
            }
        }
    }
}
