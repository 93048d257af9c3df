//! How many changes of the list of subscriptions the hub posts, and what becomes of the others.
//!
//! Anonymous clients cause them, with one request for hundreds, and each is an update that is
//! remembered beside those of publishers. So they have a bound, a token bucket of bytes. In the
//! time that updates are remembered they fill a quarter of the history at most, and of the topics
//! that are known.
//!
//! What is past that is lost. The list has a new tag, and a client that comes back is told of a
//! gap. The streams of those who listen are ended, so that they come back. Nothing is posted before
//! that, for nobody could make sense of it.

use engine::Router;
use hub::{Id, KEY_BYTES_MAX, Key};
use mercure::{Dialect, SubscriptionPath, Update};
use serde::{Deserialize, Serialize};
use topics::{HeldSelector, Topics, asks_for_paths};

/// What an update counts for beside its texts, in the history and among topics.
const UPDATE_BYTES: usize = 512;

/// A part of the least of the bounds may be filled at once, and three such parts in the time that
/// updates are remembered.
const PARTS: usize = 16;

/// For how long updates count as remembered, at least: each also costs its listeners time.
const REMEMBERED_MS_MIN: u64 = 180_000;

/// How long streams are left alone that were ended: a client reads the whole list each time. Each
/// time that it is not enough, twice as long, up to the time in which the bucket is full again:
/// those who come back are changes themselves, and would else keep it empty.
const PAUSE_MS: u64 = 5_000;

/// How many changes there were, by what became of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ChangeCounts {
    /// Those that were posted.
    pub(crate) told: u64,
    /// Those that were not.
    pub(crate) lost: u64,
}

/// The bucket, and what was lost.
#[derive(Debug)]
pub(crate) struct ChangeBudget {
    /// Bytes that it holds at most.
    burst: u64,
    /// The time in which three times that come in.
    remembered_ms: u64,
    left: u64,
    filled_ms: u64,
    counts: ChangeCounts,
    /// Whether the list has had no new tag since some were lost.
    is_unmarked: bool,
    /// Whether there may be streams that some were lost for.
    owes_end: bool,
    /// For how long, and until when, no streams are ended.
    pause_ms: u64,
    pause_end_ms: u64,
}

impl ChangeBudget {
    /// The full bucket of a hub.
    pub(crate) fn of(router: &Router, topics: &Topics, now_ms: u64) -> ChangeBudget {
        let limits = topics.limits();
        let history = router.history().map_or(usize::MAX, |history| history.bytes_max());
        ChangeBudget::new(history.min(limits.topic_bytes_max), limits.topic_ms, now_ms)
    }

    fn new(bytes_max: usize, remembered_ms: u64, now_ms: u64) -> ChangeBudget {
        let burst = (bytes_max / PARTS) as u64;
        ChangeBudget {
            burst,
            remembered_ms: remembered_ms.max(REMEMBERED_MS_MIN),
            left: burst,
            filled_ms: now_ms,
            counts: ChangeCounts::default(),
            is_unmarked: false,
            owes_end: false,
            pause_ms: 0,
            pause_end_ms: 0,
        }
    }

    /// Whether these updates of one change may be posted. One that may not is lost.
    pub(crate) fn admits(&mut self, updates: &[Update], now_ms: u64) -> bool {
        self.fill(now_ms);
        // Both stand in the event and in its frame; the topic is known by itself, too.
        let bytes_of = |update: &Update| {
            let topics = update.topics.iter().map(String::len).sum::<usize>();
            UPDATE_BYTES + 3 * topics + 2 * update.data.len()
        };
        let bytes = updates.iter().map(bytes_of).sum::<usize>() as u64;
        if self.owes_end || bytes > self.left {
            self.lose();
            return false;
        }
        self.left -= bytes;
        true
    }

    /// An update was posted.
    pub(crate) fn told(&mut self) {
        self.counts.told += 1;
    }

    /// A change is told to nobody.
    pub(crate) fn lose(&mut self) {
        self.counts.lost += 1;
        (self.is_unmarked, self.owes_end) = (true, true);
    }

    /// Whether the list needs a new tag, which it then has.
    pub(crate) fn take_unmarked(&mut self) -> bool {
        std::mem::take(&mut self.is_unmarked)
    }

    /// Whether the streams of those who listen are to be ended now. They are, then.
    pub(crate) fn take_end(&mut self, listeners: usize, now_ms: u64) -> bool {
        if self.owes_end && listeners == 0 {
            // Whoever comes is told of the gap.
            self.owes_end = false;
        }
        if !self.owes_end || now_ms < self.pause_end_ms {
            return false;
        }
        self.owes_end = false;
        let is_enough = now_ms >= self.pause_end_ms.saturating_add(self.pause_ms);
        let longer = (2 * self.pause_ms).min(self.remembered_ms / 3);
        self.pause_ms = if is_enough { PAUSE_MS } else { longer };
        self.pause_end_ms = now_ms.saturating_add(self.pause_ms);
        true
    }

    /// Not all of those streams could be ended.
    pub(crate) fn owe_end(&mut self) {
        self.owes_end = true;
    }

    /// How many there were.
    pub(crate) fn counts(&self) -> ChangeCounts {
        self.counts
    }

    /// Whether some were lost that nobody has been told of.
    pub(crate) fn has_pending(&self) -> bool {
        self.is_unmarked || self.owes_end
    }

    /// Such changes were counted by another process.
    pub(crate) fn lose_pending(&mut self) {
        (self.is_unmarked, self.owes_end) = (true, true);
    }

    /// Counts on from there.
    pub(crate) fn count_on(&mut self, counts: ChangeCounts) {
        self.counts.told += counts.told;
        self.counts.lost += counts.lost;
    }

    fn fill(&mut self, now_ms: u64) {
        let elapsed = now_ms.saturating_sub(self.filled_ms).min(self.remembered_ms);
        let more = 3 * self.burst * elapsed / self.remembered_ms;
        if more > 0 {
            self.left = self.burst.min(self.left + more);
            self.filled_ms = now_ms;
        }
    }
}

/// What a path has in its key beside that of its selector: `#p:` and `/urn%3Auuid%3A…`.
const SUBSCRIBER_BYTES: usize = 53;

/// Whether the paths of a subscription to the selector are short enough for a key. What has a
/// longer one is neither listed nor told: percent-encoded, a selector may be three times as long.
pub(crate) fn has_path(held: &HeldSelector) -> bool {
    const MOST: usize = KEY_BYTES_MAX - SUBSCRIBER_BYTES;
    let is_short = |dialect: &Dialect| {
        let path = SubscriptionPath::of(*dialect, held.kind.match_type(), &held.text);
        path.to_string().len() <= MOST
    };
    // Most are short.
    held.text.len() <= MOST / 4 || held.kind.dialects().iter().all(is_short)
}

/// The keys of paths of subscriptions that somebody is logged in under.
pub(crate) fn path_keys(router: &Router) -> Vec<Box<str>> {
    let mut keys: Vec<(Id, Box<str>)> = Vec::new();
    router.names().visit_keys(|id, text| {
        let asks = Key::parse(text).is_some_and(asks_for_paths);
        keys.extend(asks.then(|| (id, text.into())));
    });
    // Most are of updates, and nobody listens to those alone.
    keys.into_iter().filter(|(id, _)| router.is_online(*id)).map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use topics::{HeldKind, UpdateKeys};

    use super::*;

    fn update(topic: &str, data: &str) -> Update {
        Update {
            topics: vec![topic.to_owned()],
            data: data.to_owned(),
            is_private: true,
            id: None,
            kind: None,
            retry: None,
        }
    }

    #[test]
    fn selector_has_a_path_if_each_form_of_it_is_a_topic() {
        for kind in [HeldKind::Plain, HeldKind::Template, HeldKind::UrlPattern] {
            let held = |count: usize| HeldSelector {
                kind,
                text: ":".repeat(count).into(),
                is_granted: false,
            };
            let longest = (1_000..2_000).rev().find(|count| has_path(&held(*count))).unwrap();
            let is_key = |count: usize| {
                kind.dialects().iter().all(|dialect| {
                    let text = held(count).text;
                    let path = SubscriptionPath::of(*dialect, kind.match_type(), &text);
                    let path =
                        path.with("urn:uuid:bb3de268-05b0-4c65-b44e-8f9acefc29d6").to_string();
                    UpdateKeys::of(&[path], true).and_then(UpdateKeys::checked).is_some()
                })
            };
            assert!(is_key(longest) && !is_key(longest + 1), "{kind:?}: {longest}");
        }
    }

    /// Changes that are admitted at this time.
    fn admitted(budget: &mut ChangeBudget, now_ms: u64) -> u64 {
        let update = update(&"x".repeat(100), &"y".repeat(94));
        let mut count = 0;
        while budget.admits(std::slice::from_ref(&update), now_ms) {
            count += 1;
        }
        count
    }

    #[test]
    fn changes_fill_a_quarter_of_the_least_bound_at_most() {
        // 1,000 bytes a change.
        let mut budget = ChangeBudget::new(16_000_000, 180_000, 7);
        let mut bytes = 1_000 * admitted(&mut budget, 7);
        assert_eq!(bytes, 1_000_000);
        for now_ms in (8..=180_007).step_by(50) {
            assert!(
                !budget.admits(&[update("", "")], now_ms),
                "nothing before the streams are ended"
            );
            budget.take_end(0, now_ms);
            bytes += 1_000 * admitted(&mut budget, now_ms);
        }
        assert!((3_500_000..=4_000_000).contains(&bytes), "{bytes}");
        budget.take_end(0, 1 << 40);
        assert_eq!(admitted(&mut budget, 1 << 40), 1_000, "and no more than that at once");
    }

    #[test]
    fn what_is_lost_is_marked_and_told_once_in_some_time() {
        let mut budget = ChangeBudget::new(16_000, 1, 0);
        assert!(!budget.take_unmarked() && !budget.take_end(1, 0));
        budget.lose();
        assert!(budget.take_unmarked() && !budget.take_unmarked());
        assert!(budget.take_end(1, 10) && !budget.take_end(1, 10));
        assert!(budget.admits(&[update("", "")], 10), "those who come back have read the list");
        budget.told();
        budget.lose();
        assert!(budget.take_unmarked() && !budget.take_end(1, 9 + PAUSE_MS));
        assert!(!budget.admits(&[update("", "")], 9 + PAUSE_MS));
        assert!(budget.take_end(1, 10 + PAUSE_MS));
        assert_eq!(budget.counts(), ChangeCounts { told: 1, lost: 3 });
        budget.lose();
        assert!(
            !budget.take_end(0, 11 + PAUSE_MS) && budget.admits(&[update("", "")], 12 + PAUSE_MS)
        );
    }

    #[test]
    fn streams_are_ended_ever_more_seldom_as_long_as_changes_are_lost() {
        let mut budget = ChangeBudget::new(16_000, 180_000, 0);
        let mut ends = |from_s: u64, to_s: u64| -> Vec<u64> {
            let is_end = |second: &u64| {
                budget.lose();
                budget.take_end(1, second * 1_000)
            };
            (from_s..to_s).filter(is_end).collect()
        };
        assert_eq!(ends(1, 300), [1, 6, 16, 36, 76, 136, 196, 256]);
        assert_eq!(ends(500, 507), [500, 505], "it was quiet for long");
    }
}
