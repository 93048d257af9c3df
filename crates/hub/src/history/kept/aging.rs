//! Events in the order in which they are too old: those of one rule are among those of others.
//!
//! Each rule has a slot before which none is of it. What is of another rule is passed over, once by
//! each rule, when it is older than the rule lets its own be.

use std::iter;

use super::{Kept, KeptSlot};
use crate::id::Id;

/// When an event came, in milliseconds, and by which rule it is remembered: the lower two bytes.
#[derive(Clone, Copy)]
pub(super) struct Stamp(u64);

impl Stamp {
    /// Of a slot without an event.
    pub(super) const NONE: Stamp = Stamp(0);

    pub(super) fn new(at_ms: u64, rule: u16) -> Stamp {
        debug_assert!(at_ms < 1 << 48, "8,900 years of a machine");
        Stamp(at_ms << 16 | u64::from(rule))
    }

    pub(super) fn at_ms(self) -> u64 {
        self.0 >> 16
    }

    pub(super) fn rule(self) -> u16 {
        self.0 as u16
    }
}

/// Of one rule the next event that may be too old.
pub(in crate::history) enum Aged {
    /// The oldest one of this subject is.
    Of(Id),
    /// One of another rule was passed over: ask again.
    OfAnotherRule,
    /// None is.
    None,
}

impl<F> Kept<F> {
    /// The rule of `subject`, as long as it has events.
    pub(in crate::history) fn rule_of(&self, subject: Id) -> Option<u16> {
        Some(self.first(subject)?.stamp.rule())
    }

    /// Looks at the next event of all that may be of `rule` and too old.
    pub(in crate::history) fn next_aged(
        &mut self,
        rule: u16,
        is_aged: impl Fn(u64) -> bool,
    ) -> Aged {
        let at = self.aging.get(usize::from(rule)).copied().unwrap_or(self.oldest);
        let Some(slot) = self.slots.get(at as usize) else { return Aged::None };
        if !is_aged(slot.stamp.at_ms()) {
            return Aged::None;
        }
        if slot.stamp.rule() == rule {
            // All that are older have gone, so it is its subject's oldest one.
            return Aged::Of(slot.subject);
        }
        self.aging[usize::from(rule)] = slot.newer;
        Aged::OfAnotherRule
    }

    /// The subject, number and rule of each event up to the number `last`, in ascending order.
    pub(in crate::history) fn up_to(&self, last: u64) -> Vec<(Id, u64, u16)> {
        let next = |slot: &&KeptSlot<F>| self.slots.get(slot.newer as usize);
        let slots = iter::successors(self.slots.get(self.oldest as usize), next);
        let slots = slots.take_while(|slot| slot.number <= last);
        slots.map(|slot| (slot.subject, slot.number, slot.stamp.rule())).collect()
    }
}
