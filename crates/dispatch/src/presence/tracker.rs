//! What is worth telling of ids that come and go: pure state, told the time.
//!
//! | the id | comes | goes | its grace is over |
//! | --- | --- | --- | --- |
//! | is online, as was told | told online once more (changes were lost) | waits for its grace | |
//! | is offline, as was told | told online | waits for its grace (changes were lost) | |
//! | waits for its grace | nothing | waits on | told offline, unless it is there |
//!
//! What was told stands nowhere: it is what the last change said. So nothing is kept of an id but
//! while it waits: 17 bytes of a hash table and 24 of a tree, both partly empty. There are
//! [`GRACES_MAX`] at most. When there are more, the one that waits longest is told at once.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use hub::{Change, Id};

/// Ids that wait for their grace: 100,000 that go each second, for the five seconds of the default.
const GRACES_MAX: usize = 1 << 19;

/// What a change has come to. Its id has to be released, once for each of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Settled {
    Online(Id),
    Offline(Id),
    /// Nothing that is to be told.
    Nothing(Id),
}

/// The ids that have gone of late.
pub(super) struct Tracker {
    grace_ms: u64,
    graces_max: usize,
    /// Where each stands in the queue.
    waiting: HashMap<Id, u64>,
    /// In the order in which they went: when the grace of each is over.
    queue: BTreeMap<u64, Grace>,
    next: u64,
    /// How many were told before their grace was over.
    early: u64,
}

struct Grace {
    id: Id,
    over_ms: u64,
    /// It was there when the grace was over the first time, so a note of that was on its way.
    was_there: bool,
}

impl Tracker {
    pub(super) fn new(grace_ms: u64) -> Tracker {
        Tracker {
            grace_ms,
            graces_max: GRACES_MAX,
            waiting: HashMap::new(),
            queue: BTreeMap::new(),
            next: 0,
            early: 0,
        }
    }

    /// Ids that wait for their grace.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// How many were told early since the last time.
    pub(super) fn take_early(&mut self) -> u64 {
        std::mem::take(&mut self.early)
    }

    /// `change` was noted, and is read at `now_ms`.
    pub(super) fn note(&mut self, change: Change, now_ms: u64, outcomes: &mut Vec<Settled>) {
        let Change { id, is_online } = change;
        match (self.waiting.get(&id).copied(), is_online) {
            (Some(place), true) => {
                self.remove(place, id);
                outcomes.extend([Settled::Nothing(id), Settled::Nothing(id)]);
            }
            (Some(_), false) => outcomes.push(Settled::Nothing(id)),
            (None, true) => outcomes.push(Settled::Online(id)),
            (None, false) if self.grace_ms == 0 => outcomes.push(Settled::Offline(id)),
            (None, false) => {
                if self.waiting.len() >= self.graces_max {
                    self.tell_first_early(outcomes);
                }
                self.wait(id, now_ms + self.grace_ms, false);
            }
        }
    }

    /// The next one whose grace is over at `now_ms`. It is offline unless it `is_there`: then the
    /// note of that is on its way, and is waited for as long again, since it is lost perhaps.
    pub(super) fn next_over(
        &mut self,
        now_ms: u64,
        is_there: impl Fn(Id) -> bool,
    ) -> Option<Settled> {
        loop {
            let (&place, &Grace { id, over_ms, was_there }) = self.queue.first_key_value()?;
            if over_ms > now_ms {
                return None;
            }
            self.remove(place, id);
            match (is_there(id), was_there) {
                (false, _) => return Some(Settled::Offline(id)),
                (true, true) => return Some(Settled::Nothing(id)),
                (true, false) => self.wait(id, now_ms + self.grace_ms, true),
            }
        }
    }

    fn wait(&mut self, id: Id, over_ms: u64, was_there: bool) {
        debug_assert!(
            self.queue.last_key_value().is_none_or(|(_, last)| last.over_ms <= over_ms),
            "the first in the queue is over first"
        );
        let before = self.waiting.insert(id, self.next);
        debug_assert!(before.is_none(), "its other grace would be told as well");
        self.queue.insert(self.next, Grace { id, over_ms, was_there });
        self.next += 1;
        debug_assert_eq!(self.waiting.len(), self.queue.len());
        debug_assert!(self.waiting.len() <= self.graces_max);
    }

    /// Forgets all who wait: nobody listens any more.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = Settled> + use<> {
        self.waiting = HashMap::new();
        std::mem::take(&mut self.queue).into_values().map(|grace| Settled::Nothing(grace.id))
    }

    fn tell_first_early(&mut self, outcomes: &mut Vec<Settled>) {
        let Some((&place, &Grace { id, .. })) = self.queue.first_key_value() else { return };
        self.remove(place, id);
        self.early += 1;
        outcomes.push(Settled::Offline(id));
    }

    /// Removes one, and gives memory back that a storm has taken.
    fn remove(&mut self, place: u64, id: Id) {
        let grace = self.queue.remove(&place);
        debug_assert!(grace.is_some_and(|grace| grace.id == id), "somebody else's grace ends");
        self.waiting.remove(&id);
        debug_assert_eq!(self.waiting.len(), self.queue.len());
        if self.waiting.is_empty() {
            self.waiting = HashMap::new();
        }
    }
}
