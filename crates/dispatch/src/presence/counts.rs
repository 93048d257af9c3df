//! What is counted of presence.

use serde::Serialize;

use super::Kind;
use crate::count::SharedCount;
use crate::webhook::WebhookCounts;

/// All counts since the start, and what waits for webhooks now.
#[derive(Debug, Default)]
pub struct Counts {
    /// Ids that were told to be online.
    pub online: SharedCount,
    /// Ids that were told to be offline.
    pub offline: SharedCount,
    /// Changes that nobody could be told.
    pub lost: SharedCount,
    /// Ids told offline before their grace was over.
    pub early: SharedCount,
    /// How often a listener was too slow.
    pub behind: SharedCount,
    /// What is counted of webhooks.
    pub webhooks: WebhookCounts,
}

/// All figures at one moment.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Listeners now, by kind.
    pub listeners: [usize; Kind::ALL.len()],
    /// Ids that have gone and may come back within their grace.
    pub waiting: usize,
    /// Since the start: ids told online,
    pub online: u64,
    /// ids told offline,
    pub offline: u64,
    /// changes that nobody was told, because there was no room for them,
    pub lost: u64,
    /// ids told offline before their grace was over, because too many waited,
    pub early: u64,
    /// and how often a listener was too slow.
    pub behind: u64,
    /// Batches that webhooks took,
    pub webhook_taken: u64,
    /// tries that failed,
    pub webhook_failed: u64,
    /// events that their backlogs had no room for,
    pub webhook_dropped: u64,
    /// and those that wait in them now.
    pub webhook_backlog: u64,
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
            webhook_taken: self.webhooks.taken.read(),
            webhook_failed: self.webhooks.failed.read(),
            webhook_dropped: self.webhooks.dropped.read(),
            webhook_backlog: self.webhooks.backlog.read(),
        }
    }
}
