//! A page of the events of one subject: what is asked for, and what it is answered, be it out of
//! the memory or of an archive.

use std::sync::Arc;

use crate::event::Event;

/// Which events of a subject a page is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageOf {
    /// Those above this number; 0 is all.
    pub after: u64,
    /// Those below this number; [`u64::MAX`] is all.
    pub before: u64,
    /// From the newest one to the oldest one.
    pub newest_first: bool,
    /// How many at most.
    pub events_max: usize,
    /// How many bytes their lines have together at most; the first one always has room.
    pub bytes_max: usize,
}

/// A page of them.
#[derive(Debug)]
pub struct Page<F> {
    /// In the order that was asked for.
    pub events: Vec<Arc<Event<F>>>,
    /// Whether there are more behind them.
    pub has_more: bool,
    /// Whether all that there were above `after` are still remembered.
    pub covered: bool,
}

/// Which events are to be looked for among all that are kept about keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeptUpdatesOf {
    /// Those above this number; 0 is all.
    pub after: u64,
    /// None of them is above this number.
    pub up_to: u64,
    /// Whether it must be known at once whether some may be missing, and not where the first one of
    /// them is met.
    pub is_claimed: bool,
    /// How many at most.
    pub events_max: usize,
    /// How many bytes their lines have together at most; the first one always has room.
    pub bytes_max: usize,
    /// As how many bytes that are looked at all those count at most that are looked through.
    pub looks_max: usize,
}

/// What was found of them.
#[derive(Debug)]
pub struct KeptUpdatesPage<F> {
    /// In the order of their numbers.
    pub events: Vec<Arc<Event<F>>>,
    /// All up to this number were looked through: as far as was asked, or as there was room.
    pub up_to: u64,
    /// Whether all are there that there were between `after` and there.
    pub covered: bool,
}
