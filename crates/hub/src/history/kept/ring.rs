//! The slots of one event about several subjects, in a ring of which one has the event itself.

use std::mem;
use std::sync::Arc;

use super::{Kept, KeptSlot, slot_cost};
use crate::event::Event;
use crate::id::Id;

impl<F> Kept<F> {
    /// Adds the newest event to a further one of its subjects. Returns how many that has then.
    pub(in crate::history) fn push_twin(&mut self, subject: Id) -> usize {
        let twin = self.newest;
        let events =
            self.add(subject, None, self.slots[twin as usize].at_ms, slot_cost::<F>(subject));
        // Behind the one before it, which is in the ring already.
        let slot = self.newest;
        let next = mem::replace(&mut self.slots[twin as usize].twin, slot);
        self.slots[slot as usize].twin = next;
        events
    }

    /// Takes a slot out of the ring of its event, which it hands to the next one.
    pub(super) fn leave_ring(&mut self, slot: u32) {
        let twin = self.slots[slot as usize].twin;
        if twin == slot {
            self.len -= 1;
            return;
        }
        let mut before = twin;
        while self.slots[before as usize].twin != slot {
            before = self.slots[before as usize].twin;
        }
        self.slots[before as usize].twin = twin;
        let KeptSlot { event, subject, cost, .. } = &mut self.slots[slot as usize];
        if let Some(event) = event.take() {
            let own = slot_cost::<F>(*subject) as u32;
            let of_event = mem::replace(cost, own) - own;
            let twin = &mut self.slots[twin as usize];
            twin.event = Some(event);
            twin.cost += of_event;
        }
    }

    /// The event of a slot that is listed.
    pub(super) fn event(&self, slot: u32) -> &Arc<Event<F>> {
        let mut at = slot;
        loop {
            let KeptSlot { event, twin, .. } = &self.slots[at as usize];
            if let Some(event) = event {
                return event;
            }
            at = *twin;
            assert!(at != slot, "a slot of each ring has the event");
        }
    }
}
