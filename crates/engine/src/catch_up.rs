//! What a client that has come back is told of the time when it was away.

use std::sync::{Arc, Weak};

use hub::{ConnRef, Id};

use crate::Event;
use crate::limits::HELD_EVENT_BYTES;
use crate::past::Floors;

/// What was sent before a client came back, and what else it is told.
#[derive(Debug)]
pub(crate) struct CatchUp {
    pub(crate) target: ConnRef,
    /// Whose question it answers: of a connection that may have asked for another since.
    pub(crate) client: Weak<()>,
    /// The number up to which it has heard all, where that was found after it was held.
    pub(crate) heard: u64,
    /// In the order of their numbers.
    pub(crate) events: Vec<Arc<Event>>,
    /// Whether there may have been others.
    pub(crate) gap: bool,
    /// The number up to which these may be, where that is known.
    pub(crate) gap_up_to: u64,
    /// The number up to which nothing is missing then.
    pub(crate) up_to: u64,
    /// Whether nothing is missing behind it either: what comes now is all in the mailbox.
    pub(crate) whole: bool,
    /// Whether the client is told of it for the first time.
    pub(crate) is_first: bool,
    /// Above which number each id's last events stand, if it has asked for these.
    pub(crate) floors: Option<Floors>,
}

impl CatchUp {
    /// The bytes that are kept for it: it may be the last to have its events.
    pub(crate) fn bytes(&self) -> usize {
        let events = self.events.iter().map(|event| event.json().len() + HELD_EVENT_BYTES);
        let floors = self.floors.as_deref().map_or(0, size_of_val::<[(Id, u64)]>);
        size_of::<CatchUp>() + events.sum::<usize>() + floors
    }
}
