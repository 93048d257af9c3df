//! The memory handed on to the process that goes on for this one.
//!
//! ```text
//! dump, dump, …        while events come, a slice at a time   -> take_over, each in its turn
//! dump, the rest       once none come any more                -> take_over
//! evicted_range        after that                             -> take_over_evicted
//! ```
//!
//! What was forgotten while it was handed on, the successor forgets with the last step. So it
//! answers as this memory would have, though it may still know an event that is forgotten here. Up
//! to that step it holds no bound but that of a subject's events.
//!
//! Both must have the same key of names ([`Names::key`](crate::Names::key)): of subjects without
//! events nothing is known but their hash.
//!
//! Cost: of each event a copy of its line, under the lock for as long as a slice takes.

use std::borrow::Cow;
use std::sync::Arc;

use super::kept::Listed;
use super::{History, State};
use crate::connection_id::LeftOut;
use crate::event::{Event, LineForm};
use crate::id::IdText;

/// One event of a memory that is handed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// Its number, which the line has, too.
    pub number: u64,
    /// [`Event::json`]; empty where the event has come before, of another of its subjects.
    pub line: String,
    /// The subject that it is remembered of, where that is not the first one of the event.
    pub subject: Option<String>,
    /// What its line has: earlier versions do not read all. Without a meaning to who takes it over.
    pub form: LineForm,
    /// [`Event::except`].
    pub except: LeftOut,
    /// For how many milliseconds it has been remembered.
    pub age_ms: u64,
    /// The number of the last event before it that its subject has lost; 0 when it has lost none,
    /// or when that is known already.
    pub lost: u64,
}

/// What a memory that is handed on has forgotten altogether.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EvictedRange {
    /// Of no subject anything is known up to this number.
    pub floor: u64,
    /// Subjects that are not listed have lost no event above this number.
    pub evicted_floor: u64,
    /// Subjects that have no events any more, as what lasts of their ids, and the number of the
    /// last one that they had. Ascending numbers, 114,688 at most.
    pub evicted: Vec<(u64, u64)>,
    /// Where there are rules: what is so of those of each rule, first of those that none fits. Then
    /// the floor above is the greatest one.
    pub rules: Vec<EvictedRule>,
}

/// What has been forgotten of the subjects of one rule.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EvictedRule {
    /// Its pattern; empty for those that none fits. Where the rules of what is kept on disk bound
    /// what is remembered, theirs is added to it.
    pub pattern: String,
    /// Subjects of it that are not listed have lost no event above this number.
    pub evicted_floor: u64,
    /// All its events up to here are forgotten: the oldest one goes first.
    pub last: u64,
}

impl EvictedRange {
    /// The number of the last event that is forgotten.
    pub fn last(&self) -> u64 {
        self.evicted.last().map_or(0, |&(_, number)| number).max(self.evicted_floor)
    }

    /// Of each rule, where all are alike that of all others too.
    fn by_rule(&self) -> Vec<EvictedRule> {
        match self.rules.is_empty() {
            true => vec![EvictedRule {
                pattern: String::new(),
                evicted_floor: self.evicted_floor,
                last: self.last(),
            }],
            false => self.rules.clone(),
        }
    }
}

impl<F> History<F> {
    /// The events above the number `after`, in ascending order, until their lines have
    /// `most_bytes` together, one at least. None: there are no more for now.
    ///
    /// To go on where the last call has ended costs nothing; from elsewhere the list is walked.
    pub fn dump(&self, after: u64, most_bytes: usize, now_ms: u64) -> Vec<Remembered> {
        let mut state = self.lock();
        let State { kept, dumped, floor, .. } = &mut *state;
        let (mut slice, mut bytes) = (Vec::<Remembered>::new(), 0);
        for (slot, listed) in kept.above(after.max(*floor), *dumped) {
            let number = listed.event.number();
            let is_further = slice.last().is_some_and(|last| last.number == number);
            // One about several subjects comes whole: the next call goes on behind its number.
            if bytes >= most_bytes && !is_further && !slice.is_empty() {
                break;
            }
            let line = if is_further { "" } else { listed.event.json() };
            bytes += line.len();
            slice.push(Remembered {
                number,
                line: line.to_owned(),
                subject: self.further_subject(&listed),
                form: listed.event.form(),
                except: listed.event.except(),
                age_ms: now_ms.saturating_sub(listed.at_ms),
                // One that is over by itself is so there, too.
                lost: listed.lost.min(number.saturating_sub(1)),
            });
            *dumped = slot;
        }
        slice
    }

    /// The text of the subject that an event is listed under, unless that is its first one.
    fn further_subject(&self, listed: &Listed<'_, F>) -> Option<String> {
        listed.event.also().next()?;
        self.names.text(listed.subject).filter(|text| *text != listed.event.about())
    }

    /// What was forgotten, to be asked for when the last event has been dumped.
    pub fn evicted_range(&self) -> EvictedRange {
        let state = self.lock();
        let evicted = state.evicted.list();
        let of_rule =
            |(pattern, (&evicted_floor, last))| EvictedRule { pattern, evicted_floor, last };
        let known = state.evicted.floors().iter().zip(state.evicted.last());
        let rules = match self.rules.is_one() {
            true => Vec::new(),
            false => self.rules.names().into_iter().zip(known).map(of_rule).collect(),
        };
        let evicted_floor = state.evicted.floors().iter().copied().max().unwrap_or(0);
        EvictedRange { floor: state.floor, evicted_floor, evicted, rules }
    }

    /// Takes over an event that another memory has dumped. `false`, and nothing is changed, when it
    /// is none, or not newer than all that are here.
    #[must_use]
    pub fn take_over(&self, remembered: Remembered, now_ms: u64) -> bool {
        let Remembered { number, line, subject, except, age_ms, lost, .. } = remembered;
        let mut state = self.lock();
        let newest = state.kept.newest().filter(|newest| newest.number() == number);
        // One that has come of another of its subjects comes without its line.
        let event = match newest {
            Some(newest) if line.is_empty() => Arc::clone(newest),
            _ => match Event::of_line(line) {
                Some(event) if newest.is_none() => Arc::new(event.leaving_out(except)),
                _ => return false,
            },
        };
        let is_further = newest.is_some();
        let is_its = |subject: &str| event.also().any(|id| id == subject);
        let about = match &subject {
            None => event.about(),
            Some(subject) if is_its(subject) => Cow::Borrowed(subject.as_str()),
            Some(_) => return false,
        };
        let Ok(about) = IdText::of_key(&about) else { return false };
        if event.number() != number || lost >= number {
            return false;
        }
        let before = state.kept.newest_number().max(state.evicted.last().max().unwrap_or(0));
        let is_here =
            || self.names.lookup(about).map(|id| state.kept.newest_of(id)) == Some(Some(number));
        if if is_further { is_here() } else { number <= before } {
            return false;
        }
        let subject = self.names.acquire(about);
        let rule = self.rule_of(&state, subject);
        let events = if is_further {
            // Whoever holds it keeps its frames warm.
            drop(event);
            state.kept.push_further(subject, rule)
        } else {
            state.kept.push(subject, rule, event, now_ms.saturating_sub(age_ms))
        };
        if events > 1 {
            // The subject has its name already.
            self.names.release(subject);
        }
        // Nobody is being sent it here.
        state.kept.cool(0, true, 1);
        state.kept.lose_up_to(subject, lost);
        if state.kept.events_of(subject) > self.rules.events_max(rule) {
            self.forget(&mut state, subject);
        }
        self.bound_bytes(&mut state, subject, rule);
        true
    }

    /// Forgets what the other memory has forgotten, after all of its events have been inherited,
    /// and what is beyond the bounds.
    pub fn take_over_evicted(&self, evicted_range: EvictedRange, now_ms: u64) {
        let patterns = self.rules.names();
        let mut state = self.lock();
        state.floor = state.floor.max(evicted_range.floor);
        let theirs = self.rules.by_pair(evicted_range.by_rule());
        let rules: Vec<(u64, u64)> = if theirs.iter().map(|rule| &rule.pattern).eq(&patterns) {
            for (subject, number, rule) in state.kept.up_to(evicted_range.last()) {
                // It is listed there, or below that floor, unless it has a later event here.
                if number <= theirs[usize::from(rule)].last
                    && let Some((_, true)) = state.kept.pop(subject)
                {
                    self.names.release(subject);
                }
            }
            theirs.iter().map(|rule| (rule.evicted_floor, rule.last)).collect()
        } else {
            // Of which of the rules here what was forgotten there is, nobody can tell.
            let floor = theirs.iter().map(|rule| rule.evicted_floor).max().unwrap_or(0);
            vec![(floor, evicted_range.last()); patterns.len()]
        };
        state.evicted.take_over(&rules, &evicted_range.evicted);
        self.forget_beyond(&mut state);
        self.forget_aged(&mut state, now_ms, usize::MAX);
    }
}
