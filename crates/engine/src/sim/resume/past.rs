//! Users whose streams begin in the past, as long as they have no place: with all that is
//! remembered, or with the last events about each of their ids.

use std::collections::BTreeSet;

use super::PLAN;
use super::world::Resumers;
use crate::sim::random::Random;

/// What a user wants to hear of before, and must have heard.
#[derive(Clone, Debug)]
pub(in crate::sim) struct UserPast {
    /// So many events of each id; none is all that are remembered.
    last: Option<usize>,
    /// The last number before its stream began.
    begun: u64,
    /// The last events of its ids up to there.
    due: BTreeSet<u64>,
    /// The place with which it came back, from where on it hears all.
    back: u64,
}

impl UserPast {
    pub(super) fn random(random: &mut Random) -> UserPast {
        let last = random.one_in(2).then(|| 1 + random.below(40));
        UserPast { last, begun: 0, due: BTreeSet::new(), back: u64::MAX }
    }

    /// `head` with the parameter that asks for it.
    pub(super) fn ask(&self, head: &[u8]) -> Vec<u8> {
        let parameter = match self.last {
            Some(most) => format!("?last={most}&"),
            None => "?after=earliest&".to_owned(),
        };
        let head = str::from_utf8(head).expect("a head is text");
        assert!(head.contains('?'));
        head.replacen('?', &parameter, 1).into_bytes()
    }

    /// It goes on from the place `number`.
    pub(super) fn come_back(&mut self, number: u64) {
        self.back = self.back.min(number);
    }

    /// Whether the event `number` is to be heard by whom it is for.
    pub(super) fn is_due(&self, number: u64) -> bool {
        self.last.is_none() || number > self.begun.min(self.back) || self.due.contains(&number)
    }
}

impl Resumers {
    /// The stream of a user begins now.
    pub(super) fn begin_past(&mut self, user: usize) {
        let forgets = self.plan.history.age_ms_max < PLAN.history.age_ms_max;
        let user = &mut self.users[user];
        if forgets {
            user.excused.extend(0..self.sent.len());
        }
        let (Some(past), begun) = (&mut user.past, self.server.event_ids.last()) else { return };
        past.begun = begun;
        past.due.clear();
        for id in &user.ids {
            let about = self.sent.iter().filter(|(about, _)| about == id);
            let mut numbers: Vec<u64> = about.filter_map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            past.due.extend(numbers.iter().rev().take(past.last.unwrap_or_default()));
        }
    }
}
