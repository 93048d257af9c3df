//! Of which subjects events are kept on disk, how long and how many.

use std::sync::Arc;

use hub::{IdPatterns, KeptBounds};
use thiserror::Error;

/// The most rules: each of them is looked at for each subject of an event.
const RULES_MAX: usize = 32;

/// The most events of a subject by a rule that counts them: so many are counted to find the first.
const RULE_EVENTS_MAX: u64 = 1_000_000;

/// How much is kept of the subjects that a pattern fits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepRule {
    pattern: IdPatterns,
    /// Milliseconds after which an event is not answered any more.
    pub age_ms_max: u64,
    /// Events of one subject, if they are bounded; of more the last ones.
    pub events_max: Option<u64>,
    /// Bytes of the lines of one subject's events, if they are bounded; of more the last ones.
    pub bytes_max: Option<u64>,
}

/// Why there is no such rule, or not so many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadKeepRule {
    /// It is no id, no topic and no beginning of one.
    #[error(
        "the pattern is an id, a topic or the beginning of some with * at its end, without white \
         space"
    )]
    Pattern,
    /// Nothing would be kept, or too much.
    #[error("a rule keeps events for some time, from 1 to {RULE_EVENTS_MAX} of an id")]
    Bounds,
    /// Over the most rules.
    #[error("there are at most {RULES_MAX} rules")]
    Many,
}

impl KeepRule {
    /// The rule for the id or topic `pattern`, or for all that begin with what stands before its
    /// `*`: events are kept so many milliseconds.
    ///
    /// # Errors
    ///
    /// [`BadKeepRule`].
    pub fn new(pattern: &str, age_ms_max: u64) -> Result<KeepRule, BadKeepRule> {
        let pattern =
            IdPatterns::parse_names([pattern.into()]).map_err(|_| BadKeepRule::Pattern)?;
        if age_ms_max == 0 {
            return Err(BadKeepRule::Bounds);
        }
        Ok(KeepRule { pattern, age_ms_max, events_max: None, bytes_max: None })
    }

    /// The rule with these bounds of one subject.
    ///
    /// # Errors
    ///
    /// [`BadKeepRule::Bounds`].
    pub fn with_bounds(
        self,
        events_max: Option<u64>,
        bytes_max: Option<u64>,
    ) -> Result<KeepRule, BadKeepRule> {
        let is_counted = events_max.is_none_or(|most| (1..=RULE_EVENTS_MAX).contains(&most));
        if !is_counted || bytes_max == Some(0) {
            return Err(BadKeepRule::Bounds);
        }
        Ok(KeepRule { events_max, bytes_max, ..self })
    }

    /// Whether the pattern fits `id`.
    pub fn fits(&self, id: &str) -> bool {
        self.pattern.allows(id)
    }

    /// Whether the pattern fits all names that begin with `literal`.
    pub(crate) fn fits_all(&self, literal: &str) -> bool {
        let pattern = self.pattern();
        pattern.strip_suffix('*').is_some_and(|prefix| literal.starts_with(prefix))
    }

    /// Whether the pattern fits any name that begins with `literal`.
    pub(crate) fn fits_some(&self, literal: &str) -> bool {
        let pattern = self.pattern();
        self.fits_all(literal) || pattern.trim_end_matches('*').starts_with(literal)
    }

    /// What it leaves to the memory.
    pub(crate) fn bounds(&self) -> KeptBounds {
        let events_max = self.events_max.map_or(usize::MAX, |most| most as usize);
        let bytes_max = self.bytes_max.unwrap_or(u64::MAX);
        KeptBounds { pattern: self.pattern(), events_max, bytes_max, age_ms_max: self.age_ms_max }
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> String {
        self.pattern.texts().next().map(String::from).unwrap_or_default()
    }
}

/// The rules in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeepRules(Arc<[KeepRule]>);

impl KeepRules {
    /// These rules, of which the first one that fits counts.
    ///
    /// # Errors
    ///
    /// [`BadKeepRule::Many`].
    pub fn new(rules: Vec<KeepRule>) -> Result<KeepRules, BadKeepRule> {
        if rules.len() > RULES_MAX { Err(BadKeepRule::Many) } else { Ok(KeepRules(rules.into())) }
    }

    /// The rules in their order.
    pub fn iter(&self) -> impl Iterator<Item = &KeepRule> {
        self.0.iter()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How long the first to go of all names that begin with `literal` is kept, in milliseconds, of
    /// those that are.
    pub(crate) fn age_ms_of_some(&self, literal: &str) -> u64 {
        let behind = self.iter().position(|rule| rule.fits_all(literal));
        let rules = self.iter().take(behind.map_or(usize::MAX, |last| last + 1));
        let ages = rules.filter(|rule| rule.fits_some(literal)).map(|rule| rule.age_ms_max);
        ages.min().unwrap_or(u64::MAX)
    }

    /// The rule that counts for `id`, if it is kept.
    pub fn find(&self, id: &str) -> Option<&KeepRule> {
        self.0.get(self.place(id)?)
    }

    /// The place of the rule that counts for `id`.
    pub(crate) fn place(&self, id: &str) -> Option<usize> {
        self.0.iter().position(|rule| rule.fits(id))
    }
}
