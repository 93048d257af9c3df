//! The sums of a run, and which of them are faults.

use serde::Serialize;

/// The sums.
#[derive(Clone, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Totals {
    /// Events sent.
    pub sent: u64,
    /// Events answered with their count.
    pub acknowledged: u64,
    /// Events answered with a problem.
    pub refused: u64,
    /// Events without an answer, since their node was killed.
    pub unanswered: u64,
    /// Those of the last two kinds that were heard, by all.
    pub heard_without_answer: u64,
    /// Connections that heard them, by the nodes' counts.
    pub delivered: u64,
    /// How many of those counts were lower bounds.
    pub at_least: u64,
    /// Events that listeners heard, over all listeners.
    pub heard: u64,
    /// Events that a listener should have heard and did not.
    pub lost: u64,
    /// Events that a listener heard again.
    pub doubled: u64,
    /// Events that a listener heard behind a later one.
    pub out_of_order: u64,
    /// Events heard by somebody who does not follow their subject.
    pub strays: u64,
    /// Times that a listener was told of a gap.
    pub gaps: u64,
    /// Counts that were too low and not said to be, while nobody was away.
    pub miscounted: u64,
    /// Times that a listener lost its stream.
    pub losses_of_stream: u64,
    /// Times that one went on at a node.
    pub resumed: u64,
}

/// What instruments know that do not know of each other's events: senders that were told how many
/// heard an event, and listeners that find what is missing between two events of one sender.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Sums {
    /// Events sent.
    pub sent: u64,
    /// Those that were answered with a count.
    pub acknowledged: u64,
    /// Those that were answered with a problem.
    pub refused: u64,
    /// What the counts add up to.
    pub delivered: u64,
    /// How many of the counts were lower bounds.
    pub at_least: u64,
    /// Events that listeners heard.
    pub heard: u64,
    /// Events that they miss before others that came.
    pub missing: u64,
    /// Events that came twice to one of them.
    pub doubled: u64,
    /// Events that came behind a later one.
    pub out_of_order: u64,
    /// Gaps that they were told of.
    pub gaps: u64,
    /// Streams that they lost.
    pub losses_of_stream: u64,
}

impl Totals {
    /// What the sums of instruments come to. Where a count is a lower bound more may be heard than
    /// the counts say, and that is no double.
    pub fn of(sums: Sums) -> Totals {
        let beyond = sums.heard.saturating_sub(sums.delivered);
        let beyond = if sums.at_least == 0 { beyond } else { 0 };
        Totals {
            sent: sums.sent,
            acknowledged: sums.acknowledged,
            refused: sums.refused,
            unanswered: sums.sent.saturating_sub(sums.acknowledged + sums.refused),
            delivered: sums.delivered,
            at_least: sums.at_least,
            heard: sums.heard,
            lost: sums.delivered.saturating_sub(sums.heard) + sums.missing,
            doubled: sums.doubled.max(beyond),
            out_of_order: sums.out_of_order,
            gaps: sums.gaps,
            losses_of_stream: sums.losses_of_stream,
            ..Totals::default()
        }
    }

    /// The counts that must be 0 whatever fails, each with what it counts.
    pub fn faults(&self) -> [(u64, &'static str); 7] {
        [
            (self.lost, "events were lost: a listener should have heard them and did not"),
            (self.doubled, "events came twice"),
            (self.out_of_order, "events came behind a later one"),
            (self.strays, "events were heard by who does not follow their subject"),
            (self.gaps, "times a gap was told"),
            (self.miscounted, "counts were too low, and not told as lower bounds"),
            (self.refused, "events were refused"),
        ]
    }
}
