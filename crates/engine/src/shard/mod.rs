//! The heart of a worker: its connections and what happens to them.
//!
//! Sans-io: it acts on the world through [`Sockets`] alone and is told the time. So the same code
//! runs under epoll with a million clients and in the simulator with a hundred, by seed.
//!
//! Nothing here waits. The only locks are a directory and a names stripe, at login and logout.
//!
//! A connection is looked up in one place, [`Shard::serve`]. What is done with it is the
//! [`Core`]'s, by what the table of [`crate::conn::state`] says. Whether it lives on is the answer,
//! and one function closes. What clients make a turn do is counted in one budget: who comes when
//! that is spent is [put off](Core::defer) to the next turn.

mod admission;
mod channels;
mod client_sends;
mod connection_id;
mod core;
mod deliver;
mod down;
mod due;
mod ending;
mod forwarded;
mod front;
mod full;
mod gap;
mod gathering;
mod handing_out;
mod history_reads;
mod mail;
mod members;
mod moving;
mod notices;
#[cfg(test)]
mod observed;
mod page;
mod parked;
mod poll;
mod presence;
mod reading;
mod refusing;
mod request_ids;
mod resume;
mod saying;
mod subscriber_handover;
mod subscriber_head;
mod subscriber_ids;
mod subscriber_notes;
mod subscribers;
mod tables;
mod tokens;
mod turn;
mod up;
mod wall;
mod websocket;
mod writing;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use hub::{Bound, ConnRef, ConnectionIds, Directory, DisconnectReason, EventIds, Names};
use sync::connection_limit::ConnectionLimit;
use sync::permits::ServingPermits;
use topics::Topics;

use self::core::{At, Core, End, Lives};
use self::ending::LeavingBatch;
use self::moving::Moving;
use self::parked::Parked;
pub(crate) use self::up::Untaken;
use crate::account::Account;
use crate::addresses::{Addresses, Peer};
use crate::client_sends::ClientSends;
use crate::config::EngineConfig;
use crate::conn::Conn;
use crate::conn::state::State;
use crate::counters::Counters;
use crate::fan_outs::RungPermits;
use crate::handing_out::HandOutSocket;
use crate::history_reads::HistoryReads;
use crate::limits::work;
use crate::notices::Notices;
use crate::reports::PutOff;
use crate::resume::Resumes;
use crate::slab::{Key, Slab};
use crate::sockets::Sockets;
use crate::timer::TICK_MS;
use crate::tls::HandshakeLimits;
use crate::tokens::{Revoked, Tokens};
use crate::watch::Rooms;

/// One worker's connections.
pub(crate) struct Shard<S: Sockets> {
    conns: Slab<Conn<S::Socket>>,
    /// Connections that it has places for. Beside them a few are told that there is none.
    places: usize,
    core: Core<S>,
    started_ms: u64,
    /// Connections that are to be ended when there is time for it.
    leaving: VecDeque<LeavingBatch>,
    /// Mail that waits for time.
    parked: Parked,
    /// Large mail is parked, and no more is written than is due to small mail.
    fan_outs_wait: bool,
    /// Tokens whose streams are to be ended, and the slot to look at next.
    revoked: VecDeque<(Revoked, u32)>,
    /// The end of all mail has come: until when to end all connections, in monotonic milliseconds.
    drain_deadline_ms: Option<u64>,
    /// The next slot whose token's end is to be looked at, since the clock was set forward.
    ends_looked_at: Option<u32>,
    /// The next slot whose connection the drain ends.
    drained_to: Option<u32>,
    /// All connections are to be ended by and by.
    moving: Option<Moving>,
    /// Connections of another process for which something is to be done now that they are ours.
    taken_over: VecDeque<u32>,
    /// Reports that no turn has had time for yet; nothing where there are none.
    put_off: Option<Box<PutOff>>,
    /// How many turns there were: kinds of what is due begin in turn.
    turns: usize,
}

/// What a shard shares with the rest.
pub(crate) struct Shared {
    pub(crate) names: Arc<Names>,
    pub(crate) directory: Arc<Directory>,
    pub(crate) counters: Arc<Counters>,
    /// The bound on the connections of all shards together.
    pub(crate) connection_limit: Arc<ConnectionLimit>,
    /// The bound on what is kept for all of them together.
    pub(crate) account: Arc<Account>,
    /// What one client's address may have and do.
    pub(crate) addresses: Arc<Addresses>,
    /// What connections are called outside.
    pub(crate) connection_ids: ConnectionIds,
    /// The numbers of events: where a stream begins.
    pub(crate) event_ids: Arc<EventIds>,
    pub(crate) resumes: Arc<Resumes>,
    pub(crate) tokens: Arc<Tokens>,
    /// Of the Mercure protocol.
    pub(crate) hub_tokens: Arc<Tokens>,
    pub(crate) client_sends: Arc<ClientSends>,
    pub(crate) history_reads: Arc<HistoryReads>,
    pub(crate) notices: Arc<Notices>,
    /// Where connections go that are served elsewhere, if any are.
    pub(crate) hand_outs: Option<Arc<HandOutSocket>>,
    /// Who is in a room, where streams need tokens.
    pub(crate) rooms: Option<Arc<Rooms>>,
    /// Who listens to what by the Mercure protocol, where that is served.
    pub(crate) topics: Option<Arc<Topics>>,
    /// The bounds on those within their handshake.
    pub(crate) handshake_limits: HandshakeLimits,
    /// Connections that this shard alone can hold.
    pub(crate) slots_max: usize,
    /// What all shards count their time from, in monotonic milliseconds.
    pub(crate) started_ms: u64,
    /// Which of the workers may serve clients, where not all may at one time.
    pub(crate) permits: Option<Arc<ServingPermits>>,
    /// Which of them may send to large audiences, where not all may at one time.
    pub(crate) fan_outs: Option<Arc<RungPermits>>,
}

/// Why there is no place for a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoPlace {
    /// All places are taken.
    Full,
    /// Its address has met this bound.
    Bound(Bound),
    /// Other nodes have, and this one ends.
    Moving,
}

impl<S: Sockets> Shard<S> {
    pub(crate) fn new(worker: usize, io: S, config: EngineConfig, shared: Shared) -> Shard<S> {
        Shard {
            conns: Slab::new(shared.slots_max),
            places: full::places(&config, shared.slots_max),
            started_ms: shared.started_ms,
            core: Core::new(worker, io, config, shared),
            leaving: VecDeque::new(),
            parked: Parked::default(),
            fan_outs_wait: false,
            revoked: VecDeque::new(),
            drain_deadline_ms: None,
            drained_to: None,
            ends_looked_at: None,
            moving: None,
            taken_over: VecDeque::new(),
            put_off: None,
            turns: 0,
        }
    }

    /// Its worker's number.
    pub(crate) fn worker(&self) -> usize {
        self.core.worker
    }

    pub(crate) fn connections(&self) -> usize {
        self.conns.len()
    }

    /// The most connections that this shard has places for.
    pub(crate) fn slots_max(&self) -> usize {
        self.places.min(self.conns.max())
    }

    /// What it counts its time from, in monotonic milliseconds.
    pub(crate) fn started_ms(&self) -> u64 {
        self.started_ms
    }

    /// A client has connected from `address`. Gives the socket back when there is no place for it.
    pub(crate) fn accept(
        &mut self,
        socket: S::Socket,
        address: IpAddr,
    ) -> Result<Key, (S::Socket, NoPlace)> {
        let core = &mut self.core;
        let peer = match core.count_peer(address) {
            Ok(peer) => peer,
            Err(bound) => return Err((socket, NoPlace::Bound(bound))),
        };
        let has_place = self.conns.len() - core.unplaced.len() < self.places;
        let inserted = match has_place && core.connection_limit.take() {
            false => Err(socket),
            true => self.conns.insert(Conn::new(socket, core.now)).map_err(|conn| {
                core.connection_limit.give_back();
                conn.socket
            }),
        };
        let key = inserted.map_err(|socket| {
            if let Peer::Counted(key) = peer {
                core.addresses.disconnect(key);
            }
            (socket, NoPlace::Full)
        })?;
        core.counters.opened.add(1);
        core.budget.spend(work::END);
        self.serve(key.slot, |core, at| {
            core.note_peer(at, peer);
            core.wait(at);
            Ok(())
        });
        Ok(key)
    }

    /// What its sockets are made of.
    pub(crate) fn sockets(&mut self) -> &mut S {
        &mut self.core.io
    }

    /// The socket of the connection in `slot`, as long as it lives.
    pub(crate) fn socket(&mut self, slot: u32) -> Option<&S::Socket> {
        self.conns.at(slot).map(|(_, conn)| &conn.socket)
    }

    /// The sockets of the connections in `slots`, of each that lives.
    pub(crate) fn sockets_of(&self, slots: &[u32]) -> impl Iterator<Item = &S::Socket> {
        slots.iter().filter_map(|&slot| self.conns.look_at(slot).map(|conn| &conn.socket))
    }

    /// One past the highest slot there is.
    pub(crate) fn slots(&self) -> u32 {
        self.conns.slots()
    }

    /// There is something to read. With `hung_up` the end of the client's side is in there too.
    pub(crate) fn readable(&mut self, slot: u32, hung_up: bool) {
        self.serve(slot, |core, at| {
            if hung_up {
                at.conn.ask_no_more();
            }
            core.readable(at, hung_up)
        });
    }

    /// The connection in `slot`, which has just come, begins with a TLS handshake, or with what a
    /// proxy says before it.
    pub(crate) fn secure(&mut self, slot: u32) {
        self.serve(slot, |core, at| {
            at.conn.move_to(State::Handshake);
            core.secure(at);
            core.wait(at);
            Ok(())
        });
    }

    /// Ends connections within their handshake, of which there are more than may be: as many as
    /// have begun one in this turn.
    pub(crate) fn end_stalled(&mut self) {
        while let Some(slot) = self.core.io.take_stalled() {
            self.close(slot, End { reason: DisconnectReason::TlsTimeout, abort: true });
        }
    }

    /// There is room to write.
    pub(crate) fn writable(&mut self, slot: u32) {
        self.serve(slot, |core, at| {
            if at.conn.state() == State::Handshake {
                return core.handshake(at, false);
            }
            core.unblock(at);
            Ok(())
        });
    }

    /// When the shard next wants a tick, in milliseconds since the engine's start.
    pub(crate) fn next_tick_ms(&self) -> Option<u64> {
        let timers = [self.core.wheel.next(), self.core.unplaced.next()];
        timers.into_iter().flatten().min().map(|tick| u64::from(tick) * TICK_MS)
    }

    /// Whether there is work left that waits for no report.
    pub(crate) fn is_busy(&self) -> bool {
        self.has_deferred() || self.has_work()
    }

    /// Whether there are clients for whom a turn had no time.
    pub(crate) fn has_deferred(&self) -> bool {
        !self.core.deferred.is_empty() || self.has_put_off()
    }

    /// Whether there is other work left that waits for no report.
    pub(crate) fn has_work(&self) -> bool {
        !self.leaving.is_empty()
            || !self.revoked.is_empty()
            || !self.taken_over.is_empty()
            || !(self.parked.is_empty() || self.fan_outs_wait)
            || self.core.pending_gap.is_some()
            || self.drained_to.is_some()
            || self.ends_looked_at.is_some()
            || self.is_to_move()
    }

    /// Until when connections have time to end, in monotonic milliseconds, once all are to.
    pub(crate) fn drain_deadline_ms(&self) -> Option<u64> {
        self.drain_deadline_ms
    }

    /// Does something with the connection in `slot`, and what has to be done after everything: it
    /// is entered in the account of all, and closed if it does not live on. One that has gone in
    /// the meantime, as many do between a report and its turn, is left alone.
    fn serve(
        &mut self,
        slot: u32,
        work: impl FnOnce(&mut Core<S>, &mut At<'_, S::Socket>) -> Lives,
    ) {
        let Some((place, conn)) = self.conns.at(slot) else { return };
        let mut at = At { slot, place, conn };
        self.core.budget.begin_connection();
        let lives = work(&mut self.core, &mut at).and_then(|()| self.core.enter(&mut at));
        if let Err(end) = lives {
            self.close(slot, end);
        }
    }

    /// Ends a connection here and now.
    fn close(&mut self, slot: u32, End { reason, abort }: End) {
        let Some((place, conn)) = self.conns.at(slot) else { return };
        let mut at = At { slot, place, conn };
        self.core.note_end(&at, reason);
        self.core.leave(&mut at);
        self.core.wheel.stop(slot);
        self.core.budget.spend(work::END);
        self.remove(slot, reason, abort);
    }

    fn remove(&mut self, slot: u32, reason: DisconnectReason, abort: bool) {
        let Some(conn) = self.conns.remove(slot) else { return };
        if let Some(put_off) = &mut self.put_off {
            put_off.forget(slot);
            self.put_off.take_if(|put_off| put_off.is_empty());
        }
        self.core.account.change(conn.charged, 0);
        self.core.count_no_more(slot);
        self.core.publishers.take(slot);
        self.core.kept_ids.take(slot);
        if !self.core.unplaced.take(slot) {
            self.core.connection_limit.give_back();
            self.core.counters.closed[reason as usize].add(1);
        }
        match std::mem::take(&mut self.core.is_handed_out) {
            true => self.core.io.let_go(conn.socket),
            false => self.core.io.close(conn.socket, abort),
        }
    }

    /// The kernel does not take the connection in `slot`.
    pub(crate) fn give_up(&mut self, slot: u32) {
        self.close(slot, End { reason: DisconnectReason::Full, abort: true });
    }
}

fn key_of(target: ConnRef) -> Key {
    Key { slot: target.slot() as u32, generation: target.generation() }
}
