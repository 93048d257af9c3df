//! Which events of a numbered stream came, and which did not: the arithmetic of loss.
//!
//! For each stream (one subject of one run as one connection hears it) the newest number and a
//! window over the 32 numbers up to it are kept, as IPsec keeps them against replays (RFC 4303,
//! section 3.4.3). So a gap, a double and an event that another one overtook are told apart
//! exactly, within 32 numbers, at 20 to 40 bytes a stream and one table look-up an event.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use crate::random::mix;
use crate::stamp::RunName;

/// What one event of a stream was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Observation {
    /// Newer than all before; so many numbers were skipped.
    Next {
        /// Events that should have come first. They are missing unless they come as `Overtaken`.
        gap: u32,
    },
    /// The first that is heard of a stream under way: what came before it nobody knows.
    Joined,
    /// It filled a gap: it came, but after a newer one.
    Overtaken,
    /// It came before.
    Doubled,
    /// Too old to tell whether it came before.
    Stale,
    /// The table is full and this stream is not in it.
    Untracked,
}

/// Streams that are followed at most, over all threads, each of which gets its share: 300 to 600
/// MB, since a table doubles when it is seven eighths full.
pub(crate) const STREAMS_MAX: usize = 14_000_000;

/// The streams that one thread follows.
#[derive(Debug)]
pub(crate) struct Streams {
    seen: HashMap<u64, Seen, BuildHasherDefault<Mixed>>,
    max: usize,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    newest: u32,
    /// Bit `i` is set when `newest - i` came.
    window: u32,
}

impl Streams {
    /// A table for at most `max` streams.
    pub(crate) fn new(max: usize) -> Streams {
        Streams { seen: HashMap::default(), max }
    }

    /// Takes note of the event `number` of the stream `key` (see [`stream_key`]).
    /// `from_start` says that the stream was heard from its number 1 on, so that a first event
    /// with a higher number is a gap; otherwise what came before it counts as heard.
    pub(crate) fn observe(&mut self, key: u64, number: u32, from_start: bool) -> Observation {
        let full = self.seen.len() >= self.max;
        match self.seen.entry(key) {
            Entry::Occupied(mut seen) => seen.get_mut().observe(number),
            Entry::Vacant(_) if full => Observation::Untracked,
            Entry::Vacant(place) => {
                let window = if from_start { 1 } else { u32::MAX };
                place.insert(Seen { newest: number, window });
                match from_start {
                    true => Observation::Next { gap: number.saturating_sub(1) },
                    false => Observation::Joined,
                }
            }
        }
    }
}

impl Seen {
    fn observe(&mut self, number: u32) -> Observation {
        debug_assert!(self.window & 1 == 1, "the newest was heard");
        if number > self.newest {
            let step = number - self.newest;
            self.window = self.window.checked_shl(step).unwrap_or(0) | 1;
            self.newest = number;
            return Observation::Next { gap: step - 1 };
        }
        match 1_u32.checked_shl(self.newest - number) {
            None => Observation::Stale,
            Some(bit) if self.window & bit != 0 => Observation::Doubled,
            Some(bit) => {
                self.window |= bit;
                Observation::Overtaken
            }
        }
    }
}

/// The key of a stream: a hash of everything that names it. With 64 bits two streams of ten
/// million fall together once in 400,000 runs.
pub(crate) fn stream_key(connection: u64, run: RunName, subject: u64) -> u64 {
    let run = u64::from(run.start_ms) << 32 | u64::from(run.random);
    mix(mix(mix(connection) ^ run) ^ subject)
}

/// Keys are hashes already.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64")
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The observations on `numbers`, heard from the start.
    fn observations(numbers: &[u32]) -> Vec<Observation> {
        let mut streams = Streams::new(10);
        numbers.iter().map(|&number| streams.observe(1, number, true)).collect()
    }

    const NEXT: Observation = Observation::Next { gap: 0 };

    #[test]
    fn stream_without_faults_has_none() {
        assert_eq!(observations(&[1, 2, 3, 4]), [NEXT; 4]);
    }

    #[test]
    fn lost_event_is_a_gap_also_at_the_start() {
        assert_eq!(observations(&[1, 3]), [NEXT, Observation::Next { gap: 1 }]);
        assert_eq!(observations(&[4, 5]), [Observation::Next { gap: 3 }, NEXT]);
    }

    #[test]
    fn late_and_doubled_events_are_told_apart() {
        let gap = Observation::Next { gap: 1 };
        assert_eq!(
            observations(&[1, 3, 2, 2]),
            [NEXT, gap, Observation::Overtaken, Observation::Doubled]
        );
        assert_eq!(observations(&[1, 1]), [NEXT, Observation::Doubled]);
        assert_eq!(observations(&[2, 1]), [gap, Observation::Overtaken]);
    }

    #[test]
    fn event_older_than_the_window_is_stale() {
        let jump = Observation::Next { gap: 32 };
        assert_eq!(
            observations(&[1, 34, 2, 3]),
            [NEXT, jump, Observation::Stale, Observation::Overtaken]
        );
    }

    #[test]
    fn stream_joined_later_has_no_gap_before_it() {
        let mut streams = Streams::new(10);
        assert_eq!(streams.observe(1, 7, false), Observation::Joined);
        assert_eq!(streams.observe(1, 9, false), Observation::Next { gap: 1 });
    }

    #[test]
    fn table_is_bounded() {
        let mut streams = Streams::new(2);
        let observations: Vec<_> = (0..3).map(|key| streams.observe(key, 1, true)).collect();
        assert_eq!(observations, [NEXT, NEXT, Observation::Untracked]);
        assert_eq!(streams.observe(0, 2, true), NEXT);
    }

    /// Against a naive model that remembers every number.
    #[test]
    fn observations_agree_with_a_set_of_all_numbers() {
        for seed in 0..200 {
            let mut streams = Streams::new(1);
            let (mut came, mut missing) = (std::collections::BTreeSet::new(), 0_i64);
            let mut newest = 0_u32;
            for step in 0..200 {
                let random = mix(seed << 32 | step);
                // Around the newest, and never older than the window reaches.
                let number = (newest + 4).saturating_sub((random % 34) as u32).max(1);
                let observation = streams.observe(1, number, true);
                let expected = match (came.insert(number), number > newest) {
                    (false, _) => Observation::Doubled,
                    (true, true) => Observation::Next { gap: number - newest - 1 },
                    (true, false) => Observation::Overtaken,
                };
                assert_eq!(observation, expected, "seed {seed}, step {step}");
                match observation {
                    Observation::Next { gap } => missing += i64::from(gap),
                    Observation::Overtaken => missing -= 1,
                    _ => {}
                }
                newest = newest.max(number);
                assert_eq!(missing, i64::from(newest) - came.len() as i64);
            }
        }
    }
}
