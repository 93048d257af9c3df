//! The slots of one event about several subjects. They are added one behind the other, and leave in
//! any order, so they stand side by side in the list of all. The oldest of them has the event.

use std::mem;
use std::sync::Arc;

use super::aging::Stamp;
use super::cost::slot_cost;
use super::{Kept, KeptSlot};
use crate::event::Event;
use crate::id::Id;

impl<F> Kept<F> {
    /// Adds the newest event to a further one of its subjects. Returns how many that has then.
    pub(in crate::history) fn push_further(&mut self, subject: Id, rule: u16) -> usize {
        let KeptSlot { number, stamp, .. } = self.slots[self.newest as usize];
        let stamp = Stamp::new(stamp.at_ms(), rule);
        let cost = slot_cost::<F>(subject) as u32;
        self.add(KeptSlot { number, subject, stamp, cost, ..KeptSlot::FREE })
    }

    /// Hands the event of a slot that is about to leave to the next one of the same event, with
    /// what it is counted for.
    pub(super) fn hand_on(&mut self, slot: u32) {
        let own = slot_cost::<F>(self.slots[slot as usize].subject) as u32;
        let KeptSlot { event, number, newer, cost, .. } = &mut self.slots[slot as usize];
        let (number, newer) = (*number, *newer);
        let Some(event) = event.take() else { return };
        let of_event = mem::replace(cost, own) - own;
        match self.slots.get_mut(newer as usize).filter(|newer| newer.number == number) {
            Some(newer) => {
                newer.event = Some(event);
                newer.cost += of_event;
            }
            None => {
                self.bytes -= of_event as usize;
                self.len -= 1;
            }
        }
    }

    /// The event of a slot that is listed.
    pub(super) fn event(&self, mut slot: u32) -> &Arc<Event<F>> {
        loop {
            let KeptSlot { event, older, .. } = &self.slots[slot as usize];
            match event {
                Some(event) => return event,
                None => slot = *older,
            }
        }
    }
}
