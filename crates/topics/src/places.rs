//! Ids that publishers give their updates: which number each has, so that a client may come back
//! with one.
//!
//! Bounded in bytes; the oldest goes first. An id that is used twice means the earlier update, as
//! long as that is known. Cost: the id twice, and some 100 bytes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

/// What an id counts for beside its text.
const ID_BYTES: usize = 128;

/// The ids that are known.
#[derive(Debug)]
pub struct PublisherIds {
    bytes_max: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    numbers: HashMap<Arc<str>, u64>,
    oldest: VecDeque<Arc<str>>,
    bytes: usize,
}

impl PublisherIds {
    /// None, and as many as have room in `bytes_max`.
    pub fn new(bytes_max: usize) -> PublisherIds {
        PublisherIds { bytes_max, known: Mutex::default() }
    }

    /// The update of this number has the id `id`.
    pub fn put(&self, id: &str, number: u64) {
        let mut known = self.known.lock();
        let Known { numbers, oldest, bytes } = &mut *known;
        if numbers.contains_key(id) {
            return;
        }
        let id: Arc<str> = id.into();
        *bytes += ID_BYTES + id.len();
        oldest.push_back(Arc::clone(&id));
        numbers.insert(id, number);
        while *bytes > self.bytes_max
            && let Some(id) = oldest.pop_front()
        {
            *bytes -= ID_BYTES + id.len();
            numbers.remove(&id);
        }
    }

    /// The number of the update with this id.
    pub fn number(&self, id: &str) -> Option<u64> {
        self.known.lock().numbers.get(id).copied()
    }

    /// How many are known, and the bytes that they count for.
    pub fn sizes(&self) -> (usize, usize) {
        let known = self.known.lock();
        (known.numbers.len(), known.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_update_of_an_id_counts_and_the_oldest_is_forgotten_first() {
        let ids = PublisherIds::new(3 * (ID_BYTES + 1));
        ["a", "b", "a", "c"].iter().zip(1..).for_each(|(id, number)| ids.put(id, number));
        assert_eq!(["a", "b", "c"].map(|id| ids.number(id)), [Some(1), Some(2), Some(4)]);
        ids.put("d", 5);
        assert_eq!((ids.number("a"), ids.number("d")), (None, Some(5)));
        assert_eq!(ids.sizes(), (3, 3 * (ID_BYTES + 1)));
        ids.put("a", 6);
        assert_eq!(ids.number("a"), Some(6));
    }
}
