//! What this node brings into the log: a queue, and one batch of it in flight.
//!
//! What is submitted while a batch is on its way is the next batch. A batch is published with the
//! same message id until the log acknowledges it; then the next one goes, so batches of one node
//! are in the log in their order. Only when a batch has been *read* from the log it is settled, and
//! it is settled, too, by this node's own leave: what was not read by then will never count (see
//! [`crate::roster`]), and goes back to the front of the queue.
//!
//! Senders wait ten seconds. Who is told "may still be sent" then is told the truth: its batch
//! stays in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::action::{MessageId, Outcome, Published, Ticket};
use crate::limits::{
    ACK_TIMEOUT_MS, ACKED_AGAIN_MS, BACK_MAX, EVENT_BYTES_MAX, OUTSTANDING_MAX, PROVE_MS,
    QUEUE_BYTES_MAX, QUEUE_MAX, RECORD_BYTES_MAX, RECORD_EVENTS_MAX, RECORD_HEAD_BYTES,
    SEND_DEADLINE_MS,
};
use crate::record::{Body, Event, Head, Order, Record};
use crate::room_note::RoomNote;

/// Why something is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotTaken {
    /// So much waits for the log already that more would wait in vain: 503, nothing was sent.
    #[error("too much waits for the log already: try again later")]
    Full,
    /// It is longer than a record: 413.
    #[error("an event among many nodes has at most {} bytes", crate::limits::EVENT_BYTES_MAX)]
    TooLarge,
    /// The node is leaving, or has ended: 503.
    #[error("this node is leaving: try another one")]
    Leaving,
}

/// A message that is published again and again until it is known to be in the log.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) id: MessageId,
    record: Arc<[u8]>,
    next_ms: u64,
    /// Where the log says that it is.
    acked: Option<u64>,
}

impl Attempt {
    pub(crate) fn new(now_ms: u64, id: String, record: Vec<u8>) -> Attempt {
        Attempt { id: MessageId(id), record: record.into(), next_ms: now_ms, acked: None }
    }

    /// When it is to be published again.
    pub(crate) fn deadline(&self) -> u64 {
        self.next_ms
    }

    /// The message, if it is time.
    pub(crate) fn due(&mut self, now_ms: u64) -> Option<(MessageId, Arc<[u8]>)> {
        if now_ms < self.next_ms {
            return None;
        }
        let wait_ms = if self.acked.is_some() { ACKED_AGAIN_MS } else { ACK_TIMEOUT_MS };
        self.next_ms = now_ms + wait_ms;
        Some((self.id.clone(), Arc::clone(&self.record)))
    }

    /// Where the log says that it is.
    pub(crate) fn acked(&self) -> Option<u64> {
        self.acked
    }

    /// Whether it is known to be in what was read of the log.
    pub(crate) fn is_at(&self, read: u64) -> bool {
        self.acked.is_some_and(|acked| acked <= read)
    }

    /// What came of an attempt.
    pub(crate) fn published(&mut self, now_ms: u64, outcome: Published) {
        match outcome {
            Published::At(sequence) => {
                self.acked = Some(sequence);
                self.next_ms = now_ms + ACKED_AGAIN_MS;
            }
            // What is refused at once is not tried again at once.
            Published::Refused if self.acked.is_none() => self.next_ms = now_ms + ACK_TIMEOUT_MS,
            Published::Timeout if self.acked.is_none() => self.next_ms = now_ms,
            Published::Refused | Published::Timeout => {}
        }
    }
}

/// Something that waits for the log, and its sender while that waits.
#[derive(Debug)]
struct Queued {
    ticket: Option<Ticket>,
    deadline_ms: u64,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    Event(Event),
    Order(Order),
}

impl Queued {
    fn bytes(&self) -> usize {
        match &self.what {
            What::Event(event) => event.bytes(),
            What::Order(order) => order.bytes(),
        }
    }
}

/// A batch that is not settled.
#[derive(Debug)]
struct Batch {
    incarnation: u64,
    batch: u64,
    made_ms: u64,
    attempt: Attempt,
    entries: Vec<Queued>,
}

/// A batch that was read.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Settled {
    /// Nothing of it was in the log before.
    pub(crate) made_ms: u64,
    /// Its senders, in the order of its events.
    pub(crate) tickets: Vec<Option<Ticket>>,
}

/// The queue and what is in flight.
#[derive(Debug, Default)]
pub(crate) struct Publisher {
    queue: VecDeque<Queued>,
    queue_bytes: usize,
    outstanding: VecDeque<Batch>,
    /// The last that went back to the queue, and what had been read by then: the log cannot have
    /// them there or before.
    back: VecDeque<(MessageId, u64)>,
    /// It says so nevertheless.
    contradicted: bool,
    last_ticket: u64,
    last_batch: u64,
    /// When a batch without events is made, where one is wanted.
    prove_ms: u64,
    /// What is to be said of rooms: a batch by itself, in turn with all others.
    rooms: Option<Vec<RoomNote>>,
    said_rooms: bool,
}

/// A sender and what it is told.
pub(crate) type TicketOutcome = (Ticket, Outcome);

impl Publisher {
    pub(crate) fn submit(&mut self, now_ms: u64, event: Event) -> Result<Ticket, NotTaken> {
        if event.bytes() > EVENT_BYTES_MAX {
            return Err(NotTaken::TooLarge);
        }
        self.queue(now_ms, What::Event(event))
    }

    pub(crate) fn submit_order(&mut self, now_ms: u64, order: Order) -> Result<Ticket, NotTaken> {
        self.queue(now_ms, What::Order(order))
    }

    fn queue(&mut self, now_ms: u64, what: What) -> Result<Ticket, NotTaken> {
        let deadline_ms = now_ms + SEND_DEADLINE_MS;
        let ticket = Ticket(self.last_ticket + 1);
        debug_assert_eq!(self.queue.is_empty(), self.queue_bytes == 0);
        let last = self.queue.back().and_then(|last| last.ticket);
        debug_assert!(last < Some(ticket), "a sender's events keep their order");
        let queued = Queued { ticket: Some(ticket), deadline_ms, what };
        let bytes = self.queue_bytes + queued.bytes();
        if self.queue.len() >= QUEUE_MAX || bytes > QUEUE_BYTES_MAX {
            return Err(NotTaken::Full);
        }
        self.last_ticket += 1;
        self.queue_bytes = bytes;
        self.queue.push_back(queued);
        Ok(ticket)
    }

    /// Says this of rooms; `false` where something of that waits already. It counts for the present
    /// incarnation alone.
    pub(crate) fn submit_rooms(&mut self, notes: Vec<RoomNote>) -> bool {
        debug_assert!(!notes.is_empty());
        let is_free = self.rooms.is_none();
        if is_free {
            self.rooms = Some(notes);
        }
        is_free
    }

    /// Makes the next batch, if none is on its way: `head` says who publishes. Whoever `proves`
    /// what it has read makes one now and then without events.
    pub(crate) fn fill(&mut self, now_ms: u64, mut head: Head, proves: bool) {
        debug_assert!(
            self.outstanding.iter().rev().skip(1).all(|batch| batch.attempt.acked.is_some()),
            "batches of one node are in the log in their order"
        );
        let on_its_way = self.outstanding.back().is_some_and(|last| last.attempt.acked.is_none());
        let proof = proves && self.outstanding.is_empty() && self.prove_ms <= now_ms;
        let idle = self.queue.is_empty() && self.rooms.is_none() && !proof;
        if on_its_way || self.outstanding.len() >= OUTSTANDING_MAX || idle {
            return;
        }
        self.prove_ms = now_ms + PROVE_MS;
        let (entries, body) = self.take_body();
        self.last_batch += 1;
        head.batch = self.last_batch;
        let (incarnation, batch) = (head.incarnation, head.batch);
        let record = Record { head, body }.encode();
        debug_assert!(
            record.len() <= RECORD_BYTES_MAX,
            "no node would read {} bytes",
            record.len()
        );
        let attempt = Attempt::new(now_ms, format!("{incarnation}.{batch}"), record);
        let made_ms = now_ms;
        self.outstanding.push_back(Batch { incarnation, batch, made_ms, attempt, entries });
    }

    /// What the next batch says, and who has sent it.
    fn take_body(&mut self) -> (Vec<Queued>, Body) {
        let is_turn = self.queue.is_empty() || !self.said_rooms;
        let rooms = self.rooms.take_if(|_| is_turn);
        self.said_rooms = rooms.is_some();
        if let Some(notes) = rooms {
            return (Vec::new(), Body::Rooms(notes));
        }
        let entries = self.take();
        let body = match &entries[..] {
            [Queued { what: What::Order(order), .. }] => Body::Order(order.clone()),
            events => Body::Events(events.iter().filter_map(Queued::event).collect()),
        };
        if let Body::Events(events) = &body {
            assert_eq!(events.len(), entries.len(), "each event has its sender at its place");
        }
        (entries, body)
    }

    /// The events at the front that fit into a record, or an order.
    fn take(&mut self) -> Vec<Queued> {
        let (mut taken, mut bytes) = (Vec::new(), RECORD_HEAD_BYTES);
        while let Some(next) = self.queue.front() {
            let order = matches!(next.what, What::Order(_));
            let full = taken.len() >= RECORD_EVENTS_MAX || bytes + next.bytes() > RECORD_BYTES_MAX;
            if !taken.is_empty() && (order || full) {
                break;
            }
            bytes += next.bytes();
            self.queue_bytes -= next.bytes();
            taken.extend(self.queue.pop_front());
            if order {
                break;
            }
        }
        debug_assert!(taken.len() <= RECORD_EVENTS_MAX);
        debug_assert_eq!(self.queue.is_empty(), self.queue_bytes == 0);
        taken
    }

    /// A batch of this node was read at a sequence and counts. `None` when it is none that is in
    /// flight.
    pub(crate) fn settle(&mut self, incarnation: u64, batch: u64) -> Option<Settled> {
        let is = |one: &Batch| one.incarnation == incarnation && one.batch == batch;
        let place = self.outstanding.iter().position(is)?;
        let Batch { made_ms, entries, .. } = self.outstanding.remove(place)?;
        let tickets = entries.into_iter().map(|entry| entry.ticket).collect();
        Some(Settled { made_ms, tickets })
    }

    /// Nothing in flight will count any more: it waits again, at the front and in its order, but
    /// for what nobody waits for.
    pub(crate) fn requeue(&mut self, read: u64) {
        (self.prove_ms, self.rooms) = (0, None);
        while let Some(batch) = self.outstanding.pop_back() {
            self.back.push_back((batch.attempt.id, read));
            for entry in batch.entries.into_iter().rev().filter(|entry| entry.ticket.is_some()) {
                self.queue_bytes += entry.bytes();
                self.queue.push_front(entry);
            }
        }
        debug_assert_eq!(self.queue.is_empty(), self.queue_bytes == 0);
        debug_assert!(self.queue.len() <= QUEUE_MAX + OUTSTANDING_MAX * RECORD_EVENTS_MAX);
        while self.back.len() > BACK_MAX {
            self.back.pop_front();
        }
    }

    /// Nobody will ever know of what is in flight.
    pub(crate) fn abandon(&mut self, told: &mut Vec<TicketOutcome>) {
        (self.prove_ms, self.rooms) = (0, None);
        self.back.clear();
        self.contradicted = false;
        debug_assert!(self.outstanding.len() <= OUTSTANDING_MAX);
        for batch in self.outstanding.drain(..) {
            let tickets = batch.entries.into_iter().filter_map(|entry| entry.ticket);
            told.extend(tickets.map(|ticket| (ticket, Outcome::MayBeSent)));
        }
    }

    /// Nothing goes any more: all are told.
    pub(crate) fn end(&mut self, told: &mut Vec<TicketOutcome>) {
        self.abandon(told);
        self.queue_bytes = 0;
        let tickets = self.queue.drain(..).filter_map(|entry| entry.ticket);
        told.extend(tickets.map(|ticket| (ticket, Outcome::NotSent)));
    }

    pub(crate) fn published(&mut self, now_ms: u64, id: &MessageId, outcome: Published) {
        if let Some(batch) = self.outstanding.iter_mut().find(|batch| batch.attempt.id == *id) {
            batch.attempt.published(now_ms, outcome);
        } else if let Published::At(at) = outcome {
            self.contradicted |= self.back.iter().any(|(back, read)| back == id && at <= *read);
        }
    }

    /// Whether the log has acknowledged a batch at `sequence` or before, which was not read there.
    pub(crate) fn misses(&self, sequence: u64) -> bool {
        let is_there = |batch: &Batch| batch.attempt.is_at(sequence);
        self.contradicted || self.outstanding.iter().any(is_there)
    }

    /// The greatest sequence that was acknowledged.
    pub(crate) fn acked(&self) -> u64 {
        self.outstanding.iter().filter_map(|batch| batch.attempt.acked).max().unwrap_or(0)
    }

    /// Tells the senders whose time is over, and says what is to be published.
    pub(crate) fn tick(
        &mut self,
        now_ms: u64,
        told: &mut Vec<TicketOutcome>,
        out: &mut Vec<(MessageId, Arc<[u8]>)>,
    ) {
        while let Some(entry) = self.queue.front().filter(|entry| entry.deadline_ms <= now_ms) {
            self.queue_bytes -= entry.bytes();
            let ticket = self.queue.pop_front().and_then(|entry| entry.ticket);
            told.extend(ticket.map(|ticket| (ticket, Outcome::NotSent)));
        }
        for batch in &mut self.outstanding {
            for entry in batch.entries.iter_mut().filter(|entry| entry.deadline_ms <= now_ms) {
                told.extend(entry.ticket.take().map(|ticket| (ticket, Outcome::MayBeSent)));
            }
            out.extend(batch.attempt.due(now_ms));
        }
    }

    pub(crate) fn deadline(&self) -> Option<u64> {
        let waiting = |entry: &&Queued| entry.ticket.is_some();
        let queued = self.queue.front().map(|entry| entry.deadline_ms);
        let batches = self.outstanding.iter().flat_map(|batch| {
            let entry = batch.entries.iter().find(waiting).map(|entry| entry.deadline_ms);
            [Some(batch.attempt.deadline()), entry]
        });
        batches.flatten().chain(queued).min()
    }

    /// When a batch without events is due, if nothing else is in flight.
    pub(crate) fn prove_deadline(&self) -> Option<u64> {
        self.outstanding.is_empty().then_some(self.prove_ms)
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.outstanding.len()
    }
}

impl Queued {
    fn event(&self) -> Option<Event> {
        match &self.what {
            What::Event(event) => Some(event.clone()),
            What::Order(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
