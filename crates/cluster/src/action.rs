//! What a node asks of whoever drives it, and what it tells.

use std::sync::Arc;

use crate::change::Change;
use crate::record::Order;
use crate::room_note::RoomNote;

/// A run of numbers that all nodes of a cluster share: one stream, from its first sequence on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Epoch {
    /// Counts the epochs of the cluster; a part of the stream's name.
    pub number: u64,
    /// The number before its first.
    pub base: u64,
}

impl Epoch {
    /// The number of the event at `index` in the record at `sequence`.
    pub fn number_of(self, sequence: u64, index: u16) -> u64 {
        let in_record = usize::from(index) < crate::limits::RECORD_EVENTS_MAX;
        debug_assert!(in_record, "{index} would be a number of the next record");
        let place = sequence.saturating_mul(1 << crate::limits::INDEX_BITS) | u64::from(index);
        self.base.saturating_add(place)
    }

    /// The sequence of the record that the event `number` is in; `None` of another epoch.
    pub fn sequence_of(self, number: u64) -> Option<u64> {
        number.checked_sub(self.base).map(|place| place >> crate::limits::INDEX_BITS)
    }

    /// The greatest number up to `sequence`: the place behind its record.
    pub fn behind(self, sequence: u64) -> u64 {
        self.number_of(sequence, (1 << crate::limits::INDEX_BITS) - 1)
    }
}

/// The base of a new epoch: follows the clock (`unix_ms` since 1970), and is in any case above
/// `above`, the greatest number that its proposer has ever seen.
pub fn epoch_base(unix_ms: u64, above: u64) -> u64 {
    // As `hub::Epoch` has it: 44 bits of milliseconds, and no clock is believed beyond 2248.
    (unix_ms.min(1 << 43) << 20).max(above.saturating_add(1))
}

/// The version of the graph that a node's replica has, and the hash of its set of pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GraphPlace {
    /// The version.
    pub version: u64,
    /// The sum over all pairs at this version.
    pub hash: u64,
}

/// A record of the log, known again when it is read once more.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogMark {
    /// Of which epoch's log.
    pub epoch: u64,
    /// Its sequence; 0 is the place before the first one.
    pub sequence: u64,
    /// What it adds to the sum over the log.
    pub hash: u64,
}

/// What is known of a replica when its node begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// The store of record was read after this was the last record of the log.
    Read {
        /// Of which epoch's log.
        epoch: u64,
        /// The sequence; 0 where it was empty.
        sequence: u64,
    },
    /// All that the log says up to there is in its pairs: a [`Node::mark`](crate::Node::mark) of an
    /// earlier process.
    Since(LogMark),
    /// Nothing: it is brought to where the store of record is before anybody relies on it.
    Nothing,
}

/// A sender that waits for an [`Action::Answer`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// The id of a message in the log, by which the log knows it again.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId(pub String);

/// What came of an attempt to publish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Published {
    /// It is in the log at this sequence, by this attempt or an earlier one.
    At(u64),
    /// The log says that it did not take this attempt.
    Refused,
    /// Nobody knows.
    Timeout,
}

/// Who a message outside of the log is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CoreSubject {
    /// All nodes, the one that sends it too, on `beat`: it needs to hear itself.
    All,
    /// All nodes that know the view, on `ask`.
    Ask,
    /// The member with this incarnation, on `count.<incarnation>`.
    Count(u64),
    /// The member with this incarnation, on `need.<incarnation>`.
    Need(u64),
}

/// Why the log is not the one that a node has read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFault {
    /// A record was published by somebody who had read further than the record's own sequence.
    TailLost,
    /// The log ends before what this node has read of it.
    HeadBehind,
    /// At a sequence that was read there is another record.
    OtherRecord,
    /// A record that was acknowledged at a sequence is not there.
    NotOurs,
    /// Another node's sum over the log differs.
    Differs,
    /// There is no stream.
    Gone,
    /// The epoch begins below numbers that this node has seen.
    BaseTooLow,
}

/// What a sender is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is in the log, and was posted.
    Sent {
        /// Its number; of an order the place of its record.
        number: u64,
        /// Connections that it was posted to, or that an order has met.
        delivered: u64,
        /// Not all members have said how many: there may be more.
        at_least: bool,
    },
    /// It is not in the log and never will be: 503.
    NotSent,
    /// It is not known to be in the log, and may still come into it: 503.
    MayBeSent,
}

/// Why a node is at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// It was asked to leave, and has left.
    Drained,
    /// A newer process has joined under its name.
    NameTaken,
    /// A newer version has written a record that this one cannot read: whatever it says, this node
    /// would pass it over.
    Newer {
        /// The record's sequence.
        sequence: u64,
        /// Its format.
        format: u8,
    },
}

/// One event to gather, to record in the history and to post, in the order in which they come out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deliver {
    /// The sequence of its record in the log.
    pub sequence: u64,
    /// Its place in the record.
    pub index: u16,
    /// Its number.
    pub number: u64,
    /// The event.
    pub event: crate::record::Event,
}

/// What a node asks for. Those with an answer say which input it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read the log of this epoch: answered with [`Node::following`](crate::Node::following), then
    /// [`Node::record`](crate::Node::record). Whoever drives the node begins at `from`, or, where
    /// it is `None`, with what a history of one minute needs, or where the replica is [`Known`] if
    /// that is before it. When the connection breaks they go on by themselves with
    /// [`Node::read_up_to`](crate::Node::read_up_to). The node asks again where others have read
    /// further and nothing comes: then they look where the log begins and ends now.
    Follow {
        /// The epoch whose stream it is. It was made before the epoch was agreed on; where there is
        /// none any more it is [`Node::stream_gone`](crate::Node::stream_gone), and never made
        /// anew: its numbers would come twice.
        epoch: u64,
        /// The first sequence.
        from: Option<u64>,
    },
    /// Publish into the log: answered with [`Node::published`](crate::Node::published). The same
    /// message comes again until it is known to be there.
    Publish {
        /// The epoch whose stream it is for.
        epoch: u64,
        /// Its id, for the header `Nats-Msg-Id`.
        id: MessageId,
        /// The record.
        record: Arc<[u8]>,
    },
    /// Send a message outside of the log. It may be lost.
    Core {
        /// Who it is for.
        to: CoreSubject,
        /// The message, for [`Node::core_message`](crate::Node::core_message) over there.
        bytes: Vec<u8>,
    },
    /// End this epoch. First seal its stream, if there is one, so that it takes nothing more: what
    /// a node that is behind publishes there would be heard by nobody who has gone on, and they
    /// have been told their gap. Whoever meets a sealed stream says so by
    /// [`Node::stream_gone`](crate::Node::stream_gone). Then make the next stream, if nobody has,
    /// and only then write the next epoch where all nodes read it, if the present one is still
    /// `epoch` minus 1: with base [`epoch_base`] of the clock and `above`. Whoever wins, all nodes
    /// are told by [`Node::epoch`](crate::Node::epoch).
    ProposeEpoch {
        /// The next epoch.
        epoch: u64,
        /// Its base must be above this.
        above: u64,
        /// Why.
        fault: LogFault,
    },
    /// From now on events are of this epoch: the history is empty, and all streams are told a gap.
    /// What was delivered before and is not yet posted need not be; nobody waits for it.
    EpochBegan(Epoch),
    /// The history is exact only after this place, and all streams are told a gap.
    Gap {
        /// The place: a number of this epoch.
        after: u64,
    },
    /// Post an event: answered with [`Node::posted`](crate::Node::posted), for each one. At most
    /// [`WINDOW`](crate::limits::WINDOW) of them are unanswered.
    Deliver(Deliver),
    /// Do this: answered with [`Node::posted`](crate::Node::posted) of index 0 and how many
    /// connections it has met. Until then nothing else comes out.
    Obey {
        /// The sequence of its record.
        sequence: u64,
        /// What to do.
        order: Order,
    },
    /// Apply a change to the replica, which is at the version before: answered with
    /// [`Node::graph`](crate::Node::graph). Until then nothing else comes out.
    Apply(Change),
    /// A change that was given to [`Node::change`](crate::Node::change) is in the log, and applied
    /// here: whoever asked for it may be answered. Every later send, on whichever node, is heard
    /// by it.
    ChangeApplied {
        /// Its version.
        version: u64,
        /// Its hash, which tells it from another of that number: the store of record may be put
        /// back to an older state.
        hash: u64,
    },
    /// Bring the replica from its version to that of the store of record: answered with
    /// [`Node::graph`](crate::Node::graph), again and again until it works.
    ReadChanges,
    /// Read this one version in the store of record: answered with
    /// [`Node::change`](crate::Node::change).
    FetchChange {
        /// The version.
        version: u64,
    },
    /// See which version the store of record is at now, not a moment ago: answered with
    /// [`Node::latest_version`](crate::Node::latest_version), or never. It is asked again until
    /// there is an answer.
    CheckVersion {
        /// Which question it is.
        ask: u64,
    },
    /// The replica's set hash differs from that of a publisher: build it anew.
    RebuildGraph,
    /// Tell a sender.
    Answer {
        /// Which one.
        ticket: Ticket,
        /// What.
        outcome: Outcome,
    },
    /// The node is a member: it may open its listeners.
    Joined {
        /// Its incarnation.
        incarnation: u64,
    },
    /// The others have declared the node gone, or began without it; it joins again when it is well.
    /// Its streams stay, and its sends wait.
    Left,
    /// A record that this node cannot read was passed over: for the log and a metric.
    Unreadable {
        /// Its sequence.
        sequence: u64,
    },
    /// Another node speaks a newer format outside of the log: for the log. Neither hears the other,
    /// so each will think that the other is gone.
    NewerMessage,
    /// What the log says of who is in a room, for [`Rooms::step`](crate::Rooms::step). It waits for
    /// nothing that is posted.
    Rooms(RoomStep),
    /// The node does nothing any more: end the process.
    End(EndReason),
}

/// What the log says of who is in a room, and of the nodes that say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoomStep {
    /// These are the members now, by incarnation, this node among them or not.
    View {
        /// All of them, growing.
        nodes: Vec<u64>,
        /// This one.
        me: Option<u64>,
        /// Of which epoch sequences and incarnations are.
        epoch: u64,
    },
    /// The view, or a part of the log, is not known.
    Lost,
    /// A record of a member.
    Notes {
        /// Its sequence.
        sequence: u64,
        /// The member's incarnation.
        from: u64,
        /// What it says.
        notes: Vec<RoomNote>,
    },
}
