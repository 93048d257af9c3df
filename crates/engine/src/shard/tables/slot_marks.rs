//! The slot of a connection and some marks, in one word of a record of which there are many.

use hub::ConnRef;

/// A slot, and eight marks: each a bit of a byte, by names that its user gives them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotMarks(u32);

/// The bits of a slot, and above them the marks.
const SLOT_BITS: u32 = 24;

const _: () = assert!(ConnRef::SLOTS_MAX <= 1 << SLOT_BITS);

impl SlotMarks {
    /// No mark is set.
    pub(super) fn new(slot: u32) -> SlotMarks {
        debug_assert!(slot < 1 << SLOT_BITS, "no worker has so many connections");
        SlotMarks(slot)
    }

    pub(super) fn slot(self) -> u32 {
        self.0 & ((1 << SLOT_BITS) - 1)
    }

    /// Whether one of these marks is set.
    pub(super) fn has(self, marks: u8) -> bool {
        self.0 & (u32::from(marks) << SLOT_BITS) != 0
    }

    /// Sets these marks, or takes them away.
    pub(super) fn set(&mut self, marks: u8, is_so: bool) {
        let marks = u32::from(marks) << SLOT_BITS;
        self.0 = self.0 & !marks | if is_so { marks } else { 0 };
    }
}
