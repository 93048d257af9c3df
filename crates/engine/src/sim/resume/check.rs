//! What each user must have heard at the end of a run.

use super::IDS;
use super::user::{Heard, User};
use super::world::Resumers;
use crate::sim::scene::id_text;
use crate::sim::world::NEVER;

impl Resumers {
    /// How many gaps were told.
    pub(super) fn check(&self) -> usize {
        self.users.iter().map(|user| self.check_user(user)).sum()
    }

    fn check_user(&self, user: &User) -> usize {
        let hears = |about: &String| user.hears(&self.graph, about);
        let Some(start) = user.start() else { return 0 };
        let mut due: Vec<(u64, usize)> = (0..self.sent.len())
            .filter(|&sent| hears(&self.sent[sent].0))
            // Without a number are those that a restart has cut off.
            .filter_map(|sent| Some((self.sent[sent].1?, sent)))
            .filter(|(number, _)| *number > start)
            .filter(|(number, _)| user.past.as_ref().is_none_or(|past| past.is_due(*number)))
            .collect();
        due.sort();
        let mut due = due.into_iter().peekable();
        let (mut gap, mut gaps, mut behind) = (0, 0, start);
        for heard in user.heard.iter().copied().chain([Heard::Cursor(u64::MAX - 1)]) {
            let (number, is_event) = match heard {
                Heard::Event(number) => (number, true),
                Heard::Cursor(number) => (number, false),
                Heard::Gap(up_to) => {
                    (gap, gaps) = (up_to, gaps + 1);
                    continue;
                }
            };
            assert!(number >= behind + u64::from(is_event), "{number:x}: {:x?}", user.heard);
            behind = number;
            while let Some((missed, sent)) =
                due.next_if(|(due, _)| *due < number + u64::from(!is_event))
            {
                let excused = user.excused.contains(&sent)
                    || missed <= gap && !self.is_kept_for_sure(&self.sent[sent].0);
                let last = &user.heard[user.heard.len().saturating_sub(6)..];
                assert!(
                    excused,
                    "{missed:x} is lost before {heard:x?}, {:?}: {last:x?}",
                    user.transport
                );
            }
            if is_event {
                assert_eq!(due.next().map(|next| next.0), Some(number), "what was sent to it");
            }
        }
        // Another version does not know of what a poll was told that it takes over.
        let may_be_told_again = self.plan.upgrade_after < NEVER
            || self.plan.keeps.is_some_and(|keeps| keeps.fails_one_in < usize::MAX);
        let told = user.told_again == 0 || may_be_told_again;
        assert!(told, "told again of a gap: {:x?}", user.heard);
        let subjects = (0..IDS).map(id_text).filter(|about| hears(about));
        let is_all_kept = { subjects }.all(|about| self.is_kept_for_sure(&about));
        assert!(gaps == 0 || !is_all_kept, "a gap, though all it hears is kept: {:x?}", user.heard);
        gaps
    }
}
