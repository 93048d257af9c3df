//! How much is remembered of which subjects, where that is not the same of all.
//!
//! A rule has a pattern of ids, and the first one that fits a subject counts. It is looked for when
//! a subject has an event and has had none, and then known as long as the subject has any.

use std::sync::Arc;

use thiserror::Error;

use crate::id_patterns::IdPatterns;

/// The most rules: what is too old is looked for by each of them.
const RULES_MAX: usize = 32;

/// The most events of a subject by a rule.
const RULE_EVENTS_MAX: usize = 1_000_000;

/// How much is remembered of the subjects that a pattern fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistoryRule {
    pattern: IdPatterns,
    /// Events of one subject.
    pub events_max: usize,
    /// Milliseconds after which an event is forgotten.
    pub age_ms_max: u64,
}

/// Why there is no such rule, or not so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadRule {
    /// It is no id and no beginning of one.
    #[error("the pattern is an id, or the beginning of ids with * at its end")]
    Pattern,
    /// Nothing would be remembered, or too much.
    #[error("a rule remembers from 1 to {RULE_EVENTS_MAX} events of an id, for some time")]
    Bounds,
    /// Over [`RULES_MAX`].
    #[error("there are at most {RULES_MAX} rules")]
    Many,
}

impl HistoryRule {
    /// The rule for the id `pattern`, or for all ids that begin with what stands before its `*`.
    ///
    /// # Errors
    ///
    /// [`BadRule`].
    pub fn new(pattern: &str, events_max: usize, age_ms_max: u64) -> Result<HistoryRule, BadRule> {
        let pattern = IdPatterns::parse([pattern.into()]).map_err(|_| BadRule::Pattern)?;
        if !(1..=RULE_EVENTS_MAX).contains(&events_max) || age_ms_max == 0 {
            return Err(BadRule::Bounds);
        }
        Ok(HistoryRule { pattern, events_max, age_ms_max })
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> String {
        self.pattern.texts().next().map(String::from).unwrap_or_default()
    }
}

/// The rules in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HistoryRules(Arc<[HistoryRule]>);

impl HistoryRules {
    /// These rules, of which the first one that fits counts.
    ///
    /// # Errors
    ///
    /// [`BadRule::Many`].
    pub fn new(rules: Vec<HistoryRule>) -> Result<HistoryRules, BadRule> {
        if rules.len() > RULES_MAX { Err(BadRule::Many) } else { Ok(HistoryRules(rules.into())) }
    }

    /// Whether all subjects are alike.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The rules in their order.
    pub fn iter(&self) -> impl Iterator<Item = &HistoryRule> {
        self.0.iter()
    }

    /// The number of the rule for `id`: 1 is the first one, 0 is that of all others.
    pub(super) fn rule_of(&self, id: &str) -> u8 {
        let place = self.0.iter().position(|rule| rule.pattern.allows(id));
        place.map_or(0, |place| place as u8 + 1)
    }
}

/// How much is remembered of the subjects of one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleBounds {
    pub(super) events_max: usize,
    pub(super) age_ms_max: u64,
}
