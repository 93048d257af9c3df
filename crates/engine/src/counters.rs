//! What each worker counts. A worker alone writes its counters, anybody may read them.

use hub::{Bound, DisconnectReason, TokenRefusal};
use proto::Transport;

use crate::count::SingleWriterCount;
use crate::tls_figures::{TlsCounters, TlsSnapshot};
use crate::turns::{TurnSnapshot, TurnTimes};

/// One of the sums that go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Total {
    /// What is counted.
    pub name: String,
    /// How much.
    pub value: u64,
}

/// One worker's counters, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) opened: SingleWriterCount,
    pub(crate) closed: [SingleWriterCount; DisconnectReason::COUNT],
    pub(crate) streams_opened: [SingleWriterCount; Transport::COUNT],
    pub(crate) streams_closed: [SingleWriterCount; Transport::COUNT],
    pub(crate) deliveries: SingleWriterCount,
    pub(crate) dropped: SingleWriterCount,
    pub(crate) keepalives: SingleWriterCount,
    /// Clients that were told in mid-stream that events are missing.
    pub(crate) gaps: SingleWriterCount,
    pub(crate) writes: SingleWriterCount,
    pub(crate) bytes_sent: SingleWriterCount,
    pub(crate) turns: TurnTimes,
    /// 1 while the worker has no room for another connection, and the kernel knows it.
    pub(crate) full: SingleWriterCount,
    /// How often the kernel gave no descriptor or memory for another client.
    pub(crate) shortages: SingleWriterCount,
    pub(crate) tls: TlsCounters,
    /// Tokens refused, by [`TokenRefusal`] as index, and requests without one.
    pub(crate) token_refusals: [SingleWriterCount; TokenRefusal::ALL.len()],
    pub(crate) tokens_missing: SingleWriterCount,
    /// Log-ins under ids that the token does not grant.
    pub(crate) ids_not_granted: SingleWriterCount,
    /// How often a client met a bound on what one address or one id may have.
    pub(crate) bounds: [SingleWriterCount; Bound::COUNT],
}

impl Counters {
    /// Closed before opened, streams' ends before their starts: so a difference is never negative.
    pub(crate) fn snapshot(&self) -> WorkerSnapshot {
        let closed = std::array::from_fn(|reason| self.closed[reason].read());
        let streams_closed: [u64; Transport::COUNT] =
            std::array::from_fn(|transport| self.streams_closed[transport].read());
        let opened = self.opened.read();
        WorkerSnapshot {
            connections_open: opened.saturating_sub(closed.iter().sum()),
            opened,
            closed,
            streams_open: std::array::from_fn(|transport| {
                self.streams_opened[transport].read().saturating_sub(streams_closed[transport])
            }),
            deliveries: self.deliveries.read(),
            dropped: self.dropped.read(),
            keepalives: self.keepalives.read(),
            gaps: self.gaps.read(),
            writes: self.writes.read(),
            bytes_sent: self.bytes_sent.read(),
            turns: self.turns.snapshot(),
            full: self.full.read(),
            shortages: self.shortages.read(),
            token_refusals: std::array::from_fn(|index| self.token_refusals[index].read()),
            tokens_missing: self.tokens_missing.read(),
            ids_not_granted: self.ids_not_granted.read(),
            bounds: std::array::from_fn(|bound| self.bounds[bound].read()),
            mails_waiting: 0,
            tls: self.tls.snapshot(),
        }
    }
}

/// One worker's figures at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct WorkerSnapshot {
    /// Connections open now, streams or not.
    pub connections_open: u64,
    /// Connections accepted since start.
    pub opened: u64,
    /// Connections ended since start, by [`DisconnectReason`] as index.
    pub closed: [u64; DisconnectReason::COUNT],
    /// Streams logged in now, by [`Transport`] as index.
    pub streams_open: [u64; Transport::COUNT],
    /// Events handed to connections since start.
    pub deliveries: u64,
    /// Deliveries that met their connection too late or found it too slow, since start.
    pub dropped: u64,
    /// Keep-alives sent since start.
    pub keepalives: u64,
    /// Clients told in mid-stream that events are missing, since start. A resume's gaps are none of
    /// them.
    pub gaps: u64,
    /// Write calls since start.
    pub writes: u64,
    /// Bytes that the kernel took since start.
    pub bytes_sent: u64,
    /// Turns of the loop since start.
    pub turns: TurnSnapshot,
    /// Workers without room for another connection now: 1 or 0 of one.
    pub full: u64,
    /// How often the kernel gave no descriptor or memory for another client, since start.
    pub shortages: u64,
    /// Tokens refused since start, by [`TokenRefusal`] as index.
    pub token_refusals: [u64; TokenRefusal::ALL.len()],
    /// Requests without a token, where one is needed, since start.
    pub tokens_missing: u64,
    /// Log-ins refused since start because a token does not grant an id.
    pub ids_not_granted: u64,
    /// How often a client met a bound on what one address or one id may have, since start, by
    /// [`Bound`] as index.
    pub bounds: [u64; Bound::COUNT],
    /// Mails in the mailbox now.
    pub mails_waiting: u64,
    /// What TLS has come to.
    pub tls: TlsSnapshot,
}

/// The figures of all workers at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// In the order of the workers.
    pub workers: Vec<WorkerSnapshot>,
    /// Bytes that are kept for all connections now: of what clients have sent and is not dealt
    /// with, and of what they do not take.
    pub buffered_bytes: u64,
}

impl Snapshot {
    /// The sum over all workers.
    pub fn whole(&self) -> WorkerSnapshot {
        let mut whole = WorkerSnapshot::default();
        for worker in &self.workers {
            whole.connections_open += worker.connections_open;
            whole.opened += worker.opened;
            whole.deliveries += worker.deliveries;
            whole.dropped += worker.dropped;
            whole.keepalives += worker.keepalives;
            whole.gaps += worker.gaps;
            whole.writes += worker.writes;
            whole.bytes_sent += worker.bytes_sent;
            whole.turns.merge(&worker.turns);
            whole.full += worker.full;
            whole.shortages += worker.shortages;
            whole.tokens_missing += worker.tokens_missing;
            whole.ids_not_granted += worker.ids_not_granted;
            add_each(&mut whole.token_refusals, &worker.token_refusals);
            whole.mails_waiting += worker.mails_waiting;
            whole.tls.add(&worker.tls);
            add_each(&mut whole.closed, &worker.closed);
            add_each(&mut whole.bounds, &worker.bounds);
            add_each(&mut whole.streams_open, &worker.streams_open);
        }
        whole
    }
}

fn add_each(sums: &mut [u64], values: &[u64]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}
