//! The node: what it is told, and what it asks for.
//!
//! [`reading`] is what the log does to it, [`comparing`] whether it is the right one, [`epochs`]
//! what ends it. [`storing`] is what its graph and the store of record say, [`talking`] what the
//! others say, [`timing`] what time does. This file has what its driver calls.

mod comparing;
mod epochs;
mod handing;
mod joining;
mod known;
mod newer;
mod parts;
mod proofs;
mod reading;
mod rooms;
mod storing;
mod talking;
mod timing;
mod types;

use std::collections::{BTreeMap, VecDeque};

use crate::action::{
    Action, EndReason, Epoch, GraphPlace, Known, LogFault, MessageId, Outcome, Published, Ticket,
};
use crate::chain::Chain;
use crate::change::{PART_BYTES_MAX, Part};
use crate::counts::{Counts, Sums};
use crate::limits::{SEQUENCE_MAX, STORE_AGAIN_MS};
use crate::liveness::Liveness;
use crate::pipeline::Pipeline;
use crate::publisher::{Attempt, NotTaken, Publisher, TicketOutcome};
use crate::record::{Event, Head, Order};
use crate::replica::Replica;
use crate::roster::Roster;
use joining::Joining;
use newer::Newer;
use parts::PartsRead;
use proofs::Proofs;
pub use types::{Config, Place, Status};

/// A node.
#[derive(Debug)]
pub struct Node {
    config: Config,
    epoch: Epoch,
    actions: VecDeque<Action>,
    /// The follower has begun in this epoch.
    followed: bool,
    /// The last sequence that was read, and the last that there was when the follower began.
    read: u64,
    head: u64,
    /// The greatest sequence of this epoch that anybody has named.
    top: u64,
    /// There is more than was read, and nothing comes: when to let the follower begin anew.
    stalled_ms: Option<u64>,
    /// The greatest number of all epochs before.
    above: u64,
    /// The place after which the history is exact.
    floor: u64,
    chain: Chain,
    /// What others' sums are greater by, while the view is not known.
    before: Option<u64>,
    /// The last record of a newer version, while the view is not known.
    newer: Option<Newer>,
    roster: Roster,
    liveness: Liveness,
    pipeline: Pipeline,
    publisher: Publisher,
    sums: Sums,
    counts: Counts,
    replica: Replica,
    /// Up to where the replica has what the log says, when the follower begins.
    known: Known,
    /// Up to where an earlier process has read this epoch's log.
    was_at: Option<crate::LogMark>,
    /// What this node is, as far as it has read.
    incarnation: Option<u64>,
    /// It was a member once: streams may be open.
    served: bool,
    joining: Joining,
    /// Leaves that this node publishes, its own too.
    leaves: BTreeMap<u64, Attempt>,
    /// Parts of changes that this node publishes: as many as may wait for the log
    /// ([`Node::change`]).
    changes: BTreeMap<(u64, u16), (Part, Attempt)>,
    parts_read: PartsRead,
    /// Bytes of pairs in one part of a change.
    part_bytes: usize,
    /// The log is not the one that was read, and when to say so again.
    broken: Option<(LogFault, u64)>,
    /// Questions for the version of the store of record; the first whose answer is new enough for
    /// what waits; and when to ask again, while the last one has no answer.
    asks: u64,
    fresh_ask: u64,
    check_ms: Option<u64>,
    /// Since when the graph holds everything up: when to ask the store of record.
    barrier_ms: Option<u64>,
    streams: u64,
    proofs: Proofs,
    left_ms: u64,
    /// See [`Status::returning_ms`].
    returning_ms: Option<u64>,
    /// The view is another one than was told last.
    is_view_new: bool,
    now_ms: u64,
    leaving: bool,
    /// Its own leave was read, and comes out when all before it is done.
    left: bool,
    /// It has come out: at this sequence.
    left_at: Option<u64>,
    ended: bool,
}

impl Node {
    /// A node that knows the epoch and has a replica at `graph`. `now_ms`, here as everywhere, is a
    /// clock that never goes back.
    ///
    /// The replica must be complete as of some place in the log, and the follower must begin there
    /// or before: that is what is `known` of it. Where the log does not have what the replica
    /// lacks, the node brings it to where the store of record is before it joins.
    pub fn new(now_ms: u64, config: Config, epoch: Epoch, graph: GraphPlace, known: Known) -> Node {
        let follow = Action::Follow { epoch: epoch.number, from: None };
        Node {
            epoch,
            actions: [follow, Action::CheckVersion { ask: 1 }].into(),
            asks: 1,
            fresh_ask: 0,
            check_ms: Some(now_ms + STORE_AGAIN_MS),
            followed: false,
            read: 0,
            head: 0,
            top: 0,
            stalled_ms: None,
            above: 0,
            floor: epoch.base,
            chain: Chain::new(0),
            before: None,
            newer: None,
            roster: Roster::new(0),
            liveness: Liveness::new(now_ms),
            pipeline: Pipeline::new(0),
            publisher: Publisher::default(),
            sums: Sums::default(),
            counts: Counts::default(),
            replica: Replica::new(graph),
            known,
            was_at: None,
            incarnation: None,
            served: false,
            joining: Joining::new(now_ms, config.nonce),
            leaves: BTreeMap::new(),
            changes: BTreeMap::new(),
            parts_read: PartsRead::default(),
            part_bytes: PART_BYTES_MAX,
            broken: None,
            barrier_ms: None,
            streams: 0,
            proofs: Proofs::default(),
            left_ms: now_ms,
            returning_ms: None,
            is_view_new: false,
            now_ms,
            leaving: false,
            left: false,
            left_at: None,
            ended: false,
            config,
        }
    }

    /// Puts an event into the log: the answer comes as [`Action::Answer`], within
    /// [`SEND_DEADLINE_MS`](crate::limits::SEND_DEADLINE_MS) and
    /// [`COUNT_DEADLINE_MS`](crate::limits::COUNT_DEADLINE_MS). Events of one caller keep their
    /// order.
    ///
    /// # Errors
    ///
    /// It is not taken, and nothing was sent.
    pub fn submit(&mut self, now_ms: u64, event: Event) -> Result<Ticket, NotTaken> {
        if self.leaving || self.ended {
            return Err(NotTaken::Leaving);
        }
        let taken = self.publisher.submit(now_ms, event);
        self.step(now_ms);
        taken
    }

    /// Has `order` obeyed by all nodes; otherwise as [`Node::submit`].
    ///
    /// # Errors
    ///
    /// It is not taken, and nothing was sent.
    pub fn submit_order(&mut self, now_ms: u64, order: Order) -> Result<Ticket, NotTaken> {
        if self.leaving || self.ended {
            return Err(NotTaken::Leaving);
        }
        let taken = self.publisher.submit_order(now_ms, order);
        self.step(now_ms);
        taken
    }

    /// Whether there is room for more records. Where not, let them wait with the follower.
    pub fn wants_records(&self) -> bool {
        let holds = !self.roster.is_known() && self.joining.holds(self.now_ms);
        self.pipeline.has_room() && !holds
    }

    /// The last sequence that was read: the one from which a follower begins anew, because the
    /// message there must be the one that is known. 0 before the first.
    pub fn read_up_to(&self) -> u64 {
        self.read
    }

    /// What came of an [`Action::Publish`].
    pub fn published(&mut self, now_ms: u64, epoch: u64, id: &MessageId, outcome: Published) {
        if epoch != self.epoch.number || self.ended {
            return;
        }
        let outcome = match outcome {
            // No log comes to that, and no later epoch could begin above it.
            Published::At(sequence) if sequence > SEQUENCE_MAX => Published::Timeout,
            outcome => outcome,
        };
        self.publisher.published(now_ms, id, outcome);
        let leaves = self.leaves.values_mut();
        let changes = self.changes.values_mut().map(|(_, attempt)| attempt);
        let others = leaves.chain(changes).chain(&mut self.joining.attempt);
        if let Some(attempt) = others.into_iter().find(|attempt| attempt.id == *id) {
            attempt.published(now_ms, outcome);
        }
        if let Published::At(sequence) = outcome {
            self.top = self.top.max(sequence);
            self.check_ours(now_ms);
            self.acknowledge();
        }
        self.step(now_ms);
    }

    /// The event at `sequence` and `index` was posted to `count` connections.
    pub fn posted(&mut self, now_ms: u64, epoch: u64, sequence: u64, index: u16, count: u32) {
        if epoch == self.epoch.number {
            self.pipeline.posted(sequence, index, count);
            self.step(now_ms);
        }
    }

    /// The event could not be posted here, since its audience cannot be read: whoever sent it is
    /// told a count that is too low, as if this node had not said its own.
    pub fn unposted(&mut self, now_ms: u64, epoch: u64, sequence: u64, index: u16) {
        if epoch == self.epoch.number {
            self.pipeline.unposted(sequence, index);
            self.step(now_ms);
        }
    }

    /// How many streams are open, for the beats.
    pub fn streams(&mut self, open: u64) {
        self.streams = open;
    }

    /// Takes nothing more, and leaves when what it has taken is in the log: [`Action::End`] says
    /// that it has left.
    pub fn leave(&mut self, now_ms: u64) {
        self.leaving = true;
        self.step(now_ms);
    }

    /// Time passes.
    pub fn tick(&mut self, now_ms: u64) {
        self.step(now_ms);
    }

    /// The next thing to do. Take all of them after each input.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Node::tick`], if nothing happens before.
    pub fn next_deadline(&self) -> u64 {
        self.deadline()
    }

    /// Where `number`, one of this epoch, stands.
    pub fn place(&self, number: u64) -> Place {
        if number < self.floor {
            Place::Before
        } else if number <= self.applied_number() {
            Place::Known
        } else {
            Place::Future
        }
    }

    /// The place up to which all was posted here.
    pub fn applied_number(&self) -> u64 {
        self.epoch.behind(self.pipeline.applied())
    }

    /// What is shown of it.
    pub fn status(&self) -> Status {
        Status {
            incarnation: self.incarnation,
            read: self.read,
            applied: self.pipeline.applied(),
            members: if self.roster.is_known() { self.roster.members().len() } else { 0 },
            queued: self.publisher.queued(),
            outstanding: self.publisher.outstanding(),
            counting: self.sums.len(),
            version: self.replica.version(),
            broken: self.broken.is_some(),
            waits_for_store: self.pipeline.waits_for_graph().is_some(),
            proved_ms: self.proofs.proved_ms(),
            left_ms: self.left_ms,
            returning_ms: self.returning_ms,
        }
    }

    /// The sum over the log.
    #[cfg(test)]
    pub(crate) fn chain_at(&self, sequence: u64) -> Option<u64> {
        self.chain.at(sequence)
    }

    /// Cuts changes into small parts.
    #[cfg(test)]
    pub(crate) fn cut_small(&mut self, part_bytes: usize) {
        self.part_bytes = part_bytes;
    }

    /// What a record of ours begins with. Who does not know the sum says nothing of it.
    fn head(&self) -> Head {
        let chain = self.chain.at(self.read).filter(|_| self.roster.is_known());
        let after = if chain.is_some() { self.read } else { 0 };
        let incarnation = self.incarnation.unwrap_or(0);
        Head { incarnation, batch: 0, after, chain: chain.unwrap_or(0) }
    }

    fn tell(&mut self, told: Vec<TicketOutcome>) {
        let answer = |(ticket, outcome): (Ticket, Outcome)| Action::Answer { ticket, outcome };
        self.actions.extend(told.into_iter().map(answer));
    }

    /// Nothing goes on here.
    fn end(&mut self, reason: EndReason) {
        let mut told = Vec::new();
        self.sums.end(self.epoch, &mut told);
        self.publisher.end(&mut told);
        self.tell(told);
        self.actions.push_back(Action::End(reason));
        self.ended = true;
    }
}

#[cfg(test)]
mod forged;
#[cfg(test)]
mod tests;
