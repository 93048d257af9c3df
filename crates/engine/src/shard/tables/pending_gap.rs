//! A gap of which not all have been told ([`crate::shard::gap`]).

/// Those who are still to be told.
#[derive(Debug)]
pub(in crate::shard) struct PendingGap {
    /// Up to this number events may be missing.
    pub(in crate::shard) up_to: u64,
    /// A bit for each slot: its connection is still to be told.
    pub(in crate::shard) slots: Vec<u64>,
    /// How many slots there were, the one whose turn it is, and how many there are to go, around to
    /// where it began. Slots that come meanwhile are of clients who come behind the gap.
    pub(in crate::shard) count: u32,
    pub(in crate::shard) next: u32,
    pub(in crate::shard) left: u32,
}

impl PendingGap {
    /// All of so many slots, from the slot `next` on.
    pub(in crate::shard) fn all(up_to: u64, count: u32, next: u32) -> PendingGap {
        let words = count.div_ceil(u64::BITS) as usize;
        PendingGap { up_to, slots: vec![u64::MAX; words], count, next, left: count }
    }

    pub(in crate::shard) fn has(&self, slot: u32) -> bool {
        let word = self.slots.get((slot / u64::BITS) as usize);
        word.is_some_and(|word| word >> (slot % u64::BITS) & 1 == 1)
    }

    pub(in crate::shard) fn take(&mut self, slot: u32) -> bool {
        let has = self.has(slot);
        if has {
            self.slots[(slot / u64::BITS) as usize] &= !(1 << (slot % u64::BITS));
        }
        has
    }

    pub(in crate::shard) fn take_next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let slot = self.next;
        self.next = if slot + 1 < self.count { slot + 1 } else { 0 };
        Some(slot)
    }
}
