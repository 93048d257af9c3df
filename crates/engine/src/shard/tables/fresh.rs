//! What subscribers of channels have just been told (`crate::shard::channels::fresh`).

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::Event;

/// Up to which number events are told, and of the channel with which key.
pub(in crate::shard) type ToldUpTo = SmallVec<[(u64, Box<str>); 1]>;

/// What connections have just been told, by slot.
#[derive(Default)]
pub(in crate::shard) struct Fresh(pub(in crate::shard) HashMap<u32, ToldUpTo>);

impl Fresh {
    /// Whether there is none.
    pub(in crate::shard) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All mail up to the number `settled` has come.
    pub(in crate::shard) fn forget_up_to(&mut self, settled: u64) {
        self.0.retain(|_, told| {
            told.retain(|(number, _)| *number > settled);
            !told.is_empty()
        });
    }

    /// The connection in `slot` has gone.
    pub(in crate::shard) fn forget(&mut self, slot: u32) {
        self.0.remove(&slot);
    }

    /// The connection in `slot` has been told all of the channel with this key up to a number.
    pub(in crate::shard) fn note(&mut self, slot: u32, up_to: u64, key: &str) {
        self.0.entry(slot).or_default().push((up_to, key.into()));
    }

    /// The connection in `slot` has left the channel with this key.
    pub(in crate::shard) fn forget_channel(&mut self, slot: u32, key: &str) {
        if let Some(told) = self.0.get_mut(&slot) {
            told.retain(|(_, of)| **of != *key);
        }
    }

    /// Whether the connection in `slot` has been told `event`, or a later one of its channel.
    pub(in crate::shard) fn has_told(&self, slot: u32, event: &Event) -> bool {
        let mut told = self.0.get(&slot).into_iter().flatten();
        told.any(|(up_to, key)| event.number() <= *up_to && *event.about() == **key)
    }
}

#[cfg(test)]
mod tests {
    use hub::{Draft, EventId, EventParts, Payload, Tag};
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn event_that_is_told_is_passed_over_until_all_mail_up_to_it_has_come() {
        let event = |number: u64, about: &str| -> Event {
            let payload = Payload::Text("x");
            let parts = EventParts { about, also: &[], name: None, from: None, payload };
            Draft::of_key(parts).unwrap().numbered(EventId::new(number, Tag::of(0)))
        };
        let mut fresh = Fresh::default();
        fresh.0.insert(3, smallvec![(7, "#k1:cache-a".into())]);
        let told = [event(6, "#k1:cache-a"), event(7, "#k1:cache-a")];
        assert!(told.iter().all(|event| fresh.has_told(3, event)));
        for other in [event(8, "#k1:cache-a"), event(7, "#k1:cache-b")] {
            assert!(!fresh.has_told(3, &other));
        }
        assert!(!fresh.has_told(4, &told[0]), "another connection");
        fresh.forget_up_to(6);
        assert!(!fresh.is_empty());
        fresh.forget_up_to(7);
        assert!(fresh.is_empty());
    }
}
