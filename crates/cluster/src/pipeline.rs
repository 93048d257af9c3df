//! This leads from what was read to what is posted. Events come out in the order of the log, some
//! of them at once. Everything else is a barrier, which comes out when all before it is done.
//!
//! A version of the graph that waits for earlier ones is such a barrier, too. What it waits for is
//! read later, and overtakes what is held up.

use std::collections::VecDeque;

use crate::change::Change;
use crate::limits::{RECORD_EVENTS_MAX, UNREAD_BYTES_MAX, WINDOW};
use crate::record::{Event, Order};

/// A version of the graph that nobody has said yet.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// What was read at a sequence.
#[derive(Debug)]
pub(crate) enum Item {
    /// Events of `origin`; `me` is what this node was at that sequence, if it was a member.
    Events { origin: u64, me: Option<u64>, events: VecDeque<Event> },
    /// An order, likewise.
    Order { origin: u64, me: Option<u64>, order: Order },
    /// A change of the graph, complete with this record.
    Change(Change),
    /// The graph must be at this version before anything goes on.
    Graph(u64),
    /// The graph must be at the version that the store of record has by then.
    Latest,
    /// This node has joined.
    Joined(u64),
    /// This node is a member no more.
    Left,
    /// What was read before is not all there was, or not as others have it.
    Gap,
    /// This node has left for good.
    Drained,
    /// Nothing that concerns what is posted.
    Nothing,
}

/// What comes out.
#[derive(Debug)]
pub(crate) enum Out {
    Event { sequence: u64, index: u16, event: Event },
    Order { sequence: u64, order: Order },
    Change(Change),
    Graph(u64),
    Latest,
    Joined(u64),
    Left,
    Gap(u64),
    Drained(u64),
}

/// A record whose events have all been posted, or an order that was obeyed.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) sequence: u64,
    pub(crate) origin: u64,
    pub(crate) me: Option<u64>,
    pub(crate) counts: Vec<u32>,
}

/// A record whose events are being handed out and posted.
#[derive(Debug)]
struct Open {
    sequence: u64,
    origin: u64,
    me: Option<u64>,
    waiting: VecDeque<Event>,
    counts: Vec<Option<u32>>,
    /// How many of `counts` are there.
    posted: usize,
}

impl Open {
    /// How many are handed out.
    fn handed(&self) -> usize {
        self.counts.len() - self.waiting.len()
    }
}

/// The way from the log to the streams.
#[derive(Debug)]
pub(crate) struct Pipeline {
    /// Read, with their bytes.
    read: VecDeque<(u64, usize, Item)>,
    read_bytes: usize,
    /// Being posted. An order is one of these alone, with nothing that waits.
    open: VecDeque<Open>,
    /// Handed out and not posted.
    window: usize,
    /// An order is being obeyed, and nothing comes out before it is.
    order: bool,
    /// What must be done before anything else comes out: the version of the graph.
    graph: Option<u64>,
    /// Changes that a graph which is waited for needs, and the one that is being applied.
    urgent: VecDeque<Change>,
    applying: Option<u64>,
    /// The last sequence of which all is done.
    applied: u64,
}

impl Pipeline {
    pub(crate) fn new(applied: u64) -> Pipeline {
        let (read, open) = (VecDeque::new(), VecDeque::new());
        let urgent = VecDeque::new();
        Pipeline {
            read,
            read_bytes: 0,
            open,
            window: 0,
            order: false,
            graph: None,
            urgent,
            applying: None,
            applied,
        }
    }

    pub(crate) fn applied(&self) -> u64 {
        self.applied
    }

    pub(crate) fn has_room(&self) -> bool {
        self.read_bytes < UNREAD_BYTES_MAX
    }

    /// Whether all that was read is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.read.is_empty() && self.open.is_empty() && self.graph.is_none()
    }

    /// What was read next, a record of so many bytes. Sequences may be left out where the log was
    /// trimmed; one may have several items.
    pub(crate) fn push(&mut self, sequence: u64, bytes: usize, item: Item) {
        let last = self.read.back().map_or(self.applied, |&(last, ..)| last);
        debug_assert!(last <= sequence, "the log is read in its order");
        self.read_bytes += bytes;
        self.read.push_back((sequence, bytes, item));
    }

    /// A change that completes one or more before it, read at `sequence`: it comes out before what
    /// waits for it, if anything does.
    pub(crate) fn push_change(&mut self, sequence: u64, bytes: usize, change: Change) {
        let version = change.version;
        let waits = |wanted: u64| version <= wanted;
        if self.graph.is_some_and(waits) || !self.urgent.is_empty() {
            self.urgent.push_back(change);
            return self.push(sequence, bytes, Item::Nothing);
        }
        let waits = |(_, _, item): &(u64, usize, Item)| matches!(item, Item::Graph(w) if waits(*w));
        match self.read.iter().position(waits) {
            Some(place) => {
                let before = self.read[place].0;
                self.read.insert(place, (before, 0, Item::Change(change)));
                self.push(sequence, bytes, Item::Nothing);
            }
            None => self.push(sequence, bytes, Item::Change(change)),
        }
    }

    /// The next thing to do, if anything may come out now.
    pub(crate) fn next(&mut self, done: &mut Vec<Done>) -> Option<Out> {
        loop {
            let urgent = self.urgent.front().filter(|_| self.applying.is_none());
            if let Some(version) = urgent.map(|change| change.version) {
                self.applying = Some(version);
                return self.urgent.pop_front().map(Out::Change);
            }
            if let Some(out) = self.next_event() {
                return Some(out);
            }
            self.close(done);
            let (_, _, item) = self.read.front()?;
            let barrier = !matches!(item, Item::Events { .. } | Item::Nothing);
            let busy = !self.open.is_empty();
            if self.graph.is_some()
                || !self.urgent.is_empty()
                || self.window >= WINDOW
                || busy && (barrier || self.order)
            {
                return None;
            }
            let (sequence, bytes, item) = self.read.pop_front()?;
            self.read_bytes -= bytes;
            debug_assert!(!self.read.is_empty() || self.read_bytes == 0);
            if let Some(out) = self.take(sequence, item) {
                return Some(out);
            }
        }
    }

    /// The next event of the last record that is open.
    fn next_event(&mut self) -> Option<Out> {
        let open = self.open.back_mut().filter(|_| self.window < WINDOW)?;
        let index = open.handed() as u16;
        let event = open.waiting.pop_front()?;
        debug_assert!(!self.order && index < RECORD_EVENTS_MAX as u16);
        self.window += 1;
        debug_assert!(self.window <= WINDOW);
        Some(Out::Event { sequence: open.sequence, index, event })
    }

    fn take(&mut self, sequence: u64, item: Item) -> Option<Out> {
        match item {
            Item::Events { origin, me, events } => {
                self.open(sequence, origin, me, events.len(), events);
                return None;
            }
            Item::Nothing => {
                self.open(sequence, 0, None, 0, VecDeque::new());
                return None;
            }
            Item::Order { origin, me, order } => {
                debug_assert!(self.open.is_empty() && self.window == 0, "an order is alone");
                self.open(sequence, origin, me, 1, VecDeque::new());
                self.window += 1;
                self.order = true;
                return Some(Out::Order { sequence, order });
            }
            _ => {}
        }
        let out = match item {
            Item::Change(change) => {
                self.graph = Some(change.version);
                self.applying = Some(change.version);
                Out::Change(change)
            }
            Item::Graph(version) => {
                self.graph = Some(version);
                Out::Graph(version)
            }
            Item::Latest => {
                self.graph = Some(UNKNOWN);
                Out::Latest
            }
            Item::Joined(incarnation) => Out::Joined(incarnation),
            Item::Left => Out::Left,
            Item::Gap => Out::Gap(sequence),
            Item::Drained => Out::Drained(sequence),
            Item::Events { .. } | Item::Order { .. } | Item::Nothing => return None,
        };
        self.open(sequence, 0, None, 0, VecDeque::new());
        Some(out)
    }

    fn open(
        &mut self,
        sequence: u64,
        origin: u64,
        me: Option<u64>,
        counts: usize,
        waiting: VecDeque<Event>,
    ) {
        debug_assert!(self.open.back().is_none_or(|last| last.sequence <= sequence));
        debug_assert!(counts >= waiting.len() && counts <= RECORD_EVENTS_MAX);
        let counts = vec![None; counts];
        self.open.push_back(Open { sequence, origin, me, waiting, counts, posted: 0 });
    }

    /// The event at `sequence` and `index` was posted, or the order obeyed. Said twice, or
    /// of none, it changes nothing.
    pub(crate) fn posted(&mut self, sequence: u64, index: u16, count: u32) {
        let Some(open) = self.open.iter_mut().find(|open| open.sequence == sequence) else {
            return;
        };
        let (handed, index) = (open.handed(), usize::from(index));
        let place = open.counts.get_mut(index).filter(|place| index < handed && place.is_none());
        let Some(place) = place else { return };
        *place = Some(count);
        open.posted += 1;
        debug_assert!(open.posted <= handed && self.window > 0, "more is posted than handed out");
        self.window -= 1;
    }

    /// The audience of the event there cannot be read, so what is counted of its record is not
    /// true, and is told to nobody.
    pub(crate) fn unposted(&mut self, sequence: u64, index: u16) {
        if let Some(open) = self.open.iter_mut().find(|open| open.sequence == sequence) {
            open.me = None;
        }
        self.posted(sequence, index, 0);
    }

    /// The replica is at `version`. Whether that was waited for.
    pub(crate) fn graph(&mut self, version: u64) -> bool {
        self.applying.take_if(|applying| *applying <= version);
        let reached = self.graph.is_some_and(|wanted| wanted <= version);
        if reached {
            self.graph = None;
        }
        reached
    }

    /// The store of record was put back: the versions that wait here, or are waited for, are no
    /// part of its history.
    pub(crate) fn forget_changes(&mut self) {
        self.urgent.clear();
        self.applying = None;
        self.graph.take_if(|wanted| *wanted != UNKNOWN);
        for (_, _, item) in &mut self.read {
            if matches!(item, Item::Change(_) | Item::Graph(_)) {
                *item = Item::Nothing;
            }
        }
    }

    /// The version that was not known is `version`.
    pub(crate) fn latest(&mut self, version: u64) {
        if self.graph == Some(UNKNOWN) {
            self.graph = Some(version);
        }
    }

    /// The version of the graph that is waited for; [`UNKNOWN`] while nobody has said it.
    pub(crate) fn waits_for_graph(&self) -> Option<u64> {
        self.graph
    }

    /// Closes what is done at the front.
    fn close(&mut self, done: &mut Vec<Done>) {
        if self.graph.is_some() || !self.urgent.is_empty() {
            return;
        }
        while self.open.front().is_some_and(|open| open.posted == open.counts.len()) {
            // Nothing is open beside an order.
            self.order = false;
            let Some(open) = self.open.pop_front() else { return };
            debug_assert!(open.waiting.is_empty() && open.sequence >= self.applied);
            // A record of several items is done with its last one.
            let more = |&(next, ..): &(u64, usize, Item)| next == open.sequence;
            let same = self.open.front().is_some_and(|next| next.sequence == open.sequence);
            if !same && !self.read.front().is_some_and(more) {
                self.applied = self.applied.max(open.sequence);
            }
            let Open { sequence, origin, me, counts, .. } = open;
            if !counts.is_empty() {
                let counts: Vec<u32> = counts.into_iter().flatten().collect();
                debug_assert_eq!(counts.len(), open.posted, "one count stands for each event");
                done.push(Done { sequence, origin, me, counts });
            }
        }
    }
}

#[cfg(test)]
mod tests;
