//! Which keys are claimed and which are remembered. Reads no clock and waits for nothing.

use std::collections::HashMap;

use tokio::sync::watch;

use super::key::is_own;
use super::remembered::{Entry, Outcome, Remembered};
use super::shares::{LOOKED_THROUGH_MAX, Share, Shares};
use super::{EventId, KeyHolder, Progress};
use crate::outcome::Delivered;

/// One of so many parts of all places is for applications alone, however many keys clients use.
const APPLICATIONS_PART: usize = 4;

/// One client has one of so many parts of all places, and one place at least.
const CLIENT_PART: usize = 64;

/// All keys that are known, by their hash.
#[derive(Debug)]
pub(super) struct Table {
    /// Those whose event is not posted yet: as many as sends are being posted at one time.
    claimed: HashMap<u128, Waiting>,
    remembered: Remembered,
    shares: Shares,
    keys_max: usize,
    time_ms: u64,
}

#[derive(Debug)]
struct Waiting {
    body: u128,
    progress: watch::Receiver<Progress>,
    /// The client that it is counted for.
    share: Option<Share>,
    /// The first event of this key that the cluster's log has brought, and the hash of its body.
    brought: Option<(EventId, u128)>,
}

/// What is known of a key.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing: it is the caller's, who says how far it is.
    New(watch::Sender<Progress>),
    UnderWay(watch::Receiver<Progress>),
    Answered(Delivered),
}

/// Why a key cannot be claimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Something else was sent with it.
    OtherBody,
    /// There is no place for another key before so many seconds.
    Full {
        /// Seconds.
        retry_after: u32,
    },
    /// This client has as many keys as one may.
    Share {
        /// How many those are.
        keys: usize,
        /// Seconds before which it has no place again.
        retry_after: u32,
    },
}

impl Table {
    /// An empty one for `keys_max` keys, each remembered for `time_ms`.
    pub(super) fn new(keys_max: usize, time_ms: u64) -> Table {
        let (remembered, shares) = (Remembered::default(), Shares::default());
        Table { claimed: HashMap::new(), remembered, shares, keys_max, time_ms }
    }

    /// Claims `key` of `holder` for an event with the hash `body`. Times are milliseconds since the
    /// start.
    pub(super) fn claim(
        &mut self,
        holder: KeyHolder<'_>,
        key: u128,
        body: u128,
        now_ms: u64,
    ) -> Result<Found, Refusal> {
        // Two for each that comes, so that nobody has to wait for the task that forgets.
        self.forget(now_ms, 2);
        if let Some(waiting) = self.claimed.get(&key) {
            if waiting.body != body {
                return Err(Refusal::OtherBody);
            }
            return Ok(Found::UnderWay(waiting.progress.clone()));
        }
        if let Some(entry) = self.remembered.find(key, now_ms) {
            return match &entry.outcome {
                _ if entry.body != body => Err(Refusal::OtherBody),
                Outcome::Posted(progress) => Ok(Found::UnderWay(progress.clone())),
                Outcome::Answered(answer) => Ok(Found::Answered(*answer)),
            };
        }
        let places = match holder {
            KeyHolder::Application(_) => self.keys_max,
            KeyHolder::Client { .. } => self.keys_max - self.keys_max / APPLICATIONS_PART,
        };
        if self.of_senders() >= places {
            let until_ms = self.has_fewer_ms(places).unwrap_or(now_ms);
            return Err(Refusal::Full { retry_after: seconds_until(until_ms, now_ms) });
        }
        let share = match holder {
            KeyHolder::Client { counted: Some(counted), .. } => Some(self.shares.of(counted)),
            _ => None,
        };
        if let Some(share) = share {
            let keys = (self.keys_max / CLIENT_PART).max(1);
            if self.shares.count(share) >= keys {
                let until_ms = self.shares.oldest_ms(share).unwrap_or(now_ms);
                let retry_after = seconds_until(until_ms, now_ms);
                return Err(Refusal::Share { keys, retry_after });
            }
            self.shares.take(share);
        }
        let (sender, progress) = watch::channel(Progress::Claimed);
        self.claimed.insert(key, Waiting { body, progress, share, brought: None });
        Ok(Found::New(sender))
    }

    /// The event of a claimed key was not posted, unless the log has brought one of another node.
    pub(super) fn give_up(&mut self, key: u128, now_ms: u64) {
        let claimed = self.claimed.remove(&key);
        debug_assert!(claimed.is_some(), "whoever has a claim gives it up once");
        if let Some(share) = claimed.as_ref().and_then(|waiting| waiting.share) {
            self.shares.give_back(share);
        }
        if let Some((id, body)) = claimed.and_then(|waiting| waiting.brought) {
            self.remember_brought(key, body, id, now_ms);
        }
    }

    /// The event of a claimed key is posted. Returns where the key is remembered.
    pub(super) fn remember(&mut self, key: u128, now_ms: u64) -> u64 {
        let waiting = self.claimed.remove(&key).expect("the key is claimed");
        let Waiting { body, progress, share, .. } = waiting;
        debug_assert!(self.remembered.find(key, now_ms).is_none(), "it would be sent twice");
        let (until_ms, outcome) = (now_ms + self.time_ms, Outcome::Posted(progress));
        if let Some(share) = share {
            self.shares.keep(share, until_ms);
        }
        self.remembered.push(Entry { key, body, until_ms, outcome })
    }

    /// The cluster's log has brought the event `id` of a key. Whether it is the first one of that
    /// key, which is the one to be posted.
    pub(super) fn brought(&mut self, key: u128, body: u128, id: EventId, now_ms: u64) -> bool {
        self.forget(now_ms, 2);
        if let Some(waiting) = self.claimed.get_mut(&key) {
            let is_first = waiting.brought.is_none();
            waiting.brought.get_or_insert((id, body));
            return is_first;
        }
        let Some(entry) = self.remembered.find_mut(key, now_ms) else {
            // Each node refuses new ones where there is no place: more are only on their way.
            let (there, most) = match is_own(key) {
                true => (self.remembered.own(), self.keys_max),
                false => (self.of_senders(), 2 * self.keys_max),
            };
            if there < most {
                self.remember_brought(key, body, id, now_ms);
            }
            return true;
        };
        // It was not known whether the log had it, and now it is.
        let is_first = match &entry.outcome {
            Outcome::Posted(progress) => matches!(*progress.borrow(), Progress::Unknown),
            Outcome::Answered(_) => false,
        };
        if is_first {
            (entry.body, entry.outcome) = (body, brought_answer(id));
        }
        is_first
    }

    /// The event `id` of a key, which the log has [brought](Table::brought), is not posted here:
    /// the next one of that key is the first.
    pub(super) fn forget_brought(&mut self, key: u128, id: EventId, now_ms: u64) {
        if let Some(waiting) = self.claimed.get_mut(&key) {
            waiting.brought.take_if(|(brought, _)| *brought == id);
        } else if let Some(entry) = self.remembered.find_mut(key, now_ms)
            && matches!(&entry.outcome, Outcome::Answered(answer) if answer.id == id)
        {
            // Its time is over. It goes with those before it.
            entry.until_ms = now_ms;
        }
    }

    /// The first event that the log has brought of a claimed key, and the hash of its body.
    pub(super) fn first_of(&self, key: u128) -> Option<(EventId, u128)> {
        self.claimed.get(&key)?.brought
    }

    /// The first event that the log has brought of a key, claimed or not, and the hash of its body.
    pub(super) fn brought_of(&self, key: u128, now_ms: u64) -> Option<(EventId, u128)> {
        if let Some(waiting) = self.claimed.get(&key) {
            return waiting.brought;
        }
        let entry = self.remembered.find(key, now_ms)?;
        match &entry.outcome {
            Outcome::Answered(answer) => Some((answer.id, entry.body)),
            Outcome::Posted(_) => None,
        }
    }

    /// Whether a key that nobody claimed is remembered.
    pub(super) fn has(&self, key: u128, now_ms: u64) -> bool {
        self.remembered.find(key, now_ms).is_some()
    }

    fn remember_brought(&mut self, key: u128, body: u128, id: EventId, now_ms: u64) {
        debug_assert!(self.remembered.find(key, now_ms).is_none(), "it would be sent twice");
        let (until_ms, outcome) = (now_ms + self.time_ms, brought_answer(id));
        self.remembered.push(Entry { key, body, until_ms, outcome });
    }

    /// The event of the key at `place` is counted; nothing happens if the key is forgotten.
    pub(super) fn answered(&mut self, place: u64, answer: Delivered) {
        if let Some(entry) = self.remembered.get_mut(place) {
            entry.outcome = Outcome::Answered(answer);
        }
    }

    /// Forgets at most `most` of the keys whose time is over, and tells how many.
    pub(super) fn forget(&mut self, now_ms: u64, most: usize) -> usize {
        let over = |entry: &Entry| entry.until_ms <= now_ms;
        let mut count = 0;
        while count < most && self.remembered.oldest().is_some_and(over) {
            self.remembered.pop();
            count += 1;
        }
        self.shares.forget(now_ms, most);
        if self.claimed.is_empty() && self.claimed.capacity() > 1024 {
            self.claimed = HashMap::new();
        }
        count
    }

    /// What is remembered at `place` or behind it, in the order of its time, with its place.
    pub(super) fn remembered_from(&self, place: u64) -> impl Iterator<Item = (u64, &Entry)> {
        self.remembered.from(place)
    }

    /// Remembers a key that was posted elsewhere until `until_ms`, or a little longer: keys are
    /// forgotten in the order in which they come here. Whether it was new.
    pub(super) fn take_over(
        &mut self,
        key: u128,
        body: u128,
        outcome: Outcome,
        until_ms: u64,
    ) -> bool {
        // Whatever its time: none of its own is over yet.
        if self.remembered.find(key, 0).is_some() {
            return false;
        }
        let before_ms = self.remembered.youngest().map_or(0, |entry| entry.until_ms);
        let until_ms = until_ms.max(before_ms);
        self.remembered.push(Entry { key, body, until_ms, outcome });
        true
    }

    /// When senders have fewer than `places` keys, as far as that is a matter of time: applications
    /// may have taken places that clients leave to them. What nodes send by themselves is passed
    /// over, as far as it is looked through.
    fn has_fewer_ms(&self, places: usize) -> Option<u64> {
        let past = self.of_senders() - places;
        let is_of_sender = |(_, entry): &(u64, &Entry)| !is_own(entry.key);
        let found = self.remembered.from(0).take(LOOKED_THROUGH_MAX).filter(is_of_sender).nth(past);
        let found = found.map(|(_, entry)| entry);
        let further = || self.remembered.nth(past.max(LOOKED_THROUGH_MAX));
        found.or_else(further).map(|entry| entry.until_ms)
    }

    /// Keys that senders have places for: what nodes send by themselves takes none of these.
    fn of_senders(&self) -> usize {
        self.len() - self.remembered.own()
    }

    /// Keys that are remembered or claimed.
    pub(super) fn len(&self) -> usize {
        self.claimed.len() + self.remembered.len()
    }

    /// Memory that they take, but for the channels of those that are under way.
    pub(super) fn bytes(&self) -> usize {
        let claimed = self.claimed.capacity() * size_of::<(u128, Waiting)>();
        claimed + self.remembered.bytes() + self.shares.bytes()
    }
}

/// Whole seconds until then, and one at least.
fn seconds_until(until_ms: u64, now_ms: u64) -> u32 {
    let seconds = until_ms.saturating_sub(now_ms).div_ceil(1000).max(1);
    seconds.try_into().unwrap_or(u32::MAX)
}

/// What a repeat is told at a node that does not know how many have heard it at the others.
fn brought_answer(id: EventId) -> Outcome {
    Outcome::Answered(Delivered { id, count: 0, at_least: true })
}

#[cfg(test)]
mod tests;
