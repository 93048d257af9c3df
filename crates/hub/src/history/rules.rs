//! How much is remembered of which subjects, where that is not the same of all.
//!
//! A rule has a pattern of ids, and the first one that fits a subject counts. It is looked for when
//! a subject has an event and has had none, and then known as long as the subject has any.
//!
//! What is kept on disk has rules of its own ([`KeptBounds`]). Of it no more is remembered than
//! those keep, or the memory would answer what they have let go. So a subject has a pair of rules,
//! one of either kind or none, and the lesser bounds of the two.

use std::iter;
use std::sync::Arc;

use thiserror::Error;

use super::{EvictedRule, HistoryLimits};
use crate::archive::KeptBounds;
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
    fn rule_of(&self, id: &str) -> usize {
        let place = self.0.iter().position(|rule| rule.pattern.allows(id));
        place.map_or(0, |place| place + 1)
    }
}

/// Says which of these rules counts for an id, by its place among them, if it is kept.
pub(super) type KeptRuleOf = Box<dyn Fn(&str) -> Option<usize> + Send + Sync>;

/// How much is remembered of the subjects of one rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct RuleBounds {
    pub(super) events_max: usize,
    /// Of the lines of one subject's events; `u64::MAX` where they are not counted.
    pub(super) bytes_max: u64,
    pub(super) age_ms_max: u64,
}

/// All pairs of rules by which subjects are remembered, by their numbers.
pub(super) struct RulePairs {
    own: HistoryRules,
    kept: Vec<KeptBounds>,
    /// There where some of what is kept is bounded.
    kept_rule_of: Option<KeptRuleOf>,
    /// Of what is not kept: of subjects that no rule fits, then of each rule. Then as many of what
    /// the first rule keeps, and so on.
    bounds: Box<[RuleBounds]>,
}

impl RulePairs {
    /// Those where nothing is kept: `limits` are of subjects that no rule fits.
    pub(super) fn new(limits: HistoryLimits, own: HistoryRules) -> RulePairs {
        let HistoryLimits { events_max, age_ms_max, .. } = limits;
        let others = RuleBounds { events_max, bytes_max: u64::MAX, age_ms_max };
        let bounds = own.iter().map(|rule| {
            let HistoryRule { events_max, age_ms_max, .. } = *rule;
            RuleBounds { events_max, bytes_max: u64::MAX, age_ms_max }
        });
        let bounds = iter::once(others).chain(bounds).collect();
        RulePairs { own, kept: Vec::new(), kept_rule_of: None, bounds }
    }

    /// Those where so much is kept. None are added where all of it is kept for longer than anything
    /// is remembered: each costs a look with each event.
    pub(super) fn with_kept(self, kept: Vec<KeptBounds>, kept_rule_of: KeptRuleOf) -> RulePairs {
        let own = &self.bounds;
        let is_less = |kept: &KeptBounds| {
            let is_less = |own: &RuleBounds| {
                kept.events_max < own.events_max
                    || kept.bytes_max < own.bytes_max
                    || kept.age_ms_max < own.age_ms_max
            };
            own.iter().any(is_less)
        };
        if !kept.iter().any(is_less) {
            return self;
        }
        let pairs = kept.iter().flat_map(|kept| own.iter().map(move |own| own.lesser(kept)));
        let bounds = own.iter().copied().chain(pairs).collect();
        RulePairs { kept, kept_rule_of: Some(kept_rule_of), bounds, ..self }
    }

    /// Of each pair, in the order of their numbers.
    pub(super) fn bounds(&self) -> &[RuleBounds] {
        &self.bounds
    }

    /// How many events are remembered of a subject of `pair`.
    pub(super) fn events_max(&self, pair: u16) -> usize {
        self.bounds[usize::from(pair)].events_max
    }

    /// How many bytes of their lines; `u64::MAX` where they are not counted.
    pub(super) fn bytes_max(&self, pair: u16) -> u64 {
        self.bounds[usize::from(pair)].bytes_max
    }

    /// Whether all subjects are alike.
    pub(super) fn is_one(&self) -> bool {
        self.bounds.len() == 1
    }

    /// The number of the pair for `id`.
    pub(super) fn pair_of(&self, id: &str) -> u16 {
        let kept = self.kept_rule_of.as_ref().and_then(|kept_rule_of| kept_rule_of(id));
        let before = kept.map_or(0, |place| (place + 1) * (self.own.0.len() + 1));
        let pair = before + self.own.rule_of(id);
        debug_assert!(pair < self.bounds.len(), "a rule that keeps is one of those");
        pair as u16
    }

    /// What another memory says of its rules, for each pair here, if it has no pairs and our own
    /// rules: there each pair was of its own rule. Else as it is.
    pub(super) fn by_pair(&self, theirs: Vec<EvictedRule>) -> Vec<EvictedRule> {
        let names = self.names();
        let own = &names[..=self.own.0.len()];
        if !theirs.iter().map(|rule| &rule.pattern).eq(own) {
            return theirs;
        }
        let pairs = names.iter().zip(theirs.iter().cycle());
        pairs.map(|(name, rule)| EvictedRule { pattern: name.clone(), ..rule.clone() }).collect()
    }

    /// By what another process knows the pairs, in their order: whoever has the same ones has the
    /// same pair for each subject.
    pub(super) fn names(&self) -> Vec<String> {
        let patterns = self.own.iter().map(HistoryRule::pattern);
        let mut names: Vec<String> = iter::once(String::new()).chain(patterns).collect();
        let own = names.clone();
        for KeptBounds { pattern, events_max, bytes_max, age_ms_max } in &self.kept {
            // No pattern has a blank, so none is taken for a pair.
            let mut kept = format!("{pattern} {age_ms_max} {events_max}");
            // Earlier versions count no bytes: their pairs are these where nobody does.
            if *bytes_max != u64::MAX {
                kept = format!("{kept} {bytes_max}");
            }
            names.extend(own.iter().map(|own| format!("{own} {kept}")));
        }
        names
    }
}

impl RuleBounds {
    fn lesser(self, kept: &KeptBounds) -> RuleBounds {
        RuleBounds {
            events_max: self.events_max.min(kept.events_max),
            bytes_max: self.bytes_max.min(kept.bytes_max),
            age_ms_max: self.age_ms_max.min(kept.age_ms_max),
        }
    }
}
