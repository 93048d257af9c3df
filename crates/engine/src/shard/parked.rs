//! Mail that waits in its shard: a large one for which a turn has no more time, and what must not
//! overtake it.
//!
//! An event for a crowd of which each has a full backlog takes a write for each of them: a tenth of
//! a millisecond where they are long. It is handed over as far as a turn has time for, and the rest
//! waits here. Small mail that comes meanwhile goes before it, unless it is for a connection of
//! which something waits. So each connection has its mail in the order of posting, and a large
//! audience delays nobody else's events.
//!
//! Cost, while something waits: a binary search in each waiting mail for each connection of a small
//! one.

use std::collections::VecDeque;

use hub::ConnRef;

use crate::limits::{EXPRESS_TARGETS_MAX, MAIL_TARGETS_MAX, PARKED_MAILS_MAX};
use crate::mailbox::Mail;

/// Mail that waits, in the order of posting.
#[derive(Debug, Default)]
pub(super) struct Parked {
    mails: VecDeque<Rest>,
    weight: usize,
}

/// What is left of a mail: so many of its connections have it.
#[derive(Debug)]
pub(super) struct Rest {
    pub(super) mail: Mail,
    pub(super) from: usize,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.mails.is_empty()
    }

    /// Whether no more mail is to be taken.
    pub(super) fn is_full(&self) -> bool {
        self.mails.len() >= PARKED_MAILS_MAX || self.weight >= MAIL_TARGETS_MAX
    }

    /// Whether `mail` must wait behind what is here. Large mail keeps its order.
    pub(super) fn holds_up(&self, mail: &Mail) -> bool {
        match mail {
            _ if self.is_empty() => false,
            Mail::Deliver { targets, .. } if targets.len() <= EXPRESS_TARGETS_MAX => {
                targets.iter().any(|&target| self.has(target))
            }
            Mail::CatchUp(catch_up) => self.has(catch_up.target),
            Mail::Say(say) => self.has(say.target),
            Mail::Room(text) => text.targets.iter().any(|&target| self.has(target)),
            // It has nothing to do with events.
            Mail::TokenResult(_) => false,
            _ => true,
        }
    }

    fn has(&self, target: ConnRef) -> bool {
        self.mails.iter().any(|rest| rest.is_for(target))
    }

    pub(super) fn push_back(&mut self, rest: Rest) {
        self.weight += rest.mail.weight();
        self.mails.push_back(rest);
    }

    /// What was taken out was done in part.
    pub(super) fn push_front(&mut self, rest: Rest) {
        self.weight += rest.mail.weight();
        self.mails.push_front(rest);
    }

    pub(super) fn pop_front(&mut self) -> Option<Rest> {
        let rest = self.mails.pop_front()?;
        self.weight -= rest.mail.weight();
        Some(rest)
    }

    /// The number of the first event that waits.
    pub(super) fn first_number(&self) -> Option<u64> {
        self.mails.iter().find_map(|rest| match &rest.mail {
            Mail::Deliver { event, .. } => Some(event.number()),
            _ => None,
        })
    }
}

impl Rest {
    /// Whether something of it is for whoever has the slot of `target`.
    fn is_for(&self, target: ConnRef) -> bool {
        match &self.mail {
            Mail::Deliver { targets, .. }
            | Mail::Text { targets, .. }
            | Mail::Close { targets, .. } => {
                targets[self.from..].binary_search_by_key(&target.slot(), |of| of.slot()).is_ok()
            }
            Mail::Room(text) => {
                text.targets.binary_search_by_key(&target.slot(), |of| of.slot()).is_ok()
            }
            Mail::CatchUp(catch_up) => catch_up.target.slot() == target.slot(),
            Mail::Say(say) => say.target.slot() == target.slot(),
            Mail::TokenResult(result) => result.target.slot() == target.slot(),
            Mail::Gap { .. } | Mail::Revoke(_) | Mail::Drain { .. } => true,
        }
    }
}
