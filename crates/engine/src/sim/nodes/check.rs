//! What each user must have heard at the end of a run.

use proto::Transport;

use super::world::Cluster;
use crate::sim::resume::user::{Heard, User};

impl Cluster {
    /// How many gaps were told.
    pub(super) fn check(&self) -> usize {
        self.users.iter().map(|user| self.check_user(user)).sum()
    }

    fn check_user(&self, user: &User) -> usize {
        let hears = |about: &String| user.hears(&self.graph, about);
        let Some(start) = user.start() else { return 0 };
        let events = self.log.events.iter().enumerate();
        let due = events.filter(|(_, (about, number))| hears(about) && *number > start);
        let mut due = due.map(|(index, (_, number))| (*number, index)).peekable();
        let (mut gap, mut gaps, mut behind, mut again) = (0, 0, start, 0);
        for (nth, &heard) in user.heard.iter().chain([&Heard::Cursor(u64::MAX - 1)]).enumerate() {
            let (number, is_event) = match heard {
                Heard::Event(number) => (number, true),
                Heard::Cursor(number) => (number, false),
                Heard::Gap(up_to) => {
                    (gap, gaps) = (self.end_of_gap(user, nth, up_to), gaps + 1);
                    // The node may be behind what its client has heard elsewhere.
                    (behind, again) = (0, again.max(behind));
                    continue;
                }
            };
            let near = &user.heard[nth.saturating_sub(8)..(nth + 3).min(user.heard.len())];
            let transport = user.transport;
            let grows = number >= behind + u64::from(is_event);
            assert!(grows, "{number:x} after {behind:x}: {near:x?} {transport:?}");
            behind = number;
            if number <= again {
                let sent = self.log.events.iter().find(|(_, sent)| *sent == number);
                assert!(!is_event || sent.is_some_and(|(about, _)| hears(about)));
                continue;
            }
            let before = number + u64::from(!is_event);
            while let Some((missed, index)) = due.next_if(|(due, _)| *due < before) {
                let excused = user.excused.contains(&index) || missed <= gap;
                assert!(excused, "{missed:x} is lost, {transport:?}: {near:x?}");
            }
            if is_event {
                assert_eq!(due.next().map(|next| next.0), Some(number), "{near:x?}");
            }
        }
        gaps
    }

    /// Up to where events may be missing that a gap is about: a stream that says at once where it
    /// stands behind it says so.
    fn end_of_gap(&self, user: &User, nth: usize, up_to: u64) -> u64 {
        match user.heard.get(nth + 1) {
            Some(Heard::Cursor(number)) if user.transport == Transport::Sse => up_to.min(*number),
            _ => up_to,
        }
    }
}
