//! The lives of a server: it starts, and now and then another version takes all over from it.
//!
//! That is done as two processes do it. A shard at rest writes down what there is of each
//! connection, as bytes. The reader of them knows nothing else but what a kernel and a store keep:
//! the wires, the clock, the numbers of events, and some keys. All else is made anew, the time
//! counts from elsewhere, and connections come in any order and to any shard.

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::{ConnRef, ConnectionIds, Directory, Epoch, EventIds, Names};
use sync::connection_limit::ConnectionLimit;
use sync::replies::Replies;
use topics::{Topics, TopicsDumped};

use super::net::Net;
use super::random::Random;
use super::secure::SimSockets;
use super::server::{Nature, Place, SHARDS, Server, UNBOUNDED};
use crate::History;
use crate::account::Account;
use crate::addresses::Addresses;
use crate::client_sends::ClientSends;
use crate::clock::{Clock, MadeClock};
use crate::config::EngineConfig;
use crate::counters::Counters;
use crate::handing_out::HandOuts;
use crate::handover::{leave_open_out, totals};
use crate::history_reads::HistoryReads;
use crate::limits;
use crate::mailbox::Mailbox;
use crate::resume::Resumes;
use crate::router::Router;
use crate::shard::{Shard, Shared};
use crate::slab::Key;
use crate::state::ConnState;
use crate::timer::TICK_MS;
use crate::tls::HandshakeLimits;
use crate::token_queue::TokenQueue;
use crate::tokens::Tokens;
use crate::watch::Watches;

/// How far back the time of one that takes over reaches, as `start` has it, and a few ticks more or
/// less.
const PAST_MS: u64 = 600_000;
const PAST_TICKS: usize = 50;

/// What is handed on of the history at a time.
const HISTORY_BYTES: usize = 300;

/// A connection that is nobody's.
const NONE: Key = Key { slot: u32::MAX, generation: u32::MAX };

/// What a process that takes over knows of the one before.
struct Before {
    address_keys: [u64; 2],
    clock: Arc<MadeClock>,
    started_ms: i64,
    nets: Vec<Net>,
}

/// Where connections go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum To {
    /// To any shard.
    AnyShard,
    /// To the one that has the same number.
    SameShard,
}

impl Server {
    /// A server whose events have the numbers of `epoch`. With a seed its clients speak TLS that is
    /// cut by it.
    pub(super) fn start(
        names: Arc<Names>,
        config: EngineConfig,
        epoch: Epoch,
        secured_by: Option<u64>,
    ) -> (Router, Server) {
        let secured = secured_by.map(|seed| (Default::default(), seed));
        Server::make(names, Nature { config, epoch, secured }, None)
    }

    fn make(names: Arc<Names>, nature: Nature, before: Option<Before>) -> (Router, Server) {
        let Nature { config, epoch, secured } = &nature;
        let address_keys = before.as_ref().map(|before| before.address_keys);
        let started_ms = before.as_ref().map_or(0, |before| before.started_ms);
        let (clock, nets) = match before {
            Some(before) => (before.clock, before.nets),
            None => (Arc::new(MadeClock::new(0)), Net::new(SHARDS, config.settings.keepalive_ms)),
        };
        let directory = Arc::new(Directory::default());
        let mailboxes: Arc<[_]> = (0..SHARDS).map(|_| Arc::new(Mailbox::new().unwrap())).collect();
        let replies = Arc::new(Replies::new().unwrap());
        let resumes = Arc::new(Resumes::new(replies.clone()));
        let tokens = Arc::new(Tokens::new(names.key()));
        let client_sends = Arc::new(ClientSends::new(replies.clone()));
        let history_reads = Arc::new(HistoryReads::new(replies.clone()));
        let event_ids = match config.cluster {
            true => EventIds::of_cluster(*epoch),
            false => EventIds::new(*epoch),
        };
        let event_ids = Arc::new(event_ids);
        let account = Arc::new(Account::new(config.buffered_bytes_max));
        let trusted = config.trusted.clone();
        let addresses = Arc::new(Addresses::new(config.per_address, trusted, address_keys));
        let connection_limit = Arc::new(ConnectionLimit::new(config.connections_max));
        let handshake_limits = HandshakeLimits::new(SHARDS, config.connections_max, SHARDS);
        let connection_ids = ConnectionIds::random();
        let rooms = config.rooms(&names, &replies);
        let topics = config.topics(&names, 0);
        let hand_outs = config.hands_any_out().then(|| HandOuts::new(&addresses, &tokens).unwrap());
        let (to_hand_out, hand_outs) = hand_outs.unzip();
        let (mut shards, mut counters) = (Vec::new(), Vec::new());
        for (worker, net) in nets.iter().enumerate() {
            let counted: Arc<Counters> = Arc::default();
            let shared = Shared {
                names: names.clone(),
                directory: directory.clone(),
                counters: counted.clone(),
                connection_limit: connection_limit.clone(),
                account: account.clone(),
                addresses: addresses.clone(),
                connection_ids,
                event_ids: event_ids.clone(),
                resumes: resumes.clone(),
                tokens: tokens.clone(),
                hub_tokens: Arc::new(Tokens::new(names.key())),
                client_sends: client_sends.clone(),
                history_reads: history_reads.clone(),
                notices: Arc::default(),
                hand_outs: to_hand_out.clone(),
                rooms: rooms.clone(),
                topics: topics.clone(),
                handshake_limits: handshake_limits.clone(),
                slots_max: ConnRef::SLOTS_MAX,
                started_ms: 0,
                permits: None,
                fan_outs: None,
            };
            let sockets = match secured {
                Some((ends, seed)) => {
                    let (net, seed) = (net.clone(), seed + worker as u64);
                    let limits = handshake_limits.clone();
                    SimSockets::secure(net, ends.clone(), seed, limits, counted.clone())
                }
                None => SimSockets::plain(net.clone()),
            };
            let mut shard = Shard::new(worker, sockets, config.clone(), shared);
            shard.set_work_per_turn(UNBOUNDED);
            shards.push(shard);
            counters.push(counted);
        }
        let watches = rooms.map(|rooms| Watches::new(mailboxes.clone(), names.clone(), rooms));
        let router = Router::new(
            names,
            directory.clone(),
            mailboxes.clone(),
            replies,
            event_ids.clone(),
            config.history,
            Clock::Made(clock.clone()),
        );
        let router = router.with_event_store(config.event_store.clone().map(|store| store.0));
        let router = router.with_pusher(config.pusher.clone()).with_topics(topics);
        let server = Server {
            token_queue: TokenQueue::new(mailboxes.clone(), tokens),
            watches,
            mailboxes,
            directory,
            resumes,
            client_sends,
            history_reads,
            hand_outs,
            event_ids,
            counters,
            nets,
            shards,
            account,
            connection_limit,
            addresses,
            clock,
            backlog_bytes_max: config.backlog_bytes_max,
            work_per_turn: UNBOUNDED,
            read_bytes: limits::SCRATCH_BYTES,
            reports_per_turn: usize::MAX,
            work_left: 0,
            started_ms,
            nature,
        };
        (router, server)
    }

    /// Whether a shard is at rest: all mail is taken, and nobody is to be written to.
    pub(super) fn is_at_rest(&self, shard: usize) -> bool {
        self.mailboxes[shard].len() == 0 && self.shards[shard].is_quiet()
    }

    /// Tells all shards what time it is, from which what is written down counts. Whether all are
    /// still at rest.
    pub(super) fn tick_at_rest(&mut self) -> bool {
        (0..SHARDS).for_each(|shard| self.tick(shard));
        (0..SHARDS).all(|shard| self.is_at_rest(shard))
    }

    /// Another version takes all over, which has the same store, with the dictionary `names`; its
    /// router, which remembers what `before`, the one of now, does. All shards are at rest. Now and
    /// then the first one that tries it fails, and it is as if nothing had been.
    ///
    /// Connections have other keys then, see [`Server::find`].
    pub(super) fn upgrade(
        &mut self,
        before: &Router,
        names: Arc<Names>,
        to: To,
        random: &mut Random,
    ) -> Router {
        let (mut states, lost) = self.write_all();
        for at in (1..states.len()).rev() {
            states.swap(at, random.below(at + 1));
        }
        if random.one_in(4) {
            let failed = Arc::new(Names::new(names.key()));
            drop(self.successor(before, failed, &states, to, random));
            let (again, _) = self.write_all();
            let sorted = |states: &[_]| states.iter().cloned().collect::<BTreeMap<_, _>>();
            assert!(sorted(&states) == sorted(&again), "to be taken over changes nothing");
        }
        let (router, successor, slots) = self.successor(before, names, &states, to, random);
        for (shard, socket) in lost {
            self.shards[shard].sockets().lose(socket);
        }
        self.nets[0].forget_keys();
        *self = successor;
        for (worker, socket, slot) in slots {
            let key = self.shards[worker].key_in(slot).unwrap();
            self.nets[worker].taken_over(socket, key);
        }
        for shard in 0..SHARDS {
            for socket in self.nets[shard].sockets() {
                if self.nets[shard].owner(socket).is_some() {
                    self.shards[shard].sockets().watch(socket);
                }
            }
        }
        router
    }

    /// Where a connection is now.
    pub(super) fn find(&self, Place { shard, socket, .. }: Place) -> Place {
        let (shard, key) = self.nets[0].owner(socket).unwrap_or((shard, NONE));
        Place { shard, socket, key }
    }

    /// Each connection's socket, and what is written of it, beside the shard that it is at; and
    /// those of which nothing can be written.
    #[expect(clippy::type_complexity, reason = "what a test hands from here to there")]
    fn write_all(&mut self) -> (Vec<((usize, usize), Vec<u8>)>, Vec<(usize, usize)>) {
        let (mut states, mut lost) = (Vec::new(), Vec::new());
        for shard in 0..SHARDS {
            assert!(self.is_at_rest(shard), "mail or writes are left");
            for slot in 0..self.shards[shard].slots() {
                let Some(&socket) = self.shards[shard].socket(slot) else { continue };
                let mut bytes = Vec::new();
                match self.shards[shard].write_down(slot) {
                    Some(state) => state.write(&mut bytes),
                    None => {
                        lost.push((shard, socket));
                        continue;
                    }
                }
                states.push(((shard, socket), bytes));
            }
        }
        (states, lost)
    }

    /// A process that has taken `states` over, and to which shard and slot each socket came.
    fn successor(
        &self,
        router_before: &Router,
        names: Arc<Names>,
        states: &[((usize, usize), Vec<u8>)],
        to: To,
        random: &mut Random,
    ) -> (Router, Server, Vec<(usize, usize, u32)>) {
        let now_ms = self.clock.now_ms();
        let past_ms = PAST_MS + TICK_MS * random.below(PAST_TICKS) as u64;
        let before = Before {
            address_keys: self.addresses.keys(),
            clock: self.clock.clone(),
            started_ms: (now_ms - now_ms % TICK_MS) as i64 - past_ms as i64,
            nets: self.nets.iter().map(Net::for_successor).collect(),
        };
        let (router, mut successor) = Server::make(names, self.nature.clone(), Some(before));
        if let (Some(from), Some(to)) = (router_before.history(), router.history()) {
            hand_on(from, to, now_ms);
        }
        if let (Some(from), Some(to)) = (router_before.topics(), router.topics()) {
            hand_topics_on(from, to, now_ms);
        }
        successor.event_ids.take_over(self.event_ids.last());
        successor.set_work_per_turn(self.work_per_turn);
        successor.set_read_bytes(self.read_bytes);
        successor.reports_per_turn = self.reports_per_turn;
        successor.work_left = self.work_left;
        let (mut slots, mut ghosts) = (Vec::new(), Vec::new());
        for (shard, net) in successor.shards.iter_mut().zip(&successor.nets) {
            net.tell(now_ms);
            shard.set_time((now_ms as i64 - successor.started_ms) as u64);
        }
        for ((shard, socket), bytes) in states {
            let worker = if to == To::SameShard { *shard } else { random.below(SHARDS) };
            let of_worker = &mut successor.shards[worker];
            if random.one_in(4) {
                // A copy of its socket has come, and then it has ended.
                ghosts.push((worker, of_worker.expect(*socket).unwrap()));
            }
            if random.one_in(4)
                && let Some((worker, slot)) = ghosts.pop()
            {
                successor.shards[worker].forget(slot);
            }
            let of_worker = &mut successor.shards[worker];
            let slot = of_worker.expect(*socket).unwrap();
            let state = ConnState::read_all(bytes).next().flatten().unwrap();
            for (_, key) in state.lists() {
                of_worker.expect_list(&self.shards[*shard].write_list(key).unwrap());
            }
            of_worker.take_over(slot, state).unwrap();
            slots.push((worker, *socket, slot));
        }
        for (worker, slot) in ghosts {
            successor.shards[worker].forget(slot);
        }
        if let (Some(from), Some(to)) = (router_before.topics(), router.topics()) {
            to.take_over_rest(from.rest());
        }
        let mut totals = totals(&self.figures());
        leave_open_out(&mut totals);
        successor.shards[0].count_on(&totals);
        successor.shards.iter_mut().for_each(|shard| shard.begin([]));
        if self.nature.config.tokens.is_some() {
            successor.token_queue.set_verifier(std::thread::current());
        }
        (router, successor, slots)
    }
}

/// Hands on what is known of topics, slice by slice, in two rounds.
fn hand_topics_on(from: &Topics, to: &Topics, now_ms: u64) {
    let mut dumped = TopicsDumped::default();
    for _ in 0..2 {
        while let Some(part) = from.dump(&mut dumped, HISTORY_BYTES, now_ms) {
            assert!(to.take_over(part, now_ms), "it is known how it is written");
        }
    }
}

/// Hands a memory on, slice by slice.
fn hand_on(from: &History, to: &History, now_ms: u64) {
    let mut after = 0;
    loop {
        let slice = from.dump(after, HISTORY_BYTES, now_ms);
        let Some(last) = slice.last() else { break };
        after = last.number;
        for remembered in slice {
            assert!(to.take_over(remembered, now_ms), "it is new there");
        }
    }
    to.take_over_evicted(from.evicted_range(), now_ms);
}
