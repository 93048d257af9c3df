//! Clients, senders and shards, one step at a time, and the naive model beside them.
//!
//! The model knows who is logged in by looking at the wires alone: a client is, once the server has
//! read all of its head and as long as it has not been told otherwise. From that follows who must
//! hear an event, how many deliveries a mail makes, and what the counters must add up to.

use std::collections::VecDeque;
use std::sync::Arc;

use hub::{ConnRef, Directory, DisconnectReason, Draft, Epoch, IdText, Names, Tag};
use proto::Framing;

use super::client::{Client, SentEvent};
use super::net::{Net, Wire};
use super::random::Random;
use super::scene::{Graph, STREAMS, id_text, request};
use super::server::{SHARDS, Server, UNBOUNDED, config, posted};
use crate::config::EngineConfig;
use crate::counters::{Counters, Snapshot, WorkerSnapshot};
use crate::mailbox::{Mail, Mailbox};
use crate::router::{Router, Step};
use crate::shard::Shard;
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
        }
    }
}

pub(super) struct World {
    pub(super) random: Random,
    pub(super) plan: Plan,
    pub(super) now_ms: u64,
    pub(super) router: Router,
    pub(super) graph: Graph,
    pub(super) mailboxes: Arc<[Arc<Mailbox>]>,
    pub(super) directory: Arc<Directory>,
    pub(super) names: Arc<Names>,
    pub(super) counters: Vec<Arc<Counters>>,
    pub(super) nets: Vec<Net>,
    pub(super) shards: Vec<Shard<Net>>,
    pub(super) clients: Vec<Client>,
    pub(super) events: Vec<SentEvent>,
}

impl World {
    pub(super) fn new(seed: u64, plan: Plan) -> World {
        let mut random = Random::new(seed);
        let names = Arc::new(Names::new([9; 16]));
        let graph = Graph::random(&mut random, names.clone(), plan.ids);
        let config = EngineConfig { backlog_bytes_max: plan.backlog_bytes_max, ..config() };
        // As after a restart: clients may come back with a number of before.
        let epoch = Epoch::begin(Tag::of(0), 0, sys::clock::unix_ms());
        let (router, server) = Server::start(names.clone(), config, epoch);
        let Server { mailboxes, directory, counters, nets, shards, .. } = server;
        World {
            random,
            plan,
            now_ms: 0,
            router,
            graph,
            mailboxes,
            directory,
            names,
            counters,
            nets,
            shards,
            clients: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Runs to the end and returns what the shards have counted.
    pub(super) fn run(mut self) -> WorkerSnapshot {
        for _ in 0..self.plan.steps {
            self.step();
        }
        self.settle();
        self.check_streams();
        self.leave_all();
        self.check_nothing_is_left();
        let workers = self.counters.iter().map(|counters| counters.snapshot()).collect();
        Snapshot { workers, ..Snapshot::default() }.whole()
    }

    fn step(&mut self) {
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
        self.now_ms += self.random.below(jump) as u64;
        for client in 0..self.clients.len() {
            self.act(client);
        }
    }

    fn connect(&mut self) {
        let shard = self.random.below(SHARDS);
        let diligent = !self.random.one_in(self.plan.slow_one_in);
        let dawdles = self.random.one_in(self.plan.dawdle_one_in);
        let room = if diligent { 1 << 30 } else { self.plan.socket_room };
        let count = 1 + self.random.below(3);
        let ids: Vec<String> =
            (0..count).map(|_| id_text(self.random.below(self.plan.ids))).collect();
        let transport = STREAMS[self.random.below(STREAMS.len())];
        let framing = [Framing::Chunked, Framing::Close][self.random.below(2)];
        let head = request(&ids, transport, framing);
        let piece = 1 + self.random.below(300);
        let socket = {
            let mut wires = self.nets[shard].0.borrow_mut();
            wires.push(Wire::new(room, piece));
            wires.len() - 1
        };
        self.shards[shard].tick(self.now_ms);
        let key = self.shards[shard].accept(socket).unwrap();
        self.clients.push(Client {
            shard,
            socket,
            key,
            head_len: head.len(),
            said: head.len(),
            unsent: head,
            commands: VecDeque::new(),
            first_id: ids[0].clone(),
            ids,
            transport,
            framing,
            diligent,
            dawdles,
            connected_ms: self.now_ms,
            expelled: false,
            left: false,
            got: Vec::new(),
            due: Vec::new(),
            handed: 0,
            replies: Vec::new(),
        });
    }

    /// What a client does by itself between two steps.
    fn act(&mut self, index: usize) {
        let client = &mut self.clients[index];
        let wire = &mut self.nets[client.shard].0.borrow_mut()[client.socket];
        if client.left {
            return;
        }
        if !client.unsent.is_empty() && !client.dawdles {
            let len = (1 + self.random.below(120)).min(client.unsent.len());
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
        let wires = self.nets[client.shard].0.borrow();
        let wire = &wires[client.socket];
        let head_read = wire.received >= client.head_len;
        head_read && !wire.server_closed && !wire.server_ended && !client.expelled
    }

    /// Whether all of its request is on its way.
    pub(super) fn is_asked(&self, client: &Client) -> bool {
        client.said - client.unsent.len() >= client.head_len
    }

    fn send(&mut self) {
        let (number, about) = (self.events.len(), id_text(self.random.below(self.plan.ids)));
        let data = format!("\"e{number}\"");
        let mut audience = self.graph.followers.get(&about).cloned().unwrap_or_default();
        audience.insert(about.clone());
        let hears: Vec<usize> = (0..self.clients.len())
            .filter(|&index| self.clients[index].ids.iter().any(|id| audience.contains(id)))
            .filter(|&index| self.is_logged_in(&self.clients[index]))
            .collect();
        for index in hears {
            self.clients[index].due.push(number);
        }
        self.post(&about, Draft::new(&about, &data), format!("e{number}"));
    }

    /// Steps a send to its end. While a mailbox is full only mail is taken, so that nobody's login
    /// changes in the middle of the send.
    fn post(&mut self, about: &str, draft: Draft, text: String) {
        let World { router, graph, mailboxes, shards, events, nets, clients, counters, .. } = self;
        let mut sending = router.send(IdText::parse(about).unwrap(), draft);
        let number = events.len();
        loop {
            let step = sending.step(graph).unwrap();
            if let Some(event) = sending.event().filter(|_| events.len() == number) {
                let (id, json) = (event.id().to_string(), event.json().to_string());
                events.push(SentEvent {
                    id,
                    json,
                    text: text.clone(),
                    receipt: None,
                    delivered: 0,
                });
            }
            match step {
                Step::More => {}
                Step::Posted(receipt) => {
                    events[number].receipt = Some(receipt);
                    return;
                }
                Step::MailboxFull => {
                    for shard in 0..SHARDS {
                        let Some(mail) = mailboxes[shard].take() else { continue };
                        take(mail, shard, shards, events, nets, clients, counters);
                        shards[shard].flush();
                    }
                }
            }
        }
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
        self.shards[shard].set_work_per_turn(self.plan.work_per_turn);
        self.shards[shard].tick(self.now_ms);
        self.shards[shard].read_deferred();
        for client in self.clients.iter().filter(|client| client.shard == shard) {
            let (readable, writable, hung_up) = {
                let wire = &mut self.nets[shard].0.borrow_mut()[client.socket];
                if wire.server_closed {
                    continue;
                }
                let readable = std::mem::take(&mut wire.readable);
                let writable = std::mem::take(&mut wire.writable);
                (readable, writable, wire.client_ended || wire.client_reset)
            };
            if writable {
                self.shards[shard].writable(client.key.slot);
            }
            if readable {
                self.shards[shard].readable(client.key.slot, hung_up);
            }
        }
        // The model ends at once whom mail ends.
        self.shards[shard].set_work_per_turn(UNBOUNDED);
        self.note_commands(shard);
        for _ in 0..self.random.below(5) {
            self.take_mail(shard);
        }
        self.shards[shard].flush();
    }

    fn take_mail(&mut self, shard: usize) -> bool {
        let World { mailboxes, shards, events, nets, clients, counters, .. } = self;
        let Some(mail) = mailboxes[shard].take() else { return false };
        take(mail, shard, shards, events, nets, clients, counters);
        true
    }

    fn drain_mail(&mut self, shard: usize) {
        while self.take_mail(shard) {}
        while self.shards[shard].flush() {}
        assert!(!self.shards[shard].owes_writes(), "a flush that is done has left nobody out");
    }

    /// Lets everybody read to the end and every shard do all its work.
    fn settle(&mut self) {
        for _ in 0..200 {
            for shard in 0..SHARDS {
                self.turn(shard);
                self.drain_mail(shard);
            }
            for client in self.clients.iter_mut().filter(|client| !client.left) {
                let wire = &mut self.nets[client.shard].0.borrow_mut()[client.socket];
                client.got.extend(wire.client_reads(usize::MAX));
            }
        }
    }
}

/// Hands one mail to its shard, and works out beforehand how many connections it must reach: those
/// that are still logged in, less those found too slow by this very mail.
fn take(
    mail: Mail,
    shard: usize,
    shards: &mut [Shard<Net>],
    events: &mut [SentEvent],
    nets: &[Net],
    clients: &mut [Client],
    counters: &[Arc<Counters>],
) {
    let ended = |reason: DisconnectReason| counters[shard].snapshot().closed[reason as usize];
    let lost = || ended(DisconnectReason::SlowReader) + ended(DisconnectReason::ClientReset);
    let counted = match &mail {
        Mail::Deliver { event, targets, .. } => {
            let number = events.iter().rposition(|sent| sent.id == event.id());
            let mut streams = |target: &&ConnRef| {
                let key = Key { slot: target.slot() as u32, generation: target.generation() };
                let mut all = clients.iter_mut();
                let client = all.find(|c| c.shard == shard && c.key == key).unwrap();
                let wire = &nets[shard].0.borrow()[client.socket];
                let streams = !wire.server_closed && !wire.server_ended && !client.expelled;
                client.handed += usize::from(streams);
                streams
            };
            let alive = targets.iter().filter(&mut streams).count() as u64;
            number.map(|number| (number, alive))
        }
        _ => None,
    };
    let lost_before = lost();
    shards[shard].mail(mail);
    if let Some((number, alive)) = counted {
        events[number].delivered += (alive - (lost() - lost_before)) as u32;
    }
}
