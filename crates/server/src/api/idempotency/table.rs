//! Which keys are claimed and which are remembered. Reads no clock and waits for nothing.

use std::collections::HashMap;

use tokio::sync::watch;

use super::Progress;
use super::remembered::{Entry, Outcome, Remembered};
use crate::posting::Delivered;

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
pub(crate) enum Refusal {
    /// Something else was sent with it.
    OtherBody,
    /// There is no place for another key before so many seconds.
    Full { retry_after: u32 },
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
        if let Some(entry) = self.remembered.find(key).filter(|entry| now_ms < entry.until_ms) {
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
        self.claimed.insert(key, Waiting { body, progress });
        Ok(Found::New(sender))
    }

    /// The event of a claimed key was not posted.
    pub(super) fn give_up(&mut self, key: u128) {
        self.claimed.remove(&key);
    }

    /// The event of a claimed key is posted. Returns where the key is remembered.
    pub(super) fn remember(&mut self, key: u128, now_ms: u64) -> u64 {
        let Waiting { body, progress } = self.claimed.remove(&key).expect("the key is claimed");
        let (until_ms, outcome) = (now_ms + self.time_ms, Outcome::Posted(progress));
        self.remembered.push(Entry { key, body, until_ms, outcome })
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
    pub(super) fn inherit(
        &mut self,
        key: u128,
        body: u128,
        answer: Delivered,
        until_ms: u64,
    ) -> bool {
        if self.remembered.find(key).is_some() {
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
        table.give_up(2);
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
