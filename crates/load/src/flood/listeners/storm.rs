//! The storm: whom it takes, in slices.

use std::time::Duration;

use sys::{clock, socket};

use super::Listeners;
use crate::flood::coarse_time::CoarseTime;
use crate::flood::listener::Phase;
use crate::flood::role::Role;
use crate::random::mix;

/// Connections that a storm resets before the loop looks at the others again.
const RESETS_PER_TURN: usize = 64;

impl Listeners {
    /// Goes on with the storm, once it has broken out, by a slice.
    pub(super) fn storm(&mut self, now_ns: u64) {
        let is_time = || self.task.trouble.storm_ns().is_some_and(|at_ns| now_ns >= at_ns);
        if self.doomed.is_none() && is_time() {
            let taken =
                |&slot: &u32| matches!(self.task.role(slot), Role::Vanishing | Role::Returning);
            let mut doomed: Vec<u32> = (0..self.task.listeners).filter(taken).collect();
            // In any order, so that those who vanish and those who come back go together.
            doomed.sort_unstable_by_key(|&slot| mix(slot.into()));
            self.doomed = Some(doomed);
        }
        for _ in 0..RESETS_PER_TURN {
            let Some(slot) = self.doomed.as_mut().and_then(Vec::pop) else { return };
            self.reset(slot);
        }
    }

    /// The storm takes `slot`: an open stream is reset. One that is not open is left as it is.
    fn reset(&mut self, slot: u32) {
        let (role, config) = (self.task.role(slot), &self.task.config);
        let now_ns = clock::monotonic_ns();
        let away = config.storm.map_or(Duration::ZERO, |storm| storm.away);
        let due_ns = now_ns + away.as_nanos() as u64;
        let listener = &mut self.listeners[slot as usize];
        let open = listener.is_open();
        if let Some(socket) = listener.socket.take_if(|_| open) {
            // Fails only on a connection that is broken already.
            let _ = socket::reset_on_close(&socket);
            drop(socket);
            if let Some(secured) = &mut self.secured {
                secured.forget(slot);
            }
            listener.phase = Phase::Offline;
            listener.returning = role == Role::Returning;
            let resumes = listener.returning && config.resume;
            listener.due = resumes.then(|| CoarseTime::at(due_ns));
            self.tally.of(role).reset += 1;
        }
        self.task.trouble.resets.step(now_ns);
        if listener.returning {
            self.back.push_back((due_ns, slot));
        } else if role == Role::Returning {
            self.task.trouble.returns.step(now_ns);
        }
    }
}
