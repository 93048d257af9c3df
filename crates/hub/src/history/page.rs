//! The events of one subject a page at a time, from either end.
//!
//! Cost: the lock is held for a page, which has its bounds, and some steps to find where it begins.

use std::sync::Arc;

use super::{History, PagePart};
use crate::event::Event;
use crate::id::Id;

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

impl<F> History<F> {
    /// A page of the events about `subject`.
    pub fn page(&self, subject: Id, of: PageOf) -> Page<F> {
        self.page_part(subject, of).page
    }

    /// The same, as a part of a page that an [`Archive`](crate::Archive) makes whole.
    pub fn page_part(&self, subject: Id, of: PageOf) -> PagePart<F> {
        let PageOf { after, before, newest_first, events_max, bytes_max } = of;
        let state = self.lock();
        let lost = self.lost(&state, subject, after);
        let covered = after >= lost;
        let mut found = state.kept.events_between(subject, after.max(state.floor), before);
        let mut next = || if newest_first { found.next_back() } else { found.next() };
        let (mut events, mut bytes) = (Vec::new(), 0);
        let has_more = loop {
            let Some(event) = next() else { break false };
            bytes += event.json().len();
            if events.len() >= events_max || bytes > bytes_max && !events.is_empty() {
                break true;
            }
            events.push(Arc::clone(event));
        };
        PagePart { page: Page { events, has_more, covered }, lost, of }
    }

    /// The number above which the last `most` of the events about `subject` stand that are not
    /// above the number `up_to`; `None` where no more of them are remembered.
    pub fn before_last(&self, subject: Id, most: usize, up_to: u64) -> Option<u64> {
        let state = self.lock();
        let before = up_to.saturating_add(1);
        state.kept.before_last(subject, state.floor, before, most)
    }
}
