//! What clients find that are logged in under keys which follow others: not all of that is theirs.

use std::iter;
use std::sync::Arc;

use hub::Followers;

use super::Resuming;
use crate::Event;

impl Resuming<'_> {
    /// Leaves out what the client does not hear of the events from this place on. Who follows by a
    /// stored graph hears all.
    pub(super) fn keep_heard(&mut self, followers: &dyn Followers, from: usize) {
        let reader = self.reader;
        if !reader.is_key() || from == self.events.len() {
            return;
        }
        let hears = |event: &Arc<Event>| {
            followers.hears(reader, &mut iter::once(event.about()).chain(event.also()))
        };
        let found = self.events.split_off(from);
        self.events.extend(found.into_iter().filter(hears));
    }
}
