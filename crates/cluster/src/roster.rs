//! Who is a member at each sequence of the log, and which records count.
//!
//! All of it follows from the log alone: a join makes the record's sequence a member, a second join
//! of the same name takes the place of the first one, a leave ends one. Events and logouts of who
//! is no member, and batches that came before, are *void* for every node: a batch counts once,
//! however often it was published and however late a copy comes, and who was declared gone knows at
//! its leave that nothing of it will count any more.
//!
//! A node that begins in the middle of the log knows none of this until another one tells it, or
//! until somebody founds the view anew. Until then it knows this much: who published a record after
//! it had read the last join or leave, or all before where we began, was a member by then. So that
//! record counts, if it is no copy of one that we have read; a copy of one that we have not would
//! have been published before. What was published by somebody who had read less is uncertain.

use std::collections::BTreeMap;

use crate::limits::MEMBERS_MAX;
use crate::record::Join;

/// A member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Member {
    /// The sequence of its join.
    pub(crate) incarnation: u64,
    pub(crate) name: String,
    pub(crate) address: String,
    /// Of its process.
    pub(crate) nonce: u64,
    /// The last batch of it that counted.
    pub(crate) last_batch: u64,
}

/// What a join came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joined {
    /// It is a member.
    Member,
    /// A newer process of its name is one, or there are too many.
    Refused,
}

/// Whether a record counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordCounts {
    Yes,
    /// For no node.
    No,
    /// Who knows the view knows it, and that is nobody here.
    Unknown,
}

/// The view.
#[derive(Debug)]
pub(crate) struct Roster {
    /// By incarnation.
    members: Vec<Member>,
    /// Where the view is not known.
    unlisted: Option<Unlisted>,
}

/// Who publishes into a log of which the view is not known.
#[derive(Debug)]
struct Unlisted {
    /// The last join or leave, or what is before all that we have read.
    changed: u64,
    /// By incarnation, the last batch that we have read.
    last_batch: BTreeMap<u64, u64>,
}

impl Roster {
    /// The view of a log of which all up to `before` was not read. That of a whole one is known.
    pub(crate) fn new(before: u64) -> Roster {
        let unlisted = Unlisted { changed: before, last_batch: BTreeMap::new() };
        Roster { members: Vec::new(), unlisted: (before > 0).then_some(unlisted) }
    }

    pub(crate) fn is_known(&self) -> bool {
        self.unlisted.is_none()
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    fn place(&self, incarnation: u64) -> Result<usize, usize> {
        debug_assert!(self.members.is_sorted_by(|one, next| one.incarnation < next.incarnation));
        self.members.binary_search_by_key(&incarnation, |member| member.incarnation)
    }

    /// Takes what another node knows at the same sequence.
    pub(crate) fn learn(&mut self, members: Vec<Member>) {
        debug_assert!(!self.is_known(), "what follows from the log is not told by anybody");
        debug_assert!(members.len() <= MEMBERS_MAX);
        *self = Roster { members, unlisted: None };
    }

    /// Whether a newer process than the one of `nonce` is a member under its name.
    pub(crate) fn has_newer(&self, name: &str, nonce: u64) -> bool {
        self.members.iter().any(|member| member.name == name && member.nonce > nonce)
    }

    /// A join at `sequence`. A founding one ends the view before it.
    pub(crate) fn join(&mut self, sequence: u64, nonce: u64, join: &Join) -> Joined {
        if join.founding.is_some() {
            *self = Roster::new(0);
        }
        if let Some(unlisted) = &mut self.unlisted {
            debug_assert!(unlisted.changed < sequence, "the log is read in its order");
            unlisted.changed = sequence;
        }
        if self.has_newer(&join.name, nonce) {
            return Joined::Refused;
        }
        self.members.retain(|member| member.name != join.name);
        if self.members.len() >= MEMBERS_MAX {
            return Joined::Refused;
        }
        debug_assert!(
            self.members.last().is_none_or(|last| last.incarnation < sequence),
            "members are searched for by incarnation, and the log grows"
        );
        self.members.push(Member {
            incarnation: sequence,
            name: join.name.clone(),
            address: join.address.clone(),
            nonce,
            last_batch: 0,
        });
        Joined::Member
    }

    /// A leave of `incarnation` at `sequence`; whether that was a member.
    pub(crate) fn leave(&mut self, sequence: u64, incarnation: u64) -> bool {
        if let Some(unlisted) = &mut self.unlisted {
            debug_assert!(unlisted.changed < sequence, "the log is read in its order");
            unlisted.changed = sequence;
        }
        let place = self.place(incarnation);
        place.is_ok_and(|place| self.members.remove(place).incarnation == incarnation)
    }

    /// Whether the next record counts: batch `batch` of `incarnation`, published when that had read
    /// up to `after`.
    pub(crate) fn counts(&mut self, incarnation: u64, batch: u64, after: u64) -> RecordCounts {
        let place = self.place(incarnation);
        let last = match (&mut self.unlisted, place) {
            (Some(unlisted), _) => {
                if after < unlisted.changed || unlisted.last_batch.len() >= MEMBERS_MAX {
                    return RecordCounts::Unknown;
                }
                unlisted.last_batch.entry(incarnation).or_default()
            }
            (None, Ok(place)) => &mut self.members[place].last_batch,
            (None, Err(_)) => return RecordCounts::No,
        };
        if batch <= *last {
            return RecordCounts::No;
        }
        *last = batch;
        RecordCounts::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(name: &str, founding: bool) -> Join {
        let name = name.to_owned();
        Join { name, address: String::new(), formats: (1, 1), founding: founding.then_some(0) }
    }

    #[test]
    fn batch_counts_once_and_only_of_a_member() {
        let mut roster = Roster::new(0);
        assert_eq!(roster.join(1, 100, &join("a", false)), Joined::Member);
        let mut counts =
            |incarnation, batch| roster.counts(incarnation, batch, 1) == RecordCounts::Yes;
        assert!(counts(1, 1) && counts(1, 3));
        assert!(!counts(1, 3) && !counts(1, 2) && !counts(9, 1));
        assert!(roster.leave(5, 1) && !roster.leave(6, 1));
        assert_eq!(roster.counts(1, 4, 4), RecordCounts::No);
    }

    #[test]
    fn newer_process_takes_the_place_of_an_older_one_of_its_name_and_not_the_other_way() {
        let mut roster = Roster::new(0);
        roster.join(1, 100, &join("a", false));
        assert_eq!(roster.join(2, 99, &join("a", false)), Joined::Refused);
        assert_eq!(roster.join(3, 101, &join("a", false)), Joined::Member);
        assert_eq!(roster.members().len(), 1);
        assert!(roster.place(1).is_err() && roster.place(3).is_ok());
        // Whoever knows nothing begins anew.
        roster.join(4, 1, &join("b", true));
        assert_eq!(roster.members().len(), 1);
    }

    #[test]
    fn who_does_not_know_the_view_takes_what_was_published_by_who_knew_it() {
        let mut roster = Roster::new(50);
        // A copy of what was before, or of who has left before.
        assert_eq!(roster.counts(7, 4, 49), RecordCounts::Unknown);
        assert_eq!(roster.counts(7, 4, 50), RecordCounts::Yes);
        assert_eq!(roster.counts(7, 4, 50), RecordCounts::No);
        roster.leave(60, 7);
        assert_eq!(roster.counts(8, 1, 59), RecordCounts::Unknown);
        assert_eq!(roster.counts(8, 1, 60), RecordCounts::Yes);
        assert!(!roster.is_known());
        roster.join(61, 1, &join("b", true));
        assert!(roster.is_known());
        assert_eq!(roster.counts(8, 2, 61), RecordCounts::No);
    }
}
