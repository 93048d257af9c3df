//! What the control plane of the process that takes says to its workers, and hears of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::facts;
use crate::counters::Total;

/// What the workers are to do. Said once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum TakeoverCommand {
    Take = 0,
    Serve = 1,
    /// Close all that has come, which the other still has, and end.
    Drop = 2,
}

/// What both sides of it see.
pub(crate) struct TakeoverState {
    pub(crate) dir: PathBuf,
    /// How many workers give.
    pub(crate) senders: usize,
    pub(crate) receivers: usize,
    /// Ordering: the totals are seen with it (release, acquire).
    command: AtomicU8,
    workers: Box<[TakenOver]>,
    failed: OnceLock<String>,
    totals: OnceLock<Vec<Total>>,
}

/// What a worker has come to. Ordering: the number is seen with `is_all`.
#[derive(Default)]
struct TakenOver {
    connections: AtomicU64,
    is_all: AtomicU8,
}

impl TakeoverState {
    pub(crate) fn new(dir: PathBuf, senders: usize, receivers: usize) -> TakeoverState {
        TakeoverState {
            dir,
            senders,
            receivers,
            command: AtomicU8::new(TakeoverCommand::Take as u8),
            workers: (0..receivers).map(|_| TakenOver::default()).collect(),
            failed: OnceLock::new(),
            totals: OnceLock::new(),
        }
    }

    /// Whether each worker takes what its like gives.
    pub(crate) fn is_one_to_one(&self) -> bool {
        self.senders == self.receivers
    }

    pub(crate) fn command(&self) -> TakeoverCommand {
        match self.command.load(Ordering::Acquire) {
            0 => TakeoverCommand::Take,
            1 => TakeoverCommand::Serve,
            _ => TakeoverCommand::Drop,
        }
    }

    /// A worker has all that it is to have.
    pub(super) fn note_all(&self, worker: usize, connections: u64) {
        self.workers[worker].connections.store(connections, Ordering::Relaxed);
        self.workers[worker].is_all.store(1, Ordering::Release);
    }

    /// It cannot be done. The first reason counts.
    pub(super) fn fail(&self, why: String) {
        let _ = self.failed.set(why);
    }

    /// What the other process has counted, when this one serves.
    pub(crate) fn totals(&self) -> &[Total] {
        self.totals.get().map_or(&[], |totals| totals)
    }

    fn received(&self) -> u64 {
        self.workers.iter().map(|worker| worker.connections.load(Ordering::Relaxed)).sum()
    }
}

/// Connections on their way from another process. Dropped before they are
/// [served](Takeover::serve), they are given up: the other has them still.
pub struct Takeover(pub(crate) Arc<TakeoverState>);

impl Takeover {
    /// `None` until all workers have all that they are to have; then how many connections that is,
    /// or why it cannot be done.
    pub fn received(&self) -> Option<Result<u64, String>> {
        if let Some(why) = self.0.failed.get() {
            return Some(Err(why.clone()));
        }
        let mut workers = self.0.workers.iter();
        let all = workers.all(|worker| worker.is_all.load(Ordering::Acquire) > 0);
        all.then(|| Ok(self.0.received()))
    }

    /// Serves them from now on. What the other has counted, `totals`, is counted on.
    pub fn serve(&self, mut totals: Vec<Total>) {
        facts::leave_open_out(&mut totals);
        let _ = self.0.totals.set(totals);
        self.command(TakeoverCommand::Serve);
    }

    fn command(&self, command: TakeoverCommand) {
        let (take, command) = (TakeoverCommand::Take as u8, command as u8);
        let _ = self.0.command.compare_exchange(take, command, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl Drop for Takeover {
    fn drop(&mut self) {
        self.command(TakeoverCommand::Drop);
    }
}
