//! Clients that come with a place which this node of a cluster has not come to yet.
//!
//! A client that has heard an event at one node may be at another before that has posted the same
//! event: by some milliseconds, or by seconds where a node lags. It is logged in and held, and its
//! question waits here, by the number of its place, until all up to there is posted. Then it is
//! asked as any other. Who has waited for [`FUTURE_MS_MAX`] is told of a gap, and goes on where the
//! node is: that is too far behind, or the place was made up.
//!
//! The place may be of a later epoch than the node knows: whoever was stopped while the cluster has
//! begun another log learns of it a moment after its clients come. It is the place of that epoch if
//! that has come to its number; else its client is told of a gap as well.
//!
//! Nobody else waits for them, and no worker sees them: whoever keeps this looks every few
//! milliseconds.
//!
//! Cost: a place in a tree for each, and as many steps as have come to their place or to their
//! time. They are bounded in number where they ask.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Context, Poll};

use crate::limits::{FUTURE_MS_MAX, FUTURE_STEPS_MAX};
use crate::resume::{Resume, Resumes};
use crate::router::Router;

/// Those that wait.
#[derive(Debug, Default)]
pub struct FutureCursors {
    /// By the number that is waited for, and by turn.
    waiting: BTreeMap<(u64, u64), Resume>,
    /// Until when each waits, in monotonic milliseconds, in their turn; some do not any more.
    until: VecDeque<(u64, (u64, u64))>,
    turns: u64,
}

impl FutureCursors {
    /// Waits until somebody begins to wait here. Resolves at once while somebody does.
    pub fn poll_any(&self, resumes: &Resumes, context: &mut Context<'_>) -> Poll<()> {
        if self.waiting.is_empty() { resumes.future.poll_any(context) } else { Poll::Ready(()) }
    }

    /// Lets those ask whose place is posted by now, or whose time is over, a slice of them. `true`
    /// when there may be more.
    pub fn go_on(&mut self, router: &Router, resumes: &Resumes, now_ms: u64) -> bool {
        for _ in 0..FUTURE_STEPS_MAX {
            let Some(resume) = resumes.future.take_and_count() else { break };
            self.turns += 1;
            let key = (resume.after, self.turns);
            self.until.push_back((now_ms + FUTURE_MS_MAX, key));
            self.waiting.insert(key, resume);
        }
        let posted = router.event_ids().posted();
        for _ in 0..FUTURE_STEPS_MAX {
            let first = self.waiting.first_entry();
            if let Some(come) = first.filter(|first| first.key().0 <= posted) {
                resumes.future.done(1, 0);
                let come = come.remove();
                // Of another epoch than the one that has come to that number: made up, or over.
                let tag = router.event_ids().id(come.after).tag();
                let is_lost = come.future_in.is_some_and(|future_in| future_in != tag);
                let after = if is_lost { posted } else { come.after };
                resumes.post_anyway(Resume { after, is_lost, future_in: None, ..come });
                continue;
            }
            let Some((_, key)) = self.until.pop_front_if(|(until_ms, _)| *until_ms <= now_ms)
            else {
                return resumes.future.is_any_to_take();
            };
            if let Some(lost) = self.waiting.remove(&key) {
                resumes.future.done(1, 0);
                resumes.post_anyway(Resume { after: posted, is_lost: true, ..lost });
            }
        }
        true
    }
}
