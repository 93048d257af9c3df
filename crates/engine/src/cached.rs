//! The last event of each channel that caches it, for those who subscribe later.
//!
//! It is kept for half an hour ([`pusher::limits::CACHE_SECONDS`]) and within [`BYTES_MAX`] for all
//! channels together. The channel that has had no event for the longest time loses its own first. A
//! new subscriber is told that there is none.
//!
//! Cost: an event of such a channel takes a lock and a place in a table.

#![expect(
    clippy::disallowed_types,
    reason = "a look-up under it at a subscription, as under a stripe of the names"
)]

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hub::{Id, IdText, Names};
use pusher::limits::CACHE_SECONDS;

use crate::{Event, History};

/// What all last events together may take up: 1,500 of the longest, 100,000 short ones.
const BYTES_MAX: usize = 16 << 20;

/// What one is counted for beside its line: its places in the tables, and the channel's name.
const EVENT_BYTES: usize = 512;

const LIFETIME_MS: u64 = CACHE_SECONDS * 1000;

struct Cached {
    event: Arc<Event>,
    until_ms: u64,
}

#[derive(Default)]
struct CacheState {
    events: HashMap<Id, Cached>,
    /// Each channel of `events`, by when its event ends.
    order: BTreeSet<(u64, Id)>,
    bytes: usize,
}

/// Those events.
#[derive(Default)]
pub(crate) struct CachedEvents {
    state: Mutex<CacheState>,
    /// Where sends begin.
    history: Mutex<Option<Arc<History>>>,
}

impl CachedEvents {
    /// From now on events are sent there.
    pub(crate) fn set_history(&self, history: Option<Arc<History>>) {
        *self.history.lock().unwrap_or_else(PoisonError::into_inner) = history;
    }

    /// Whether an event about the channel `key` is being sent, which may become the last one. If it
    /// is not, each is either the last one by now or goes to all who are subscribed.
    pub(crate) fn is_sending(&self, key: Id) -> bool {
        let history = self.history.lock().unwrap_or_else(PoisonError::into_inner).clone();
        history.is_some_and(|history| history.is_sending(key))
    }

    /// `event` is the last one of the channel that it is about.
    pub(crate) fn record(&self, names: &Names, event: &Arc<Event>, now_ms: u64) {
        self.record_until(names, event, now_ms + LIFETIME_MS);
    }

    /// `event`, which was sent `age_ms` ago, is the last one of the channel that it is about.
    pub(crate) fn record_aged(&self, names: &Names, event: &Arc<Event>, age_ms: u64, now_ms: u64) {
        if let Some(left_ms) = LIFETIME_MS.checked_sub(age_ms) {
            self.record_until(names, event, now_ms + left_ms);
        }
    }

    fn record_until(&self, names: &Names, event: &Arc<Event>, until_ms: u64) {
        let about = event.about();
        let Ok(key) = IdText::of_key(&about) else { return };
        let key = names.acquire(key);
        let cached = Cached { event: Arc::clone(event), until_ms };
        let mut state = self.lock();
        state.bytes += bytes_of(event);
        state.order.insert((cached.until_ms, key));
        if let Some(before) = state.events.insert(key, cached) {
            state.bytes -= bytes_of(&before.event);
            if before.until_ms != until_ms {
                state.order.remove(&(before.until_ms, key));
            }
            names.release(key);
        }
        while state.bytes > BYTES_MAX && state.order.len() > 1 {
            state.forget_first(names);
        }
        debug_assert_eq!(state.order.len(), state.events.len());
    }

    /// The last event of the channel `key`, if there is one.
    pub(crate) fn last(&self, key: Id) -> Option<Arc<Event>> {
        self.lock().events.get(&key).map(|cached| Arc::clone(&cached.event))
    }

    /// Forgets all: there may have been later ones.
    pub(crate) fn forget_all(&self, names: &Names) {
        let mut state = self.lock();
        while !state.order.is_empty() {
            state.forget_first(names);
        }
        debug_assert!(state.events.is_empty() && state.bytes == 0);
    }

    /// For how many milliseconds the last event of `key` is kept from now on.
    pub(crate) fn left_ms(&self, key: Id, now_ms: u64) -> Option<u64> {
        self.lock().events.get(&key).map(|cached| cached.until_ms.saturating_sub(now_ms))
    }

    /// Forgets what has been kept for its time: a slice of it. Whether there is more.
    pub(crate) fn forget_old(&self, names: &Names, now_ms: u64) -> bool {
        let mut state = self.lock();
        for _ in 0..1_000 {
            if state.order.first().is_none_or(|(until_ms, _)| *until_ms > now_ms) {
                return false;
            }
            state.forget_first(names);
        }
        true
    }

    /// Each change is whole when the lock is given back.
    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn forget_first(&mut self, names: &Names) {
        let Some((_, key)) = self.order.pop_first() else { return };
        if let Some(cached) = self.events.remove(&key) {
            self.bytes -= bytes_of(&cached.event);
        }
        names.release(key);
    }
}

fn bytes_of(event: &Event) -> usize {
    EVENT_BYTES + event.json().len()
}

#[cfg(test)]
mod tests {
    use hub::{Draft, EventId, EventParts, Payload, Tag};

    use super::*;

    fn event(number: u64, about: &str, data: &str) -> Arc<Event> {
        let payload = Payload::Text(data);
        let parts = EventParts { about, also: &[], name: Some("n"), from: None, payload };
        let draft = Draft::of_key(parts).unwrap();
        Arc::new(draft.numbered(EventId::new(number, Tag::of(0))))
    }

    #[test]
    fn last_event_is_kept_for_half_an_hour_and_names_are_given_back() {
        let (names, cached) = (Names::new([1; 16]), CachedEvents::default());
        cached.record(&names, &event(1, "#k1:cache-a", "1"), 0);
        cached.record(&names, &event(2, "#k1:cache-b", "2"), 10);
        cached.record(&names, &event(3, "#k1:cache-a", "3"), 20);
        let key = |text| names.lookup(IdText::of_key(text).unwrap()).unwrap();
        let (a, b) = (key("#k1:cache-a"), key("#k1:cache-b"));
        assert_eq!(cached.last(a).unwrap().number(), 3);
        assert_eq!(cached.left_ms(b, 1_010), Some(LIFETIME_MS - 1_000));
        assert!(!cached.forget_old(&names, LIFETIME_MS + 10));
        assert!(cached.last(b).is_none() && cached.last(a).is_some(), "b is the older one");
        assert!(!cached.forget_old(&names, LIFETIME_MS + 20));
        assert!(cached.last(a).is_none());
        let state = cached.lock();
        assert_eq!((names.len(), state.bytes, state.order.len()), (0, 0, 0));
    }

    #[test]
    fn event_of_before_has_the_rest_of_its_time_and_all_are_forgotten_at_a_gap() {
        let (names, cached) = (Names::new([1; 16]), CachedEvents::default());
        cached.record_aged(&names, &event(1, "#k1:cache-a", "1"), 1_000, 10);
        cached.record_aged(&names, &event(2, "#k1:cache-b", "2"), LIFETIME_MS + 1, 10);
        let key = |text| names.lookup(IdText::of_key(text).unwrap());
        assert_eq!(cached.left_ms(key("#k1:cache-a").unwrap(), 10), Some(LIFETIME_MS - 1_000));
        assert_eq!(key("#k1:cache-b"), None, "its time is over");
        cached.record(&names, &event(3, "#k1:cache-b", "3"), 20);
        cached.forget_all(&names);
        assert_eq!((names.len(), cached.lock().bytes), (0, 0));
    }

    #[test]
    fn events_without_end_are_bounded_and_the_latest_stay() {
        let (names, cached) = (Names::new([1; 16]), CachedEvents::default());
        let long = "x".repeat(10_000);
        for number in 1..=4_000_u64 {
            // One channel has an event now and then, and is never the oldest.
            let channel = if number % 100 == 0 { 0 } else { number };
            cached.record(&names, &event(number, &format!("#k1:cache-{channel}"), &long), number);
            assert!(cached.lock().bytes <= BYTES_MAX);
        }
        let state = cached.lock();
        assert_eq!(state.order.len(), state.events.len());
        drop(state);
        assert!((1_000..2_000).contains(&names.len()), "{}", names.len());
        let key = names.lookup(IdText::of_key("#k1:cache-0").unwrap()).unwrap();
        assert_eq!(cached.last(key).unwrap().number(), 4_000);
    }
}
