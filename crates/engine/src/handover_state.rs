//! What the workers of a process that hands its connections over are told, and tell: see
//! [`handover`](crate::handover).

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

/// What the workers are to do. The numbers grow: nothing is taken back but by [`Command::GoOn`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
#[repr(u8)]
pub(crate) enum Command {
    /// Send copies of descriptors, and serve.
    Copy = 0,
    /// Finish the mail, write all down, and stop.
    Freeze = 1,
    /// Serve as before.
    GoOn = 2,
    /// All is another's: forget it and end.
    Leave = 3,
}

/// What both sides of it see.
pub(crate) struct HandoverState {
    /// Where the sockets of those who take are.
    pub(crate) dir: PathBuf,
    pub(crate) receivers: usize,
    /// Ordering: what was told before a command is seen with it (release, acquire).
    pub(crate) command: AtomicU8,
    pub(crate) workers: Box<[Progress]>,
    pub(crate) failed: OnceLock<String>,
    /// Workers that have gone, one after the other. Ordering: relaxed, only the number counts.
    pub(crate) gone: AtomicUsize,
    /// The workers before this one may copy. Ordering: relaxed, since who sees it late is woken for
    /// it.
    pub(crate) copiers: AtomicUsize,
    /// How many copy at a time: as many as there are cores, or every thread that is to do something
    /// else, such as to send an event, waits for all of them and for all who take.
    pub(crate) copiers_max: usize,
    /// Streams of the hub are not handed over: whoever takes would not understand them. Ordering:
    /// relaxed, since it is said before the command by which it counts.
    pub(crate) leaves_hub_out: AtomicBool,
}

/// How far a worker has come. Ordering: relaxed, but for `is_written`, behind which nothing of the
/// worker's follows.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) copied: AtomicU64,
    pub(crate) connections: AtomicU64,
    pub(crate) is_copied: AtomicU8,
    pub(crate) written: AtomicU64,
    pub(crate) is_written: AtomicU8,
}

impl HandoverState {
    pub(crate) fn command(&self) -> Command {
        match self.command.load(Ordering::Acquire) {
            0 => Command::Copy,
            1 => Command::Freeze,
            2 => Command::GoOn,
            _ => Command::Leave,
        }
    }

    /// Whether streams of the hub are handed over, once all is to be written.
    pub(crate) fn takes_hub(&self) -> bool {
        !self.leaves_hub_out.load(Ordering::Relaxed)
    }

    /// How many workers give.
    pub(crate) fn senders(&self) -> usize {
        self.workers.len()
    }

    /// How many workers have gone.
    pub(crate) fn gone(&self) -> usize {
        self.gone.load(Ordering::Relaxed)
    }

    /// Whether it is the turn of `worker` to copy, or was.
    pub(crate) fn may_copy(&self, worker: usize) -> bool {
        worker < self.copiers.load(Ordering::Relaxed)
    }

    /// Another one has.
    pub(crate) fn note_gone(&self) {
        self.gone.fetch_add(1, Ordering::Relaxed);
    }

    /// A worker has sent so many copies, and has so many connections.
    pub(crate) fn note_copied(&self, worker: usize, copied: u64, connections: u64, done: bool) {
        let progress = &self.workers[worker];
        progress.copied.store(copied, Ordering::Relaxed);
        progress.connections.store(connections, Ordering::Relaxed);
        progress.is_copied.store(u8::from(done), Ordering::Relaxed);
    }

    /// A worker has written all down that it has.
    pub(crate) fn note_written(&self, worker: usize, connections: u64) {
        let progress = &self.workers[worker];
        progress.written.store(connections, Ordering::Relaxed);
        progress.is_written.store(1, Ordering::Release);
    }

    /// It cannot be done. The first reason counts.
    pub(crate) fn fail(&self, why: String) {
        let _ = self.failed.set(why);
    }
}
