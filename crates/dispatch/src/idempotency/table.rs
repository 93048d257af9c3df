//! Which keys are claimed and which are remembered. Reads no clock and waits for nothing.

use std::collections::HashMap;

use tokio::sync::watch;

use super::remembered::{Entry, Outcome, Remembered};
use super::{EventId, Progress};
use crate::outcome::Delivered;

/// All keys that are known, by their hash.
#[derive(Debug)]
pub(super) struct Table {
    /// Those whose event is not posted yet: as many as sends are being posted at one time.
    claimed: HashMap<u128, Waiting>,
    remembered: Remembered,
    keys_max: usize,
    time_ms: u64,
}

#[derive(Debug)]
struct Waiting {
    body: u128,
    progress: watch::Receiver<Progress>,
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
}

impl Table {
    /// An empty one for `keys_max` keys, each remembered for `time_ms`.
    pub(super) fn new(keys_max: usize, time_ms: u64) -> Table {
        let remembered = Remembered::default();
        Table { claimed: HashMap::new(), remembered, keys_max, time_ms }
    }

    /// Claims `key` for an event with the hash `body`. Times are milliseconds since the start.
    pub(super) fn claim(&mut self, key: u128, body: u128, now_ms: u64) -> Result<Found, Refusal> {
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
        if self.len() >= self.keys_max {
            let until_ms = self.remembered.oldest().map_or(now_ms, |entry| entry.until_ms);
            let seconds = until_ms.saturating_sub(now_ms).div_ceil(1000).max(1);
            return Err(Refusal::Full { retry_after: seconds.try_into().unwrap_or(u32::MAX) });
        }
        let (sender, progress) = watch::channel(Progress::Claimed);
        self.claimed.insert(key, Waiting { body, progress, brought: None });
        Ok(Found::New(sender))
    }

    /// The event of a claimed key was not posted, unless the log has brought one of another node.
    pub(super) fn give_up(&mut self, key: u128, now_ms: u64) {
        let claimed = self.claimed.remove(&key);
        debug_assert!(claimed.is_some(), "whoever has a claim gives it up once");
        if let Some((id, body)) = claimed.and_then(|waiting| waiting.brought) {
            self.remember_brought(key, body, id, now_ms);
        }
    }

    /// The event of a claimed key is posted. Returns where the key is remembered.
    pub(super) fn remember(&mut self, key: u128, now_ms: u64) -> u64 {
        let Waiting { body, progress, .. } = self.claimed.remove(&key).expect("the key is claimed");
        debug_assert!(self.remembered.find(key, now_ms).is_none(), "it would be sent twice");
        let (until_ms, outcome) = (now_ms + self.time_ms, Outcome::Posted(progress));
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
            if self.len() < 2 * self.keys_max {
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

    /// The first event that the log has brought of a claimed key.
    pub(super) fn first_of(&self, key: u128) -> Option<EventId> {
        self.claimed.get(&key)?.brought.map(|(id, _)| id)
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
        answer: Delivered,
        until_ms: u64,
    ) -> bool {
        // Whatever its time: none of its own is over yet.
        if self.remembered.find(key, 0).is_some() {
            return false;
        }
        let before_ms = self.remembered.youngest().map_or(0, |entry| entry.until_ms);
        let (until_ms, outcome) = (until_ms.max(before_ms), Outcome::Answered(answer));
        self.remembered.push(Entry { key, body, until_ms, outcome });
        true
    }

    /// Keys that are remembered or claimed.
    pub(super) fn len(&self) -> usize {
        self.claimed.len() + self.remembered.len()
    }

    /// Memory that they take, but for the channels of those that are under way.
    pub(super) fn bytes(&self) -> usize {
        let claimed = self.claimed.capacity() * size_of::<(u128, Waiting)>();
        claimed + self.remembered.bytes()
    }
}

/// What a repeat is told at a node that does not know how many have heard it at the others.
fn brought_answer(id: EventId) -> Outcome {
    Outcome::Answered(Delivered { id, count: 0, at_least: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: u64 = 300_000;
    const ANSWER: Delivered = Delivered { count: 7, id: *b"2F3y6mQsYKmaB3xZ", at_least: false };

    fn seconds(seconds: u64) -> u64 {
        seconds * 1000
    }

    fn send(table: &mut Table, key: u128, now_ms: u64) {
        assert!(matches!(table.claim(key, 0, now_ms), Ok(Found::New(_))), "{key} is new");
        let place = table.remember(key, now_ms);
        table.answered(place, ANSWER);
    }

    #[test]
    fn key_is_remembered_for_its_time_from_the_first_and_not_from_a_repeat() {
        let mut table = Table::new(10, TIME);
        send(&mut table, 1, seconds(10));
        for now in [seconds(10), seconds(200), seconds(310) - 1] {
            let Ok(Found::Answered(answer)) = table.claim(1, 0, now) else { panic!("{now}") };
            assert_eq!(answer, ANSWER);
        }
        send(&mut table, 1, seconds(310));
        assert!(matches!(table.claim(1, 0, seconds(609)), Ok(Found::Answered(_))));
    }

    /// More keys are over than one that comes forgets.
    #[test]
    fn key_that_is_sent_again_after_its_time_is_known_though_the_old_one_is_not_forgotten() {
        let mut table = Table::new(100, TIME);
        // The upper half is what the table goes by.
        let key = |number: u128| number << 64;
        (0..50).for_each(|number| send(&mut table, key(number), seconds(0)));
        send(&mut table, key(40), seconds(300));
        assert!(matches!(table.claim(key(40), 0, seconds(300)), Ok(Found::Answered(_))));
        assert!(table.brought(key(41), 0, *b"2F3y6mQsYKmaB3xO", seconds(300)));
        assert!(!table.brought(key(41), 0, *b"2F3y6mQsYKmaB3xP", seconds(300)));
        assert_eq!(table.forget(seconds(300), 100), 42);
        assert!(matches!(table.claim(key(40), 0, seconds(301)), Ok(Found::Answered(_))));
    }

    #[test]
    fn key_with_another_body_is_refused_at_each_step() {
        let mut table = Table::new(10, TIME);
        let Ok(Found::New(_progress)) = table.claim(1, 5, seconds(0)) else { panic!() };
        assert_eq!(table.claim(1, 6, seconds(0)).unwrap_err(), Refusal::OtherBody);
        let place = table.remember(1, seconds(0));
        assert_eq!(table.claim(1, 6, seconds(0)).unwrap_err(), Refusal::OtherBody);
        table.answered(place, ANSWER);
        assert_eq!(table.claim(1, 6, seconds(0)).unwrap_err(), Refusal::OtherBody);
    }

    #[test]
    fn full_table_refuses_new_keys_until_the_oldest_is_over_and_keeps_the_rest() {
        let mut table = Table::new(3, TIME);
        (0..2).for_each(|key| send(&mut table, key, seconds(key as u64)));
        let Ok(Found::New(_progress)) = table.claim(2, 0, seconds(2)) else { panic!() };
        for (now, retry_after) in [(2, 298), (299, 1)] {
            let refused = table.claim(9, 0, seconds(now)).unwrap_err();
            assert_eq!(refused, Refusal::Full { retry_after });
        }
        assert!(matches!(table.claim(0, 0, seconds(299)), Ok(Found::Answered(_))));
        send(&mut table, 9, seconds(300));
        assert_eq!(table.len(), 3);
        // A claim that is given up makes room as well.
        assert!(table.claim(10, 0, seconds(300)).is_err());
        table.give_up(2, seconds(0));
        send(&mut table, 10, seconds(300));
    }

    #[test]
    fn answer_that_comes_after_its_time_meets_no_other_key() {
        let mut table = Table::new(10, TIME);
        let Ok(Found::New(_progress)) = table.claim(1, 0, seconds(0)) else { panic!() };
        let late = table.remember(1, seconds(0));
        assert_eq!(table.forget(seconds(300), 10), 1);
        let Ok(Found::New(_progress)) = table.claim(2, 0, seconds(300)) else { panic!() };
        table.remember(2, seconds(300));
        table.answered(late, ANSWER);
        assert!(matches!(table.claim(2, 0, seconds(301)), Ok(Found::UnderWay(_))));
    }

    #[test]
    fn first_event_that_the_log_brings_is_the_one_of_its_key_whatever_is_known_here() {
        const OURS: EventId = *b"2F3y6mQsYKmaB3xO";
        const OTHER: EventId = *b"2F3y6mQsYKmaB3xP";
        let known = |table: &mut Table, key| match table.claim(key, 0, seconds(1)) {
            Ok(Found::Answered(Delivered { id, count: 0, at_least: true })) => id,
            other => panic!("{other:?}"),
        };
        let mut table = Table::new(10, TIME);
        // Nothing is.
        assert!(table.brought(1, 0, OTHER, seconds(0)) && !table.brought(1, 0, OURS, seconds(0)));
        assert_eq!(known(&mut table, 1), OTHER);
        assert_eq!(table.claim(1, 9, seconds(1)).unwrap_err(), Refusal::OtherBody);
        // It is being sent here.
        let Ok(Found::New(_progress)) = table.claim(2, 0, seconds(0)) else { panic!() };
        assert_eq!(table.first_of(2), None);
        assert!(table.brought(2, 0, OTHER, seconds(0)) && !table.brought(2, 0, OURS, seconds(0)));
        assert_eq!(table.first_of(2), Some(OTHER));
        table.give_up(2, seconds(0));
        assert_eq!(known(&mut table, 2), OTHER);
        // It was posted here, and is not counted yet.
        let Ok(Found::New(progress)) = table.claim(3, 0, seconds(0)) else { panic!() };
        assert!(table.brought(3, 0, OURS, seconds(0)));
        table.remember(3, seconds(0));
        progress.send_replace(Progress::Posted(OURS));
        assert!(!table.brought(3, 0, OTHER, seconds(0)));
        // Nobody knew whether the log has it.
        let Ok(Found::New(progress)) = table.claim(4, 0, seconds(0)) else { panic!() };
        table.remember(4, seconds(0));
        progress.send_replace(Progress::Unknown);
        assert!(table.brought(4, 0, OURS, seconds(0)) && !table.brought(4, 0, OTHER, seconds(0)));
        assert_eq!(known(&mut table, 4), OURS);
        // Its time is over.
        assert!(
            !table.brought(1, 0, OURS, seconds(299)) && table.brought(1, 0, OURS, seconds(300))
        );
    }

    #[test]
    fn what_the_log_brings_is_bounded_and_posted_all_the_same() {
        let mut table = Table::new(3, TIME);
        for key in 0..10 {
            assert!(table.brought(key, 0, ANSWER.id, seconds(0)));
        }
        assert_eq!(table.len(), 6);
        assert!(matches!(table.claim(20, 0, seconds(0)), Err(Refusal::Full { .. })));
    }

    #[test]
    fn memory_grows_with_use_and_is_given_back() {
        const KEYS: usize = 100_000;
        let mut table = Table::new(KEYS, TIME);
        assert_eq!(table.bytes(), 0);
        (0..KEYS).for_each(|key| send(&mut table, spread(key), seconds(0)));
        assert!(table.claim(spread(KEYS), 0, seconds(0)).is_err());
        for key in 0..KEYS {
            assert!(matches!(table.claim(spread(key), 0, seconds(299)), Ok(Found::Answered(_))));
        }
        let full = table.bytes();
        assert!(full < KEYS * 90, "{full} bytes for {KEYS} keys");
        let mut forgotten = 0;
        while table.len() > 0 {
            forgotten += table.forget(seconds(300), 1000);
            assert_eq!(table.len(), KEYS - forgotten);
        }
        assert!(table.bytes() < 64 << 10, "{} bytes for nothing", table.bytes());
    }

    /// A hash for each number, as far apart as those of keys are.
    fn spread(number: usize) -> u128 {
        (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
    }
}
