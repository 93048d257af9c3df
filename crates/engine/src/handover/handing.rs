//! What the control plane of the process that gives says to its workers, and hears of them.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::handover_state::{Command, HandoverState, Progress};
use crate::mailbox::{Mailbox, Order};

/// Connections on their way to another process.
///
/// Copies of their descriptors cross while they are served. Then: [`freeze`](Handover::freeze), and
/// when all is [written](Handover::written) either [`go_on`](Handover::go_on) or
/// [`leave`](Handover::leave). Dropped before that, the workers go on.
pub struct Handover {
    handover: Arc<HandoverState>,
    mailboxes: Arc<[Arc<Mailbox>]>,
}

/// How far the copies have come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Copying {
    /// Descriptors that have crossed.
    pub copied: u64,
    /// Connections that there are.
    pub of: u64,
    /// Every connection has had its turn.
    pub done: bool,
    /// Why it cannot be done.
    pub failed: Option<String>,
}

impl Handover {
    pub(crate) fn begin(
        dir: PathBuf,
        receivers: usize,
        workers: usize,
        copiers_max: usize,
        mailboxes: Arc<[Arc<Mailbox>]>,
    ) -> Handover {
        let handover = HandoverState {
            dir,
            receivers,
            command: AtomicU8::new(Command::Copy as u8),
            workers: (0..workers).map(|_| Progress::default()).collect(),
            failed: OnceLock::new(),
            gone: AtomicUsize::new(0),
            copiers: AtomicUsize::new(copiers_max),
            copiers_max,
            leaves_hub_out: AtomicBool::new(false),
        };
        let handover = Handover { handover: Arc::new(handover), mailboxes };
        handover.wake();
        handover
    }

    /// How far the copies have come; wakes those whose turn to copy comes by that, so it is to be
    /// asked until all are done. (Workers cannot: each knows its own descriptors alone.)
    pub fn progress(&self) -> Copying {
        self.next_copiers();
        let workers = &self.handover.workers;
        let sum = |of: fn(&Progress) -> &AtomicU64| {
            workers.iter().map(|progress| of(progress).load(Ordering::Relaxed)).sum()
        };
        Copying {
            copied: sum(|progress| &progress.copied),
            of: sum(|progress| &progress.connections),
            done: workers.iter().all(|progress| progress.is_copied.load(Ordering::Relaxed) > 0),
            failed: self.handover.failed.get().cloned(),
        }
    }

    /// Has the workers keep streams of the hub for themselves: to be said before they
    /// [freeze](Handover::freeze), of one who takes and does not know such streams. Their clients
    /// come back.
    pub fn leave_hub_out(&self) {
        self.handover.leaves_hub_out.store(true, Ordering::Relaxed);
    }

    /// Has the workers finish their mail, write down every connection, and stop. Nobody may send
    /// meanwhile, or they never come to the end of it.
    pub fn freeze(&self) {
        self.command(Command::Freeze);
    }

    /// `None` until all workers have written down all that they have; then how many connections
    /// that is, or why it cannot be done.
    pub fn written(&self) -> Option<Result<u64, String>> {
        if let Some(why) = self.handover.failed.get() {
            return Some(Err(why.clone()));
        }
        let workers = &self.handover.workers;
        let written =
            workers.iter().all(|progress| progress.is_written.load(Ordering::Acquire) > 0);
        let connections = workers.iter().map(|progress| progress.written.load(Ordering::Relaxed));
        written.then(|| Ok(connections.sum()))
    }

    /// Has the workers serve on, as if nothing had been: whoever was to take all has not, and never
    /// will. Does nothing once they leave.
    pub fn go_on(&self) {
        self.command(Command::GoOn);
    }

    /// Has the workers forget all that they have, which is another's now, and end.
    /// [`Engine::drain`](crate::Engine::drain) waits for that.
    pub fn leave(&self) {
        self.command(Command::Leave);
    }

    fn next_copiers(&self) {
        let HandoverState { workers, copiers, copiers_max, .. } = &*self.handover;
        let is_copied = |worker: &&Progress| worker.is_copied.load(Ordering::Relaxed) > 0;
        let end = workers.len().min(workers.iter().filter(is_copied).count() + copiers_max);
        // Whoever has newcomers is not done any more, which is no reason to take a turn back.
        let before = copiers.fetch_max(end, Ordering::Relaxed);
        for mailbox in self.mailboxes.iter().take(end).skip(before) {
            mailbox.post_order(Order::Handover(Arc::clone(&self.handover)));
        }
    }

    fn command(&self, command: Command) {
        let later = |before| {
            (before < command as u8 && before != Command::GoOn as u8).then_some(command as u8)
        };
        let command = &self.handover.command;
        let _ = command.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
        self.wake();
    }

    fn wake(&self) {
        for mailbox in self.mailboxes.iter().take(self.handover.workers.len()) {
            mailbox.post_order(Order::Handover(Arc::clone(&self.handover)));
        }
    }
}

impl Drop for Handover {
    fn drop(&mut self) {
        if self.handover.command() != Command::Leave {
            self.go_on();
        }
    }
}
