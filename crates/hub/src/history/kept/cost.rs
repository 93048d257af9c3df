//! The bytes that an event is counted for while it is remembered.

use super::KeptSlot;
use crate::event::Event;
use crate::id::Id;

/// What an allocation costs beside its bytes, about: its head, and what it is rounded up by.
const ALLOCATION: usize = 16;

/// What a name costs that is known for its events alone, see [`crate::Names`].
const NAME: usize = 80;

/// The bytes that an event is counted for without a frame: its line, itself and its counts.
pub(super) fn cold_cost<F>(event: &Event<F>) -> usize {
    event.text_len() + 2 * ALLOCATION + size_of::<Event<F>>() + 2 * size_of::<usize>()
}

/// The bytes of a slot with the room that a vector leaves free, of its subject's place, and perhaps
/// of its name.
pub(super) fn slot_cost<F>(subject: Id) -> usize {
    let name = if subject.is_name() { NAME } else { 0 };
    size_of::<KeptSlot<F>>() * 3 / 2 + 2 * size_of::<u32>() + name
}

/// The bytes of a frame of one format: the line, and what stands around it and is kept with it.
pub(super) fn frame_cost<F>(event: &Event<F>) -> usize {
    event.json().len() + Event::<F>::FRAME_BYTES + 3 * ALLOCATION
}
