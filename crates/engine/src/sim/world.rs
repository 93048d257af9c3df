//! Clients, senders and shards, one step at a time, and the naive model beside them.
//!
//! The model knows who is logged in by looking at the wires alone. A client is, once the server has
//! read all of its head and as long as it has not been told otherwise. From that follows who must
//! hear an event, how many deliveries a mail makes, and what the counters must add up to.

use std::collections::VecDeque;
use std::sync::Arc;

use hub::{ConnRef, DisconnectReason, Epoch, IdText, Names, Tag};
use proto::Carrier;

use super::client::{Client, SentEvent};
use super::lives::To;
use super::random::Random;
use super::scene::{Graph, STREAMS, id_text, request};
use super::server::{Place, SHARDS, Server, UNBOUNDED, config, posted};
use crate::config::EngineConfig;
use crate::counters::WorkerSnapshot;
use crate::mailbox::Mail;
use crate::router::Router;
use crate::slab::Key;

/// What a run is made of.
pub(super) struct Plan {
    pub(super) steps: usize,
    pub(super) clients: usize,
    pub(super) ids: usize,
    pub(super) sends_per_step: usize,
    pub(super) backlog_bytes_max: usize,
    /// Bytes that the fake kernel takes for a slow client.
    pub(super) socket_room: usize,
    pub(super) slow_one_in: usize,
    /// Bytes below which a slow client reads at a time.
    pub(super) slow_bytes: usize,
    /// Clients that do not finish their head.
    pub(super) dawdle_one_in: usize,
    pub(super) leave_one_in: usize,
    pub(super) jump_one_in: usize,
    /// What clients may make a shard do in one turn.
    pub(super) work_per_turn: u32,
    /// The most bytes that a shard reads at a time.
    pub(super) read_bytes: usize,
    /// How many reports of the kernel a turn has time for.
    pub(super) reports_per_turn: usize,
    /// All clients speak TLS.
    pub(super) tls: bool,
    /// In how many steps another version takes over.
    pub(super) upgrade_one_in: usize,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            steps: 1000,
            clients: 60,
            ids: 12,
            sends_per_step: 1,
            backlog_bytes_max: 64 * 1024,
            socket_room: 500,
            slow_one_in: 4,
            slow_bytes: 60,
            dawdle_one_in: 50,
            leave_one_in: 60,
            jump_one_in: 1_000_000,
            work_per_turn: UNBOUNDED,
            read_bytes: 64,
            reports_per_turn: usize::MAX,
            tls: false,
            upgrade_one_in: NEVER,
        }
    }
}

/// In so many steps nothing ever happens.
pub(super) const NEVER: usize = 100_000_000;

/// When the server was started, in milliseconds since 1970.
pub(super) const STARTED_MS: u64 = 1_700_000_000_000;

pub(super) struct World {
    pub(super) random: Random,
    /// By which it is upgraded: without that a seed's run is what it was.
    upgrades: Random,
    pub(super) plan: Plan,
    pub(super) router: Router,
    pub(super) server: Server,
    pub(super) graph: Graph,
    pub(super) names: Arc<Names>,
    pub(super) clients: Vec<Client>,
    pub(super) events: Vec<SentEvent>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> World {
        let mut random = Random::new(seed);
        let names = Arc::new(Names::new([9; 16]));
        let graph = Graph::random(&mut random, names.clone(), plan.ids);
        let config = EngineConfig { backlog_bytes_max: plan.backlog_bytes_max, ..config() };
        let epoch = Epoch::begin(Tag::of(0), 0, STARTED_MS);
        let secured_by = plan.tls.then_some(seed);
        let (router, mut server) = Server::start(names.clone(), config, epoch, secured_by);
        server.set_read_bytes(plan.read_bytes);
        server.reports_per_turn = plan.reports_per_turn;
        let (clients, events) = (Vec::new(), Vec::new());
        let upgrades = Random::new(!seed);
        World { random, upgrades, plan, router, server, graph, names, clients, events }
    }

    /// Runs to the end and returns what the shards have counted.
    pub(super) fn run(mut self) -> WorkerSnapshot {
        for _ in 0..self.plan.steps {
            self.step();
        }
        self.settle();
        self.check_streams();
        self.leave_all();
        let figures = self.server.figures();
        if self.plan.tls && self.plan.upgrade_one_in == NEVER {
            let handshakes: u64 = figures.tls.handshakes().map(|(.., count)| count).sum();
            assert_eq!(handshakes, figures.opened);
        }
        figures
    }

    fn step(&mut self) {
        if self.upgrades.one_in(self.plan.upgrade_one_in) {
            self.upgrade();
        }
        let open = self.clients.iter().filter(|client| !client.left).count();
        match self.random.below(8) {
            0 | 1 if open < self.plan.clients => self.connect(),
            0..=2 => {
                for _ in 0..1 + self.random.below(self.plan.sends_per_step) {
                    self.send();
                }
            }
            3 if self.random.one_in(100) => self.expel(),
            4 if self.random.one_in(2) => self.reply(),
            5 if self.random.one_in(2) => self.talk(),
            _ => {
                let shard = self.random.below(SHARDS);
                self.turn(shard);
            }
        }
        let jump = if self.random.one_in(self.plan.jump_one_in) { 40_000 } else { 3 };
        self.server.clock.pass(self.random.below(jump) as u64);
        for client in 0..self.clients.len() {
            self.act(client);
        }
    }

    /// Another version of the server takes over. Nobody can see that.
    fn upgrade(&mut self) {
        self.server.set_work_per_turn(UNBOUNDED);
        loop {
            (0..SHARDS).for_each(|shard| self.drain_mail(shard));
            if self.server.tick_at_rest() {
                break;
            }
        }
        self.names = Arc::new(Names::new(self.names.key()));
        self.graph = self.graph.restored(self.names.clone());
        let (names, to) = (self.names.clone(), To::AnyShard);
        self.router = self.server.upgrade(&self.router, names, to, &mut self.upgrades);
        for client in &mut self.clients {
            client.place = self.server.find(client.place);
        }
    }

    fn connect(&mut self) {
        let shard = self.random.below(SHARDS);
        self.server.tick(shard);
        let diligent = !self.random.one_in(self.plan.slow_one_in);
        let dawdles = self.random.one_in(self.plan.dawdle_one_in);
        let room = if diligent { 1 << 30 } else { self.plan.socket_room };
        let count = 1 + self.random.below(3);
        let ids: Vec<String> =
            (0..count).map(|_| id_text(self.random.below(self.plan.ids))).collect();
        let transport = STREAMS[self.random.below(STREAMS.len())];
        let carrier = [Carrier::Chunked, Carrier::Close][self.random.below(2)];
        let head = request(&ids, transport, carrier);
        self.clients.push(Client {
            place: self.server.connect(shard, room),
            head_len: head.len(),
            said: head.len(),
            unsent: head,
            commands: VecDeque::new(),
            first_id: ids[0].clone(),
            ids,
            transport,
            carrier,
            diligent,
            dawdles,
            connected_ms: self.server.clock.now_ms(),
            connection_id: None,
            expelled: false,
            left: false,
            got: Vec::new(),
            due: Vec::new(),
            handed: 0,
            replies: Vec::new(),
        });
        // Before it was let in, the shard has dealt with all that was reported.
        self.note_commands(shard);
    }

    /// What a client does by itself between two steps.
    fn act(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let mut wire = self.server.wire(client.place);
        if client.left {
            return;
        }
        if !client.unsent.is_empty() && !client.dawdles {
            let most = [1, 120, usize::MAX / 2][self.random.below(3)];
            let len = (1 + self.random.below(most)).min(client.unsent.len());
            let piece: Vec<u8> = client.unsent.drain(..len).collect();
            wire.client_sends(&piece);
        }
        if client.diligent {
            client.got.extend(wire.client_reads(usize::MAX));
        } else {
            client.got.extend(wire.client_reads(self.random.below(self.plan.slow_bytes)));
            if self.random.one_in(self.plan.leave_one_in) {
                client.left = true;
                if self.random.one_in(2) {
                    wire.client_resets();
                } else {
                    wire.client_ends();
                }
            }
        }
    }

    pub(super) fn is_logged_in(&self, client: &Client) -> bool {
        let wire = self.server.wire(client.place);
        wire.received >= client.head_len && wire.is_open() && !client.expelled
    }

    /// Whether all of its request is on its way.
    pub(super) fn is_asked(&self, client: &Client) -> bool {
        client.said - client.unsent.len() >= client.head_len
    }

    fn expel(&mut self) {
        let id = id_text(self.random.below(self.plan.ids));
        // The model expels at once, so the mail must be read at once.
        for shard in 0..SHARDS {
            self.drain_mail(shard);
        }
        let mut sending = self.router.logout(IdText::parse(&id).unwrap());
        let receipt = posted(&mut sending, &self.graph);
        drop(sending);
        let expelled: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.clients[index].ids.contains(&id))
            .filter(|&index| self.is_logged_in(&self.clients[index]))
            .collect();
        for shard in 0..SHARDS {
            self.drain_mail(shard);
        }
        assert_eq!(receipt.ready(), Some(expelled.len() as u32), "connections of {id}");
        for index in expelled {
            self.clients[index].expelled = true;
        }
    }

    /// One turn of a shard: reports, mail, writes, in the worker's order.
    pub(super) fn turn(&mut self, shard: usize) {
        self.server.set_work_per_turn(self.plan.work_per_turn);
        self.server.begin_turn(shard);
        // The model ends at once whom mail ends.
        self.server.set_work_per_turn(UNBOUNDED);
        self.note_commands(shard);
        for _ in 0..self.random.below(5) {
            self.take_mail(shard);
        }
        self.server.shards[shard].flush();
    }

    fn take_mail(&mut self, shard: usize) -> bool {
        let World { server, events, clients, .. } = self;
        take(shard, server, events, clients)
    }

    fn drain_mail(&mut self, shard: usize) {
        while self.take_mail(shard) {}
        let shard = &mut self.server.shards[shard];
        while shard.flush() {}
        assert!(!shard.owes_writes(), "a flush that is done has left nobody out");
    }

    /// Lets everybody read to the end and every shard do all its work.
    fn settle(&mut self) {
        for _ in 0..200 {
            for shard in 0..SHARDS {
                self.turn(shard);
                self.drain_mail(shard);
            }
            for client in self.clients.iter_mut().filter(|client| !client.left) {
                client.got.extend(self.server.wire(client.place).client_reads(usize::MAX));
            }
        }
    }
}

/// Hands one mail to its shard, and works out beforehand how many connections it must reach: those
/// that are still logged in, less those found too slow by this very mail.
pub(super) fn take(
    shard: usize,
    server: &mut Server,
    events: &mut [SentEvent],
    clients: &mut [Client],
) -> bool {
    let Some(mail) = server.mailboxes[shard].take() else { return false };
    let lost = |server: &Server| {
        let figures = server.counters[shard].snapshot();
        let reasons = [DisconnectReason::SlowReader, DisconnectReason::ClientReset];
        reasons.iter().map(|&reason| figures.closed[reason as usize]).sum::<u64>()
    };
    let counted = match &mail {
        Mail::Deliver { event, targets, .. } => {
            // They are numbered in the order of posting.
            let number = events.binary_search_by(|sent| sent.id.as_str().cmp(event.id())).ok();
            let mut streams = |target: &&ConnRef| {
                let key = Key { slot: target.slot() as u32, generation: target.generation() };
                let is_it = |Place { shard: at, key: of, .. }| (at, of) == (shard, key);
                let client = clients.iter_mut().find(|client| is_it(client.place)).unwrap();
                let is_left_out = client.connection_id.is_some_and(|id| event.except().has(id));
                let is_open = server.wire(client.place).is_open();
                let streams = is_open && !client.expelled && !is_left_out;
                client.handed += usize::from(streams);
                streams
            };
            let alive = targets.iter().filter(&mut streams).count() as u64;
            number.map(|number| (number, alive))
        }
        _ => None,
    };
    let lost_before = lost(server);
    server.hand_over(shard, mail);
    if let Some((number, alive)) = counted {
        events[number].delivered += (alive - (lost(server) - lost_before)) as u32;
    }
    true
}
