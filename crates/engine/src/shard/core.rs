//! What a shard has beside its connections, and how it carries out what a connection's table says.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use hub::{
    AddressKey, ConnRef, ConnectionId, ConnectionIds, Directory, DisconnectReason, EventIds, Names,
};
use proto::Carrier;
use proto::websocket::deflate::Deflater;
use sync::connection_limit::ConnectionLimit;
use topics::Topics;

use super::Shared;
use super::tables::channels::Channels;
use super::tables::gathering::Gathering;
use super::tables::hub_marks::HubMarks;
use super::tables::pending_gap::PendingGap;
use super::tables::polled::Polled;
use super::tables::trust::Trust;
use super::tables::unplaced::Unplaced;
use super::tables::wall::Wall;
use super::tables::watching::{Subject, Watching};
use crate::account::Account;
use crate::addresses::Addresses;
use crate::budget::Budget;
use crate::client_sends::{ClientSends, Publisher};
use crate::column::Column;
use crate::config::EngineConfig;
use crate::conn::action::Action;
use crate::conn::state::Input;
use crate::conn::{Conn, Marks};
use crate::counters::Counters;
use crate::handing_out::HandOutSocket;
use crate::history_reads::HistoryReads;
use crate::id_lists::IdLists;
use crate::limits;
use crate::notices::Notices;
use crate::pauses::Pauses;
use crate::resume::Resumes;
use crate::slab::Place;
use crate::sockets::Sockets;
use crate::texts::Texts;
use crate::timer::{TICK_MS, Tick, Wheel};
use crate::tokens::{Session, Tokens};
use crate::watch::Rooms;
use crate::wire::Wire;

/// All but the connections.
pub(super) struct Core<S> {
    pub(super) io: S,
    pub(super) worker: usize,
    pub(super) config: EngineConfig,
    pub(super) names: Arc<Names>,
    pub(super) directory: Arc<Directory>,
    pub(super) counters: Arc<Counters>,
    pub(super) connection_limit: Arc<ConnectionLimit>,
    pub(super) account: Arc<Account>,
    pub(super) addresses: Arc<Addresses>,
    /// For which address a connection is counted, by slot.
    pub(super) sources: Column<Option<AddressKey>>,
    /// What it is believed, where a trusted peer has it.
    pub(super) trusts: Column<Trust>,
    /// For whom there is no place, and who are waited for all the same.
    pub(super) unplaced: Unplaced,
    pub(super) connection_ids: ConnectionIds,
    /// What connections that came from another process are called, by slot.
    pub(super) kept_ids: Column<Option<ConnectionId>>,
    /// The ids of connections beside the least of each.
    pub(super) more_ids: IdLists,
    pub(super) event_ids: Arc<EventIds>,
    pub(super) resumes: Arc<Resumes>,
    pub(super) tokens: Arc<Tokens>,
    /// Of the Mercure protocol.
    pub(super) hub_tokens: Arc<Tokens>,
    pub(super) texts: Arc<Texts>,
    /// Where the log is told of clients.
    pub(super) notices: Arc<Notices>,
    pub(super) client_sends: Arc<ClientSends>,
    pub(super) history_reads: Arc<HistoryReads>,
    /// Where connections go that are served elsewhere, if any are; and whether the one that ends
    /// now has gone there.
    pub(super) hand_outs: Option<Arc<HandOutSocket>>,
    pub(super) is_handed_out: bool,
    /// Of connections that send or read what was sent, by slot.
    pub(super) publishers: Column<Publisher>,
    /// How many sends and reads of this shard the control plane has not answered.
    pub(super) unanswered: usize,
    /// All is about to be written down for another process, which is to begin without any.
    pub(super) refuses_sends: bool,
    /// Of connections that have shown a token, by slot.
    pub(super) sessions: Column<Session>,
    /// Who is in a room, where streams need tokens.
    pub(super) rooms: Option<Arc<Rooms>>,
    /// Whose tokens these are, by slot.
    pub(super) subjects: Column<Subject>,
    /// What connections watch, and their seats in channels, by slot.
    pub(super) watching: Watching,
    /// What polls are told of rooms, by slot.
    pub(super) polled: HashMap<u32, Polled>,
    /// Those who speak the Pusher protocol.
    pub(super) channels: Channels,
    /// Who listens to what by the Mercure protocol, where that is served.
    pub(super) topics: Option<Arc<Topics>>,
    /// Which connections listen to patterns there, by slot.
    pub(super) patterns: Column<bool>,
    /// What is to be taken back of its subscribers, by slot.
    pub(super) hub_marks: Column<HubMarks>,
    /// All events up to this number that are for a connection here have come.
    pub(super) settled: u64,
    /// The number of the last event of which there was mail.
    pub(super) latest: u64,
    /// Further than here all have not come, since mail waits.
    pub(super) settled_max: u64,
    /// Who is still to be told of a gap.
    pub(super) pending_gap: Option<Box<PendingGap>>,
    /// How many gaps have come, and which streams began, by slot, after how many of those that have
    /// not.
    pub(super) gaps_come: u64,
    pub(super) begun_behind: Vec<(u32, u64)>,
    pub(super) wheel: Wheel,
    /// Connections that got small mail: written to before others.
    pub(super) express: VecDeque<u32>,
    /// Connections that got bulk mail: written to in slices, turn by turn.
    pub(super) bulk: VecDeque<u32>,
    /// Streams that were written to a moment ago, where such are gathered for.
    pub(super) gathering: Option<Box<Gathering>>,
    /// Clients who have said more than a turn has time for.
    pub(super) deferred: VecDeque<u32>,
    pub(super) budget: Budget,
    /// What the turn has spent on writes to connections whose backlog was full.
    pub(super) spent_on_full: u32,
    /// Compresses events, once one is to be compressed.
    pub(super) deflater: Option<Deflater>,
    /// The one read buffer.
    pub(super) scratch: Box<[u8]>,
    /// The one buffer for answers.
    pub(super) answer: Vec<u8>,
    /// The one buffer for an event that one connection alone is sent.
    pub(super) encoded: Vec<u8>,
    pub(super) now: Tick,
    pub(super) pauses: Pauses,
    pub(super) wall: Wall,
    /// The time of the turn as all workers have it.
    pub(super) now_ns: u64,
}

/// A connection, and where it is.
pub(super) struct At<'c, S> {
    pub(super) slot: u32,
    pub(super) place: &'c mut Place,
    pub(super) conn: &'c mut Conn<S>,
}

impl<S> At<'_, S> {
    /// From here on its old references find nobody.
    pub(super) fn renew(&mut self) {
        self.place.renew();
    }

    /// What has come and was not read.
    pub(super) fn take_unread(&mut self) -> Vec<u8> {
        let unread = self.conn.some_work().map(|work| std::mem::take(&mut work.unread));
        self.conn.tidy();
        unread.unwrap_or_default()
    }
}

/// How a connection ends here and now.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) reason: DisconnectReason,
    /// With a reset, and without what is unsent.
    pub(super) abort: bool,
}

/// Whether a connection lives on.
pub(super) type Lives = Result<(), End>;

impl<S: Sockets> Core<S> {
    pub(super) fn new(worker: usize, io: S, config: EngineConfig, shared: Shared) -> Core<S> {
        Core {
            io,
            worker,
            connection_limit: shared.connection_limit,
            account: shared.account,
            addresses: shared.addresses,
            sources: Column::default(),
            trusts: Column::default(),
            unplaced: Unplaced::default(),
            connection_ids: shared.connection_ids,
            kept_ids: Column::default(),
            more_ids: IdLists::default(),
            settled: shared.event_ids.last(),
            latest: 0,
            settled_max: u64::MAX,
            pending_gap: None,
            gaps_come: 0,
            begun_behind: Vec::new(),
            event_ids: shared.event_ids,
            resumes: shared.resumes,
            tokens: shared.tokens,
            hub_tokens: shared.hub_tokens,
            texts: Arc::default(),
            client_sends: shared.client_sends,
            history_reads: shared.history_reads,
            hand_outs: shared.hand_outs,
            is_handed_out: false,
            publishers: Column::default(),
            unanswered: 0,
            refuses_sends: false,
            sessions: Column::default(),
            rooms: shared.rooms,
            subjects: Column::default(),
            watching: Watching::default(),
            polled: HashMap::new(),
            channels: Channels::default(),
            gathering: Gathering::new(config.gather_ms),
            topics: shared.topics,
            patterns: Column::default(),
            hub_marks: Column::default(),
            config,
            notices: shared.notices,
            names: shared.names,
            directory: shared.directory,
            counters: shared.counters,
            wheel: Wheel::new(),
            express: VecDeque::new(),
            bulk: VecDeque::new(),
            deferred: VecDeque::new(),
            budget: Budget::new(),
            spent_on_full: 0,
            deflater: None,
            scratch: vec![0; limits::SCRATCH_BYTES].into(),
            answer: Vec::new(),
            encoded: Vec::new(),
            now: 0,
            pauses: Pauses::default(),
            wall: Wall::default(),
            now_ns: 0,
        }
    }

    pub(super) fn conn_ref(&self, at: &At<'_, S::Socket>) -> ConnRef {
        ConnRef::new(self.worker, at.slot as usize, at.place.generation)
    }

    /// Carries out what the table says of `input`.
    pub(super) fn happen(&mut self, at: &mut At<'_, S::Socket>, input: Input) -> Lives {
        let action = at.conn.on(input);
        match action {
            Action::Nothing => Ok(()),
            Action::Close { reason, abort } => Err(End { reason, abort }),
            Action::RefuseLate => self.refuse_late(at),
            Action::RefuseBody => self.refuse_body(at),
            Action::RefuseMessage => self.refuse_message(at),
            Action::RefuseToken => self.refuse_token(at),
            Action::RefuseSend => self.refuse_unanswered(at),
            Action::EndBehindAnswer => {
                at.conn.wire = Wire::new(at.conn.wire.format(), Carrier::Close);
                Ok(())
            }
            Action::KeepAlive => self.keep_alive(at),
            Action::Answer => self.answer_poll(at, None, None),
            Action::AnswerLast(reason) => self.answer_poll(at, Some(reason), None),
            Action::WaitOn => {
                // Its time stays what it was: with what it has missed it is answered at once.
                self.wheel.start(at.slot, self.now + self.poll_idle());
                Ok(())
            }
            Action::Ask => self.ask_on(at),
            Action::ReadOn => {
                self.read_on(at);
                Ok(())
            }
            Action::Linger(reason) => {
                self.linger(at, reason);
                Ok(())
            }
            Action::Fail(reason) => {
                self.fail(at, reason);
                Ok(())
            }
            Action::EndStream(reason) => self.end_stream(at, reason),
            Action::Finish(reason) => self.finish(at, reason),
        }
    }

    /// All events up to `number` that are for a connection here have come, but for what waits.
    pub(super) fn settle(&mut self, number: u64) {
        self.settled = self.settled.max(number.min(self.settled_max));
    }

    /// Whether the turn has no more time for connections whose backlog is full.
    pub(super) fn has_no_time_for_full(&self) -> bool {
        self.spent_on_full >= limits::BULK_WORK_PER_TURN
    }

    /// Enters in the account of all what is kept for a connection now.
    pub(super) fn enter(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let below = self.io.kept_bytes(&at.conn.socket) as u32;
        let kept = at.conn.kept_bytes() + self.polled_bytes(at.slot) + below;
        if kept == at.conn.charged {
            return Ok(());
        }
        if !self.account.change(at.conn.charged, kept) {
            return Err(End { reason: DisconnectReason::BuffersFull, abort: true });
        }
        at.conn.charged = kept;
        Ok(())
    }

    /// Leaves what the client has sent to a later turn.
    pub(super) fn defer(&mut self, at: &mut At<'_, S::Socket>) {
        if !at.conn.is(Marks::DEFERRED) {
            at.conn.mark(Marks::DEFERRED, true);
            self.deferred.push_back(at.slot);
        }
    }
}

/// At least one tick, or a short time would be none.
pub(super) const fn ticks(ms: u64) -> Tick {
    match ms.div_ceil(TICK_MS) {
        0 => 1,
        ticks if ticks > (Tick::MAX / 2) as u64 => Tick::MAX / 2,
        ticks => ticks as Tick,
    }
}
