//! The heart of a worker: its connections and what happens to them.
//!
//! Sans-io: it acts on the world through [`Sockets`] alone and is told the time. So the same code
//! runs under epoll with a million clients and in the simulator with a hundred, by seed.
//!
//! Nothing here waits. The only locks are a directory and a names stripe, at login and logout.

mod admission;
mod full;
mod page;
mod poll;
mod presence;
mod resume;
mod websocket;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;

use hub::{ConnRef, Directory, DisconnectReason, EventIds, Names};
use proto::Transport;
use proto::websocket::deflate::Deflater;

use crate::Event;
use crate::config::EngineConfig;
use crate::conn::{Conn, Phase, Queue};
use crate::counters::Counters;
use crate::limits;
use crate::mailbox::{Mail, Targets};
use crate::outbox::Flushed;
use crate::places::Places;
use crate::receipt::Stub;
use crate::resume::Resumes;
use crate::slab::{Key, Slab};
use crate::sockets::Sockets;
use crate::timer::{TICK_MS, Tick, Wheel};

/// One worker's connections.
pub(crate) struct Shard<S: Sockets> {
    pub(crate) io: S,
    worker: usize,
    rules: Rules,
    names: Arc<Names>,
    directory: Arc<Directory>,
    counters: Arc<Counters>,
    places: Arc<Places>,
    event_ids: Arc<EventIds>,
    resumes: Arc<Resumes>,
    /// All events up to this number that are for a connection here have come.
    settled: u64,
    conns: Slab<Conn<S::Socket>>,
    wheel: Wheel,
    /// Connections that got small mail in this turn: written to before the turn ends.
    express: Vec<u32>,
    /// Connections that got bulk mail: written to in slices, turn by turn.
    bulk: VecDeque<u32>,
    /// Clients who have said more than a turn has time for.
    deferred: VecDeque<u32>,
    /// Bytes that clients of WebSockets were read of in this turn.
    heard_bytes: usize,
    /// Compresses events, once one is to be compressed.
    deflater: Option<Deflater>,
    /// The one read buffer.
    scratch: Box<[u8]>,
    /// The one buffer for answers.
    answer: Vec<u8>,
    now: Tick,
}

/// The settings that a shard follows, in its own units.
struct Rules {
    config: EngineConfig,
    keepalive: Option<Tick>,
    head_timeout: Tick,
    poll_idle: Tick,
    linger: Tick,
}

/// What a shard shares with the rest.
pub(crate) struct Shared {
    pub(crate) names: Arc<Names>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) counters: Arc<Counters>,
    /// The bound on the connections of all shards together.
    pub(crate) places: Arc<Places>,
    /// The numbers of events: where a stream begins.
    pub(crate) event_ids: Arc<EventIds>,
    pub(crate) resumes: Arc<Resumes>,
    /// Connections that this shard alone can hold.
    pub(crate) slots_max: usize,
}

impl<S: Sockets> Shard<S> {
    pub(crate) fn new(worker: usize, io: S, config: EngineConfig, shared: Shared) -> Shard<S> {
        Shard {
            io,
            worker,
            conns: Slab::new(shared.slots_max),
            places: shared.places,
            settled: shared.event_ids.last(),
            event_ids: shared.event_ids,
            resumes: shared.resumes,
            rules: Rules {
                keepalive: (config.keepalive_ms > 0).then(|| ticks(config.keepalive_ms)),
                head_timeout: ticks(config.head_timeout_ms),
                poll_idle: ticks(config.head_timeout_ms.max(limits::POLL_IDLE_MS)),
                linger: ticks(limits::LINGER_MS),
                config,
            },
            names: shared.names,
            directory: shared.directory,
            counters: shared.counters,
            wheel: Wheel::new(),
            express: Vec::new(),
            bulk: VecDeque::new(),
            deferred: VecDeque::new(),
            heard_bytes: 0,
            deflater: None,
            scratch: vec![0; limits::SCRATCH_BYTES].into(),
            answer: Vec::new(),
            now: 0,
        }
    }

    pub(crate) fn connections(&self) -> usize {
        self.conns.len()
    }

    /// The most connections that this shard can hold.
    pub(crate) fn slots_max(&self) -> usize {
        self.conns.max()
    }

    /// A client has connected. Gives the socket back when there is no place for it.
    pub(crate) fn accept(&mut self, socket: S::Socket) -> Result<Key, S::Socket> {
        if !self.places.take() {
            return Err(socket);
        }
        let key = self.conns.insert(Conn::new(socket, self.now)).map_err(|conn| {
            self.places.give_back();
            conn.socket
        })?;
        self.counters.opened.add(1);
        self.wheel.start(&mut self.conns, key.slot, self.now + self.rules.head_timeout);
        Ok(key)
    }

    /// The socket of the connection in `slot`, as long as it lives.
    pub(crate) fn socket(&mut self, slot: u32) -> Option<&S::Socket> {
        self.conns.at(slot).map(|conn| &conn.socket)
    }

    /// There is something to read. With `hung_up` the end of the client's side is in there too.
    pub(crate) fn readable(&mut self, slot: u32, hung_up: bool) {
        let mut stray_bytes = 0;
        while let Some(conn) = self.conns.at(slot) {
            let takes_turns = conn.transport == Transport::WebSocket;
            let no_time = conn.deferred || self.heard_bytes >= limits::CLIENT_BYTES_PER_TURN;
            if takes_turns && no_time {
                return self.defer(slot);
            }
            let len = match self.io.receive(&conn.socket, &mut self.scratch) {
                Ok(0) => return self.client_closed(slot),
                Ok(len) => len,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return self.broken(slot, &error),
            };
            if conn.takes_requests() {
                self.read_head(slot, len);
            } else if takes_turns {
                self.heard_bytes += len;
                if conn.hears_messages() {
                    self.read_messages(slot, len);
                }
                if len == self.scratch.len() {
                    return self.defer(slot);
                }
            } else {
                stray_bytes += len;
                if stray_bytes > limits::STRAY_BYTES_PER_TURN {
                    return self.close(slot, DisconnectReason::BadRequest, true);
                }
            }
            // A short read has emptied the socket: what comes later is reported anew.
            if len < self.scratch.len() && !hung_up {
                return;
            }
        }
    }

    /// There is room to write.
    pub(crate) fn writable(&mut self, slot: u32) {
        if let Some(conn) = self.conns.at(slot)
            && conn.blocked
        {
            conn.blocked = false;
            self.flush_slot(slot);
        }
    }

    /// Takes one mail. Returns what it cost, in deliveries.
    pub(crate) fn mail(&mut self, mail: Mail) -> usize {
        let mut weight = mail.weight();
        match mail {
            Mail::Deliver { event, targets, stub } => {
                weight += self.compress_for(&event, &targets);
                self.deliver(&event, &targets, stub);
            }
            Mail::Close { reason, targets, mut stub } => {
                for target in targets {
                    let key = key_of(target);
                    let streaming = |conn: &mut Conn<_>| conn.phase == Phase::Streaming;
                    if self.conns.find(key).is_some_and(streaming) {
                        self.end(key.slot, reason);
                        stub.count_one();
                    }
                }
            }
            Mail::CatchUp(catch_up) => self.catch_up(*catch_up),
            Mail::Drain { .. } => self.end_all(),
        }
        weight
    }

    fn deliver(&mut self, event: &Arc<Event>, targets: &Targets, mut stub: Stub) {
        // Mail comes in the order of its numbers.
        self.settled = self.settled.max(event.number());
        let bulk = targets.len() > limits::EXPRESS_TARGETS_MAX;
        for &target in targets {
            if self.deliver_one(event, key_of(target), bulk) {
                stub.count_one();
                self.counters.deliveries.add(1);
            } else {
                self.counters.dropped.add(1);
            }
        }
    }

    /// Whether the connection still lived and took the event.
    fn deliver_one(&mut self, event: &Arc<Event>, key: Key, bulk: bool) -> bool {
        let Some(conn) = self.conns.find(key).filter(|conn| conn.phase == Phase::Streaming) else {
            return false;
        };
        let waiting = conn.push_event(event);
        if conn.is_held() {
            return self.cut_held(key.slot);
        }
        if waiting > self.rules.config.backlog_bytes_max {
            return self.cut_backlog(key.slot);
        }
        if conn.blocked || conn.queued == Queue::Express || (bulk && conn.queued == Queue::Bulk) {
            return true;
        }
        if bulk {
            conn.queued = Queue::Bulk;
            self.bulk.push_back(key.slot);
        } else {
            conn.queued = Queue::Express;
            self.express.push(key.slot);
        }
        true
    }

    /// The connection in `slot` has more waiting than it may. It may be we who are slow: what waits
    /// for its turn to be written is no backlog yet. Whether the connection lives on.
    fn cut_backlog(&mut self, slot: u32) -> bool {
        let Some(conn) = self.conns.at(slot) else { return false };
        if !conn.blocked {
            self.flush_slot(slot);
        }
        let Some(conn) = self.conns.at(slot) else { return false };
        let lives = conn.backlog_bytes() <= self.rules.config.backlog_bytes_max;
        if !lives {
            self.close(slot, DisconnectReason::SlowReader, true);
        }
        lives
    }

    /// Writes once to each connection that got mail: to all that got small mail, to a slice of the
    /// others. `true` when some are left for the next turn.
    ///
    /// A slot in a queue may have been given away since; then there is nothing to write, or what
    /// there is may as well be written now.
    pub(crate) fn flush(&mut self) -> bool {
        for index in 0..self.express.len() {
            self.flush_slot(self.express[index]);
        }
        self.express.clear();
        let mut writes = 0;
        while writes < limits::BULK_WRITES_PER_TURN {
            let Some(slot) = self.bulk.pop_front() else { return false };
            writes += usize::from(self.flush_slot(slot));
        }
        !self.bulk.is_empty()
    }

    /// Whether a connection waits for its turn to be written to.
    #[cfg(test)]
    pub(crate) fn owes_writes(&self) -> bool {
        !self.express.is_empty() || !self.bulk.is_empty()
    }

    /// Writes what waits for the connection in `slot`. `false` when there was nothing to write.
    fn flush_slot(&mut self, slot: u32) -> bool {
        let Some(conn) = self.conns.at(slot) else { return false };
        if conn.is_held() {
            return false;
        }
        conn.queued = Queue::None;
        if conn.blocked || conn.is_flushed() {
            return false;
        }
        if conn.polls() {
            self.answer_poll(slot, None, None);
            self.read_on(slot);
            return true;
        }
        match conn.flush(&mut self.io, &self.counters) {
            Flushed::All => {
                conn.active = self.now;
                match conn.phase {
                    Phase::Ending => {
                        conn.phase = Phase::Lingering;
                        self.io.shutdown(&conn.socket);
                    }
                    Phase::Between => self.read_on(slot),
                    Phase::Head | Phase::Streaming | Phase::Lingering => {}
                }
            }
            Flushed::Blocked => conn.blocked = true,
            Flushed::Gone(error) => self.broken(slot, &error),
        }
        true
    }

    /// Sends bytes that are no event, after everything that waits for the connection in `slot`.
    pub(crate) fn reply(&mut self, slot: u32, bytes: &[u8]) {
        let Some(conn) = self.conns.at(slot) else { return };
        if !conn.is_flushed() {
            // Where something waits, the connection is queued or the kernel will report.
            let waiting = conn.push_reply(bytes);
            if conn.is_held() {
                self.cut_held(slot);
                return;
            }
            // Its last words are not held against it.
            if waiting > self.rules.config.backlog_bytes_max && conn.phase == Phase::Streaming {
                self.cut_backlog(slot);
            }
            return;
        }
        match conn.send_now(bytes, &mut self.io, &self.counters) {
            Flushed::All => conn.active = self.now,
            Flushed::Blocked => conn.blocked = true,
            Flushed::Gone(error) => self.broken(slot, &error),
        }
    }

    /// Time goes on, in milliseconds since the worker's start: fires what is due, within the turn's
    /// budget.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        self.now = (now_ms / TICK_MS) as Tick;
        self.heard_bytes = 0;
        for _ in 0..limits::TIMERS_PER_TURN {
            let Some(slot) = self.wheel.fire(&mut self.conns, self.now) else { return };
            let Some(conn) = self.conns.at(slot) else { continue };
            let (phase, reason) = (conn.phase, conn.reason);
            match phase {
                Phase::Head => self.head_timed_out(slot),
                Phase::Streaming if conn.transport == Transport::Poll => self.poll_timed_out(slot),
                Phase::Between => self.idle_timed_out(slot),
                Phase::Streaming => self.keep_alive(slot),
                Phase::Ending => self.close(slot, reason, true),
                Phase::Lingering => self.close(slot, reason, false),
            }
        }
    }

    /// When the shard next wants a tick, in milliseconds since the worker's start.
    pub(crate) fn next_tick_ms(&self) -> Option<u64> {
        self.wheel.next().map(|tick| u64::from(tick) * TICK_MS)
    }

    fn keep_alive(&mut self, slot: u32) {
        let Some(silence) = self.rules.keepalive else { return };
        let Some(conn) = self.conns.at(slot) else { return };
        let mut due = conn.active + silence;
        if due <= self.now {
            due = self.now + silence;
            // With a backlog there is no silence to break.
            if conn.is_flushed() {
                self.counters.keepalives.add(1);
                let bytes = conn.transport.keep_alive(conn.framing);
                self.reply(slot, bytes);
            }
        }
        self.wheel.start(&mut self.conns, slot, due);
    }

    fn client_closed(&mut self, slot: u32) {
        let Some(conn) = self.conns.at(slot) else { return };
        let reason = match conn.phase {
            Phase::Head | Phase::Streaming | Phase::Between => DisconnectReason::ClientClosed,
            Phase::Ending | Phase::Lingering => conn.reason,
        };
        self.close(slot, reason, false);
    }

    fn broken(&mut self, slot: u32, error: &std::io::Error) {
        let Some(conn) = self.conns.at(slot) else { return };
        let reason = match (conn.phase, error.kind()) {
            (Phase::Ending | Phase::Lingering, _) => conn.reason,
            (_, ErrorKind::TimedOut) => DisconnectReason::ClientVanished,
            _ => DisconnectReason::ClientReset,
        };
        self.close(slot, reason, true);
    }

    /// Ends a stream in good manners: it hears what it was already handed and the end of the
    /// stream. It is logged out at once.
    fn end(&mut self, slot: u32, reason: DisconnectReason) {
        let Some(conn) = self.conns.at(slot) else { return };
        match conn.transport {
            Transport::WebSocket => websocket::push_farewell(reason, &mut self.answer),
            Transport::Poll => return self.answer_poll(slot, Some(reason), None),
            _ => self.answer.extend_from_slice(conn.framing.end()),
        }
        self.end_with_answer(slot, reason);
    }

    /// The same, when its last words are in the buffer for answers.
    fn end_with_answer(&mut self, slot: u32, reason: DisconnectReason) {
        self.let_go(slot);
        self.leave(slot);
        let Some(conn) = self.conns.at(slot) else { return };
        (conn.phase, conn.reason) = (Phase::Ending, reason);
        self.send_answer(slot);
        self.finish(slot, reason);
    }

    /// Sends what waits, then our end, then gives the client a moment for its own.
    fn finish(&mut self, slot: u32, reason: DisconnectReason) {
        let Some(conn) = self.conns.at(slot) else { return };
        (conn.phase, conn.reason) = (Phase::Ending, reason);
        if conn.is_flushed() {
            conn.phase = Phase::Lingering;
            self.io.shutdown(&conn.socket);
        }
        self.wheel.start(&mut self.conns, slot, self.now + self.rules.linger);
        self.flush_slot(slot);
    }

    fn end_all(&mut self) {
        for slot in 0..self.conns.slots() {
            match self.conns.at(slot).map(|conn| conn.phase) {
                Some(Phase::Head) => self.close(slot, DisconnectReason::Shutdown, false),
                Some(Phase::Between) => self.end_between(slot, DisconnectReason::Shutdown),
                Some(Phase::Streaming) => self.end(slot, DisconnectReason::Shutdown),
                _ => {}
            }
        }
    }

    /// Ends every connection without a farewell.
    pub(crate) fn abort_all(&mut self) {
        for slot in 0..self.conns.slots() {
            self.close(slot, DisconnectReason::Shutdown, true);
        }
    }

    /// Ends a connection here and now.
    pub(crate) fn close(&mut self, slot: u32, reason: DisconnectReason, abort: bool) {
        self.leave(slot);
        self.wheel.stop(&mut self.conns, slot);
        if let Some(conn) = self.conns.remove(slot) {
            self.places.give_back();
            self.counters.closed[reason as usize].add(1);
            self.io.close(conn.socket, abort);
        }
    }
}

fn key_of(target: ConnRef) -> Key {
    Key { slot: target.slot() as u32, generation: target.generation() }
}

/// At least one tick, or a short time would be none.
fn ticks(ms: u64) -> Tick {
    ms.div_ceil(TICK_MS).clamp(1, u64::from(Tick::MAX / 2)) as Tick
}
