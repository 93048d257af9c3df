//! How an event comes into the [archive](Archive), as the router sees it.

use thiserror::Error;

use crate::archive::Archive;
use crate::event::{Draft, Event};

/// Writes down the events of the subjects that are kept.
///
/// Room is reserved before an event has its number, as in one more mailbox; then it is appended
/// without a wait, in the order of the numbers.
pub trait EventStore<F>: Archive<F> {
    /// Room for what `draft` becomes; `None` when none of its subjects is kept. Never waits.
    ///
    /// # Errors
    ///
    /// There is no room, and nothing of this event may be posted.
    fn reserve(&self, draft: &Draft) -> Result<Option<Box<dyn KeepRoom<F> + '_>>, NoRoomToKeep>;

    /// Whether each event that is kept is answered when it is on disk, whatever its sender asks.
    fn is_always_durable(&self) -> bool;

    /// Calls `done` once all events up to the number are on disk, or that has failed: they were
    /// posted then, and it is not known whether they will be kept. Never waits.
    fn when_durable(&self, number: u64, done: WhenDurable);
}

/// What is called when events are on disk (`true`), or it is not known whether they are.
pub type WhenDurable = Box<dyn FnOnce(bool) + Send>;

/// Room for one event. Dropped unused it is given back.
pub trait KeepRoom<F> {
    /// Writes the event down, which was sent at `sent_ms` since 1970. Its number is above that of
    /// all events before it. One that was written down before a restart is passed over.
    fn append(self: Box<Self>, event: &Event<F>, sent_ms: u64);
}

/// Why an event cannot be kept now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum NoRoomToKeep {
    /// More waits for the disk than may: try again a little later.
    #[error("too many events wait for the disk")]
    Queue,
    /// The disk is full or fails, or the log is another process's by now.
    #[error("the disk of the log is full or fails")]
    Disk,
}
