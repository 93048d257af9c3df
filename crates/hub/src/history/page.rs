//! The events of one subject a page at a time, from either end.
//!
//! Cost: the lock is held for a page, which has its bounds, and some steps to find where it begins.

use std::sync::Arc;

use super::{History, PagePart};
use crate::id::Id;
use crate::page::{Page, PageOf};

impl<F> History<F> {
    /// A page of the events about `subject`.
    pub fn page(&self, subject: Id, of: PageOf) -> Page<F> {
        self.page_part(subject, of).page
    }

    /// What the memory has of such a page, for an [`Archive`](crate::Archive) to make it whole.
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
