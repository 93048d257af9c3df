//! Clients that poll: one request after the other on connections that stay, by seed. Nothing is
//! remembered between two of them here; that a client misses nothing by it is [`super::resume`]'s.
//!
//! The model looks at the wires alone. The wait of a poll begins when the server has read its last
//! byte and sent the answer to the one before. It ends when a byte of its own answer is sent. An
//! event whose mail is taken while it waits must stand in its answer, and no other may.

mod model;

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::{DisconnectReason, Epoch, HistoryLimits, IdText, Names, Tag};

pub(super) use self::model::{Answer, request};
use self::model::{Client, Poll, SentEvent};
use super::lives::To;
use super::random::Random;
use super::scene::{Graph, id_text};
use super::server::{SHARDS, Server, config, posted};
use super::world::NEVER;
use super::{UPGRADES, ended, run_seeds_of};
use crate::Outgoing;
use crate::config::EngineConfig;
use crate::counters::WorkerSnapshot;
use crate::mailbox::Mail;
use crate::router::Router;

const CLIENTS: usize = 30;
const IDS: usize = 8;

/// What a run is made of.
#[derive(Clone, Copy)]
struct Plan {
    steps: usize,
    backlog_bytes_max: usize,
    slow_one_in: usize,
    jump_one_in: usize,
    /// How often clients stop sending for a while, be it in the middle of a head.
    pause_one_in: usize,
    /// All clients speak TLS.
    tls: bool,
    /// In how many steps another version takes over.
    upgrade_one_in: usize,
}

const PLAN: Plan = Plan {
    steps: 1500,
    backlog_bytes_max: 64 * 1024,
    slow_one_in: 5,
    jump_one_in: NEVER,
    pause_one_in: NEVER,
    tls: false,
    upgrade_one_in: NEVER,
};

struct World {
    random: Random,
    upgrades: Random,
    plan: Plan,
    router: Router,
    server: Server,
    graph: Graph,
    clients: Vec<Client>,
    events: Vec<SentEvent>,
}

impl World {
    fn new(seed: u64, plan: Plan) -> World {
        let names = Arc::new(Names::new([9; 16]));
        let config = EngineConfig {
            backlog_bytes_max: plan.backlog_bytes_max,
            history: HistoryLimits::OFF,
            ..config()
        };
        let epoch = Epoch::begin(Tag::of(0), 0, 0);
        let secured_by = plan.tls.then_some(seed);
        let (router, mut server) = Server::start(names.clone(), config, epoch, secured_by);
        server.set_read_bytes(64);
        World {
            random: Random::new(seed),
            upgrades: Random::new(!seed),
            plan,
            router,
            server,
            graph: Graph { names, followers: BTreeMap::new() },
            clients: Vec::new(),
            events: Vec::new(),
        }
    }

    fn run(mut self) -> WorkerSnapshot {
        for _ in 0..self.plan.steps {
            self.step();
        }
        self.settle();
        self.check();
        self.server.figures()
    }

    fn step(&mut self) {
        if self.upgrades.one_in(self.plan.upgrade_one_in) {
            self.upgrade();
        }
        let open = self.clients.iter().filter(|client| !client.left).count();
        match self.random.below(10) {
            0 if open < CLIENTS => self.connect(),
            1 | 2 => self.send(),
            3 if self.random.one_in(30) => self.expel(),
            _ => {
                let shard = self.random.below(SHARDS);
                self.turn(shard);
            }
        }
        let jump = if self.random.one_in(self.plan.jump_one_in) { 40_000 } else { 30 };
        self.server.clock.pass(self.random.below(jump) as u64);
        if jump > 30 {
            // Further behind than its wheel is long, a shard may fire early.
            for shard in 0..SHARDS {
                self.server.tick(shard);
                self.server.shards[shard].read_deferred();
            }
            self.note_waiting();
        }
        for client in 0..self.clients.len() {
            self.act(client);
        }
    }

    /// Another version of the server takes over. Nobody can see that.
    fn upgrade(&mut self) {
        loop {
            (0..SHARDS).for_each(|shard| self.take_all(shard));
            if self.server.tick_at_rest() {
                break;
            }
        }
        let names = Arc::new(Names::new(self.graph.names.key()));
        self.graph = self.graph.restored(names.clone());
        let to = To::AnyShard;
        self.router = self.server.upgrade(&self.router, names, to, &mut self.upgrades);
        for client in &mut self.clients {
            client.place = self.server.find(client.place);
        }
    }

    fn connect(&mut self) {
        let shard = self.random.below(SHARDS);
        let diligent = !self.random.one_in(self.plan.slow_one_in);
        let room = if diligent { 1 << 30 } else { 300 };
        self.server.tick(shard);
        self.clients.push(Client::new(self.server.connect(shard, room), diligent));
    }

    /// What a client does by itself between two steps.
    fn act(&mut self, index: usize) {
        let World { random, clients, server, .. } = self;
        let client = &mut clients[index];
        let mut wire = server.wire(client.place);
        if client.left {
            return;
        }
        let len = if client.diligent { usize::MAX } else { random.below(80) };
        client.read(&wire.client_reads(len), server.clock.now_ms());
        client.left |= !wire.is_open();
        if random.one_in(self.plan.pause_one_in) {
            client.paused = !client.paused;
        }
        if client.paused {
            return;
        }
        // Now and then the next poll goes out before the one before is answered.
        let unanswered = client.polls.len().saturating_sub(client.answers.len());
        if client.unsent.is_empty() && !client.last && (unanswered == 0 || random.one_in(60)) {
            let ids = (0..1 + random.below(3)).map(|_| id_text(random.below(IDS))).collect();
            let wait_seconds = [0, 1, 2, 25, 60][random.below(5)];
            client.ask(ids, wait_seconds, random.one_in(30));
        }
        if !random.one_in(3) {
            let most = [1, 150, usize::MAX / 2][random.below(3)];
            let len = (1 + random.below(most)).min(client.unsent.len());
            let piece: Vec<u8> = client.unsent.drain(..len).collect();
            wire.client_sends(&piece);
        }
        if random.one_in(2000) {
            client.left = true;
            if random.one_in(2) { wire.client_resets() } else { wire.client_ends() }
        }
    }

    /// The poll of a client that waits now.
    fn waiting(&self, client: &Client) -> Option<usize> {
        client.waiting(&self.server.wire(client.place))
    }

    fn send(&mut self) {
        // The model must know by now who has gone.
        (0..SHARDS).for_each(|shard| self.report(shard));
        let (number, about) = (self.events.len(), id_text(self.random.below(IDS)));
        let heard_by = (0..self.clients.len()).filter_map(|index| {
            let poll = self.waiting(&self.clients[index])?;
            self.clients[index].polls[poll].ids.contains(&about).then_some((index, poll))
        });
        let due = heard_by.collect();
        let outgoing = Outgoing::new(&about, &format!("\"e{number}\"")).unwrap();
        let mut sending = self.router.send(outgoing);
        let receipt = posted(&mut sending, &self.graph);
        let event = sending.event().expect("what is posted has its number").clone();
        drop(sending);
        let (id, json) = (event.id().to_string(), event.json().to_string());
        self.events.push(SentEvent { id, json, due, receipt, delivered: 0 });
    }

    fn expel(&mut self) {
        let id = id_text(self.random.below(IDS));
        (0..SHARDS).for_each(|shard| self.report(shard));
        (0..SHARDS).for_each(|shard| self.take_all(shard));
        let expelled = |client: &&Client| {
            self.waiting(client).is_some_and(|poll| client.polls[poll].ids.contains(&id))
        };
        let count = self.clients.iter().filter(expelled).count();
        let mut sending = self.router.logout(IdText::parse(&id).unwrap());
        let receipt = posted(&mut sending, &self.graph);
        drop(sending);
        (0..SHARDS).for_each(|shard| self.take_all(shard));
        assert_eq!(receipt.ready(), Some(count as u32), "polls of {id}");
    }

    /// One turn of a shard: timers, reports, mail, writes, in the worker's order.
    fn turn(&mut self, shard: usize) {
        self.report(shard);
        for _ in 0..self.random.below(5) {
            self.take_mail(shard);
        }
        self.flush(shard);
        self.note_waiting();
    }

    /// Writes, and reads on where an answer has gone out: the model has a poll wait from then on.
    fn flush(&mut self, shard: usize) -> bool {
        let more = self.server.shards[shard].flush();
        self.server.shards[shard].read_deferred();
        more
    }

    fn report(&mut self, shard: usize) {
        self.server.begin_turn(shard);
        self.flush(shard);
        self.note_waiting();
    }

    /// Remembers since when polls wait, and sees that none waits for too long.
    fn note_waiting(&mut self) {
        let World { clients, server, .. } = self;
        let now_ms = server.clock.now_ms();
        for client in clients {
            let waiting = client.waiting(&server.wire(client.place));
            let Some(poll) = waiting.map(|poll| &mut client.polls[poll]) else { continue };
            let since_ms = *poll.since_ms.get_or_insert(now_ms);
            poll.overdue = now_ms > since_ms + poll.wait_ms + 200;
        }
    }

    fn take_mail(&mut self, shard: usize) -> bool {
        let Some(mail) = self.server.mailboxes[shard].take() else { return false };
        if let Mail::Deliver { event, .. } = &mail {
            let number = self.events.iter().position(|sent| sent.id == event.id()).unwrap();
            for (index, poll) in self.events[number].due.clone() {
                if self.clients[index].place.shard == shard
                    && self.waiting(&self.clients[index]) == Some(poll)
                {
                    self.clients[index].polls[poll].expected.push(number);
                    self.events[number].delivered += 1;
                }
            }
        }
        self.server.hand_over(shard, mail);
        self.server.shards[shard].read_deferred();
        true
    }

    fn take_all(&mut self, shard: usize) {
        while self.take_mail(shard) {}
        while self.flush(shard) {}
        self.note_waiting();
    }

    /// Lets everybody read to the end and every shard do all its work; then everybody goes.
    fn settle(&mut self) {
        for _ in 0..100 {
            for shard in 0..SHARDS {
                self.turn(shard);
                self.take_all(shard);
            }
            for client in self.clients.iter_mut().filter(|client| !client.left) {
                let read = self.server.wire(client.place).client_reads(usize::MAX);
                client.read(&read, self.server.clock.now_ms());
            }
        }
        for client in &self.clients {
            let late = client.polls.iter().any(|poll| poll.overdue && poll.answered_ms.is_none());
            assert!(client.left || !late, "a poll that waits too long");
            self.server.wire(client.place).client_ends();
        }
        (0..SHARDS).for_each(|shard| self.turn(shard));
        self.server.end();
    }

    fn check(&self) {
        let json = |&number: &usize| self.events[number].json.as_str();
        for client in &self.clients {
            for (poll, answer) in client.polls.iter().zip(&client.answers) {
                let Answer { status, body, .. } = answer;
                if *status == 408 {
                    assert!(self.plan.jump_one_in < 1000, "a head that timed out");
                    break;
                }
                let expected: Vec<&str> = poll.expected.iter().map(json).collect();
                assert_eq!(*body, format!("[{}]\n", expected.join(",\n")));
                check_time(poll, answer);
            }
        }
        for event in &self.events {
            assert_eq!(event.receipt.ready(), Some(event.delivered), "{}", event.json);
        }
        self.server.check_nothing_is_left();
        assert_eq!(self.graph.names.len(), 0, "no name of a client is left");
    }
}

/// An answer without events has waited its time, unless it was the end.
fn check_time(poll: &Poll, answer: &Answer) {
    if poll.expected.is_empty()
        && !answer.closes
        && let Some((since_ms, answered_ms)) = poll.since_ms.zip(poll.answered_ms)
    {
        assert!(
            answered_ms + 200 >= since_ms + poll.wait_ms,
            "[] {since_ms} {answered_ms} {}",
            poll.wait_ms
        );
    }
}

fn run_seeds(name: &str, seeds: u64, plan: Plan, happened: impl Fn(&WorkerSnapshot) -> bool) {
    for upgrade_one_in in UPGRADES {
        let plan = Plan { upgrade_one_in, ..plan };
        run_seeds_of(name, seeds, |seed| World::new(seed, plan).run(), &happened);
    }
}

#[test]
fn polls_hear_what_came_while_they_waited() {
    run_seeds("polls_hear_what_came", 30, PLAN, |figures| {
        let reasons = [
            DisconnectReason::Answered,
            DisconnectReason::ClientClosed,
            DisconnectReason::ClientReset,
            DisconnectReason::LoggedOut,
        ];
        reasons.iter().all(|&reason| ended(figures, reason) > 20) && figures.deliveries > 1000
    });
}

/// The same through TLS, with records that are cut on their way to those who read slowly.
#[test]
fn polls_through_tls_hear_what_came_while_they_waited() {
    let plan = Plan { slow_one_in: 2, tls: true, ..PLAN };
    run_seeds("polls_through_tls", 30, plan, |figures| {
        let reasons = [
            DisconnectReason::Answered,
            DisconnectReason::ClientClosed,
            DisconnectReason::ClientReset,
            DisconnectReason::LoggedOut,
        ];
        reasons.iter().all(|&reason| ended(figures, reason) > 20) && figures.deliveries > 1000
    });
}

#[test]
fn polls_with_small_backlogs_are_answered_early() {
    let plan = Plan { backlog_bytes_max: 60, slow_one_in: 1_000_000, ..PLAN };
    run_seeds("polls_with_small_backlogs", 20, plan, |figures| {
        figures.deliveries > 1000 && ended(figures, DisconnectReason::SlowReader) == 0
    });
}

#[test]
fn polls_meet_a_clock_that_jumps() {
    let plan = Plan { jump_one_in: 20, pause_one_in: 100, ..PLAN };
    run_seeds("polls_meet_a_clock", 40, plan, |figures| {
        ended(figures, DisconnectReason::HeadTimeout) > 20
            && ended(figures, DisconnectReason::Idle) > 20
    });
}
