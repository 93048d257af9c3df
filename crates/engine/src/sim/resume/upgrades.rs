//! Another version takes over while clients come back, wait for what they have missed, and get it.

use std::sync::Arc;

use hub::Names;

use super::world::{Control, ENDING_STEPS, Resumers};
use crate::sim::lives::To;
use crate::sim::server::SHARDS;
use crate::sim::world::NEVER;

impl Resumers {
    /// Of so many random steps all but the last ones, with upgrades between them. How many there
    /// are left.
    pub(super) fn work_and_upgrade(&mut self, control: &mut Control, steps: usize) -> usize {
        let mut left = steps;
        while self.plan.upgrade_after < NEVER {
            let some = 1 + self.upgrades.below(2 * self.plan.upgrade_after);
            if some + 2 * ENDING_STEPS > left {
                break;
            }
            // Sends that are not posted begin anew elsewhere, and nobody answers who has asked.
            drop(self.work(control, some, false));
            self.upgrade(control);
            left -= some;
        }
        left
    }

    /// Another version of the server takes over.
    pub(super) fn upgrade(&mut self, control: &mut Control) {
        loop {
            for shard in 0..SHARDS {
                while !self.server.is_at_rest(shard) {
                    self.turn(shard);
                }
            }
            if self.server.tick_at_rest() {
                break;
            }
        }
        self.count_resumes();
        let names = Arc::new(Names::new(self.graph.names.key()));
        self.graph = self.graph.restored(names.clone());
        let to = To::AnyShard;
        control.router = self.server.upgrade(&control.router, names, to, &mut self.upgrades);
        control.mailboxes = self.server.mailboxes.clone();
        control.keep(&self.archive, None);
        for connection in self.users.iter_mut().filter_map(|user| user.online.as_mut()) {
            connection.place = self.server.find(connection.place);
        }
    }

    pub(super) fn count_resumes(&mut self) {
        self.resumed += self.server.resumes.resumed();
        self.gaps += self.server.resumes.gaps();
    }
}
