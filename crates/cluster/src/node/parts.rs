//! This is where in the log the last parts of the graph were read. Several nodes may publish the
//! same part, so an acknowledgement may name a place that was read before this node had anything to
//! publish.

use std::collections::VecDeque;

use crate::limits::PARTS_REMEMBERED;

/// The last places.
#[derive(Debug, Default)]
pub(super) struct PartsRead {
    /// All behind this one are remembered.
    since: u64,
    /// Sequence, version and part.
    places: VecDeque<(u64, u64, u16)>,
}

impl PartsRead {
    /// Nothing up to `since` was read.
    pub(super) fn new(since: u64) -> PartsRead {
        PartsRead { since, places: VecDeque::new() }
    }

    /// A part was read, behind all others.
    pub(super) fn push(&mut self, sequence: u64, version: u64, part: u16) {
        if self.places.len() >= PARTS_REMEMBERED {
            self.since = self.places.pop_front().map_or(self.since, |(oldest, ..)| oldest);
        }
        let last = self.places.back().map_or(self.since, |&(last, ..)| last);
        debug_assert!(last < sequence, "places are searched for by sequence");
        self.places.push_back((sequence, version, part));
        debug_assert!(self.places.len() <= PARTS_REMEMBERED);
    }

    /// Whether the part is known not to be what was read at `sequence`.
    pub(super) fn misses(&self, sequence: u64, version: u64, part: u16) -> bool {
        if sequence <= self.since {
            return false;
        }
        let place = self.places.binary_search_by_key(&sequence, |&(at, ..)| at);
        place.map_or(true, |place| self.places[place] != (sequence, version, part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_is_missed_where_something_else_was_read_and_not_where_that_is_forgotten() {
        let mut parts = PartsRead::new(10);
        parts.push(12, 5, 0);
        parts.push(15, 5, 1);
        assert!(!parts.misses(12, 5, 0) && !parts.misses(15, 5, 1));
        assert!(parts.misses(11, 5, 0) && parts.misses(12, 5, 1) && parts.misses(13, 5, 0));
        assert!(!parts.misses(10, 5, 0));
        (0..PARTS_REMEMBERED as u64).for_each(|more| parts.push(16 + more, 6 + more, 0));
        assert!(!parts.misses(12, 7, 0) && !parts.misses(14, 7, 0) && parts.misses(16, 7, 0));
        assert_eq!(parts.places.len(), PARTS_REMEMBERED);
    }
}
