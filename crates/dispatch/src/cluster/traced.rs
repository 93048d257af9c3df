//! When the log had a send, for the traces of some of them.
//!
//! A node knows a send by its ticket until it is answered, and by its number once the log has it.
//! The answer alone tells which number a ticket has. So while a send with a trace is under way, it
//! is noted when each number was read. Otherwise nothing is.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use cluster::{Outcome, Ticket};

use crate::traces::Marks;

/// Numbers whose time is kept: those of a second, after which a send is answered in any case, at
/// 16,000 a second. 24 bytes each. A trace whose number is forgotten has no place in the log.
const READ_MAX: usize = 16 * 1024;

/// Sends with a trace that are under way.
#[derive(Debug, Default)]
pub(super) struct Traced {
    marks: HashMap<Ticket, Arc<Marks>>,
    /// Growing numbers, and when they were read.
    read: VecDeque<(u64, Instant)>,
}

impl Traced {
    /// `ticket` is under way; with `marks` it has a trace.
    pub(super) fn begin(&mut self, ticket: Ticket, marks: Option<Arc<Marks>>) {
        if let Some(marks) = marks {
            self.marks.insert(ticket, marks);
        }
    }

    /// This number was read from the log.
    pub(super) fn read(&mut self, number: u64) {
        if self.marks.is_empty() {
            return;
        }
        // Another epoch's are greater.
        self.read.truncate(self.read.partition_point(|(before, _)| *before < number));
        if self.read.len() == READ_MAX {
            self.read.pop_front();
        }
        self.read.push_back((number, Instant::now()));
    }

    /// `ticket` is answered.
    pub(super) fn end(&mut self, ticket: Ticket, outcome: Outcome) {
        if self.marks.is_empty() {
            return;
        }
        if let Some(marks) = self.marks.remove(&ticket)
            && let Outcome::Sent { number, .. } = outcome
            && let Ok(place) = self.read.binary_search_by_key(&number, |(number, _)| *number)
        {
            marks.posted(self.read[place].1);
        }
        if self.marks.is_empty() {
            self.read.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(number: u64) -> Outcome {
        Outcome::Sent { number, delivered: 1, at_least: false }
    }

    #[test]
    fn send_with_a_trace_is_told_when_its_number_was_read_and_others_cost_nothing() {
        let (mut traced, marks) = (Traced::default(), Arc::<Marks>::default());
        traced.begin(Ticket(1), None);
        traced.read(10);
        assert!(traced.read.is_empty(), "no trace is under way");
        traced.begin(Ticket(2), Some(Arc::clone(&marks)));
        let before = Instant::now();
        (11..15).for_each(|number| traced.read(number));
        traced.end(Ticket(1), sent(11));
        assert_eq!(marks.posted_at(), None, "it is another's");
        traced.end(Ticket(2), sent(12));
        assert!(marks.posted_at().is_some_and(|at| at >= before));
        assert!(traced.marks.is_empty() && traced.read.is_empty());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let (mut traced, marks) = (Traced::default(), Arc::<Marks>::default());
        traced.begin(Ticket(1), Some(Arc::clone(&marks)));
        (0..READ_MAX as u64 + 2).for_each(|number| traced.read(number));
        assert_eq!(traced.read.len(), READ_MAX);
        traced.end(Ticket(1), sent(0));
        assert_eq!(marks.posted_at(), None);
    }
}
