//! The pauses of streams that were written to ([`crate::shard::gathering`]).

use std::collections::VecDeque;

use crate::column::Column;

/// The pauses of all streams that were written to.
pub(in crate::shard) struct Gathering {
    /// How long each is, in milliseconds.
    pub(in crate::shard) length_ms: u64,
    /// When each ends, in milliseconds since the engine's start, and of which slot it is.
    pub(in crate::shard) pauses: VecDeque<(u64, u32)>,
    /// Which slots have one.
    pub(in crate::shard) paused: Column<bool>,
    /// No pause begins, and there are none.
    pub(in crate::shard) rests: bool,
}

impl Gathering {
    /// Pauses of that length; `None` where they have none.
    pub(in crate::shard) fn new(length_ms: u64) -> Option<Box<Gathering>> {
        let (pauses, paused) = (VecDeque::new(), Column::default());
        let rests = false;
        (length_ms > 0).then(|| Box::new(Gathering { length_ms, pauses, paused, rests }))
    }

    /// When the next pause ends.
    pub(in crate::shard) fn next_ms(&self) -> Option<u64> {
        self.pauses.front().map(|&(end_ms, _)| end_ms)
    }

    /// The slot of a pause that is over by `now_ms`, or any where there are to be none.
    pub(in crate::shard) fn take_over(&mut self, now_ms: u64) -> Option<u32> {
        let rests = self.rests;
        let (_, slot) = self.pauses.pop_front_if(|&mut (end_ms, _)| rests || end_ms <= now_ms)?;
        self.paused.take(slot);
        Some(slot)
    }
}
