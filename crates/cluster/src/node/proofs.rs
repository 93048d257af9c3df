//! Up to when a node has done all that the log had: known by its own batches, which it makes at a
//! moment and reads back. All that was in the log at that moment stands before them.

use std::collections::VecDeque;

use crate::limits::PROOFS_MAX;

/// Batches of ours that were read.
#[derive(Debug, Default)]
pub(super) struct Proofs {
    /// Sequences of those that are not all posted, and when they were made.
    read: VecDeque<(u64, u64)>,
    proved_ms: Option<u64>,
}

impl Proofs {
    /// One that was made at `made_ms` was read at `sequence`, and counts.
    pub(super) fn read(&mut self, sequence: u64, made_ms: u64) {
        debug_assert!(self.read.back().is_none_or(|&(last, _)| last < sequence));
        // Where so many wait the newest alone is of use.
        if self.read.len() >= PROOFS_MAX {
            self.read.pop_back();
        }
        self.read.push_back((sequence, made_ms));
        debug_assert!(self.read.len() <= PROOFS_MAX);
    }

    /// All up to `sequence` is done.
    pub(super) fn applied(&mut self, sequence: u64) {
        while let Some((_, made_ms)) = self.read.pop_front_if(|(at, _)| *at <= sequence) {
            self.proved_ms = self.proved_ms.max(Some(made_ms));
        }
    }

    /// Part of the log is not read, or it is another one.
    pub(super) fn clear(&mut self) {
        self.read.clear();
    }

    /// All that was in the log at this moment is done.
    pub(super) fn proved_ms(&self) -> Option<u64> {
        self.proved_ms
    }
}
