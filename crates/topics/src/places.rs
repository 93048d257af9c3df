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
    /// How many were forgotten.
    forgotten: u64,
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
        let Known { numbers, oldest, forgotten, bytes } = &mut *known;
        if let Some(known) = numbers.get_mut(id) {
            // Senders have threads of their own, and the later one may come first.
            *known = number.min(*known);
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
            *forgotten += 1;
            numbers.remove(&id);
        }
    }

    /// Those behind the first `after` that there ever were, in their order, until their texts have
    /// become `most_bytes`; and how many there were up to the last of them.
    pub(crate) fn dump(&self, after: u64, most_bytes: usize) -> (Vec<(Box<str>, u64)>, u64) {
        let known = self.known.lock();
        let skipped = after.saturating_sub(known.forgotten) as usize;
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for id in known.oldest.range(skipped.min(known.oldest.len())..) {
            if bytes >= most_bytes {
                break;
            }
            bytes += id.len();
            ids.extend(known.numbers.get(id).map(|number| (Box::from(&**id), *number)));
        }
        let up_to = known.forgotten.max(after) + ids.len() as u64;
        (ids, up_to)
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
        ids.put("e", 8);
        ids.put("e", 7);
        assert_eq!(ids.number("e"), Some(7));
    }

    #[test]
    fn ids_are_dumped_in_their_order_and_each_once() {
        let ids = PublisherIds::new(4 * (ID_BYTES + 1));
        ["a", "b", "c"].iter().zip(1..).for_each(|(id, number)| ids.put(id, number));
        let (first, up_to) = ids.dump(0, 2);
        assert_eq!((&*first, up_to), (&[("a".into(), 1), ("b".into(), 2)][..], 2));
        // The first ones go meanwhile.
        ["d", "e", "f", "g"].iter().zip(4..).for_each(|(id, number)| ids.put(id, number));
        let (rest, up_to) = ids.dump(up_to, usize::MAX);
        let numbers: Vec<u64> = rest.iter().map(|(_, number)| *number).collect();
        assert_eq!((numbers, up_to), (vec![4, 5, 6, 7], 7));
        assert_eq!(ids.dump(up_to, usize::MAX), (Vec::new(), 7));
        let all = PublisherIds::new(1 << 20);
        rest.iter().for_each(|(id, number)| all.put(id, *number));
        assert_eq!((all.number("c"), all.number("g")), (None, Some(7)));
    }
}
