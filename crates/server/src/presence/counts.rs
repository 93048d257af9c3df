//! What is counted of presence.

use serde::Serialize;

use super::Kind;
use crate::count::Count;

/// All counts since the start, and what waits for webhooks now.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) online: Count,
    pub(crate) offline: Count,
    pub(crate) lost: Count,
    pub(crate) early: Count,
    pub(crate) behind: Count,
    pub(crate) webhook_taken: Count,
    pub(crate) webhook_failed: Count,
    pub(crate) webhook_dropped: Count,
    pub(crate) webhook_backlog: Count,
}

/// All figures at one moment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Listeners now, by kind.
    pub(crate) listeners: [usize; Kind::ALL.len()],
    /// Ids that have gone and may come back within their grace.
    pub(crate) waiting: usize,
    /// Since the start: ids told online,
    pub(crate) online: u64,
    /// ids told offline,
    pub(crate) offline: u64,
    /// changes that nobody was told, because there was no room for them,
    pub(crate) lost: u64,
    /// ids told offline before their grace was over, because too many waited,
    pub(crate) early: u64,
    /// and how often a listener was too slow.
    pub(crate) behind: u64,
    /// Batches that webhooks took,
    pub(crate) webhook_taken: u64,
    /// tries that failed,
    pub(crate) webhook_failed: u64,
    /// events that their backlogs had no room for,
    pub(crate) webhook_dropped: u64,
    /// and those that wait in them now.
    pub(crate) webhook_backlog: u64,
}

impl Counts {
    pub(super) fn report(&self, listeners: [usize; Kind::ALL.len()], waiting: usize) -> Report {
        Report {
            listeners,
            waiting,
            online: self.online.read(),
            offline: self.offline.read(),
            lost: self.lost.read(),
            early: self.early.read(),
            behind: self.behind.read(),
            webhook_taken: self.webhook_taken.read(),
            webhook_failed: self.webhook_failed.read(),
            webhook_dropped: self.webhook_dropped.read(),
            webhook_backlog: self.webhook_backlog.read(),
        }
    }
}
