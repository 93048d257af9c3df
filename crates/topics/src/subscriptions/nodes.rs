//! What the nodes of a cluster have more of it: others may want it, and the log brings the updates
//! of changes.

use serde::Deserialize;

use super::paths::below;
use super::{NOTES_MAX, Subscriptions};

/// A change of who is subscribed whose update a cluster's log has brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToldChange {
    /// The path of the subscription.
    pub path: String,
    /// Whether it has begun, or ended.
    pub is_active: bool,
}

/// What of an update says whether a subscription has begun.
#[derive(Deserialize)]
struct Change {
    active: bool,
}

impl Subscriptions {
    /// This is one of several nodes: a client may have heard of it at another one.
    pub fn be_node(&self) {
        self.noted.lock().is_node = true;
    }

    /// Some node of the cluster wants it, or none does. `newest` as of
    /// [listeners](Subscriptions::listen).
    pub fn want_elsewhere(&self, is_wanted: bool, newest: impl FnOnce() -> u64) {
        let mut noted = self.noted.lock();
        noted.is_elsewhere = is_wanted;
        if is_wanted {
            noted.begin(&self.is_wanted, newest);
        }
    }

    /// Whether the nodes of the cluster tell changes in the form of 1.0 from now on.
    pub fn tell_v1(&self, is_told: bool) {
        self.noted.lock().is_v1_told = is_told;
    }

    /// Whether somebody at this node wants it, or did so of late.
    pub fn is_wanted_here(&self) -> bool {
        self.noted.lock().is_here
    }

    /// What an update on `topics` with this data tells, if that is a change which somebody wants to
    /// know.
    pub fn change_of(&self, topics: &[String], data: &str) -> Option<ToldChange> {
        let [path] = topics else { return None };
        if !self.is_wanted() {
            return None;
        }
        below(path)?;
        let text: String = serde_json::from_str(data).ok()?;
        let Change { active } = serde_json::from_str(&text).ok()?;
        Some(ToldChange { path: path.clone(), is_active: active })
    }

    /// The update of this change is posted, as the log has brought it.
    pub fn tell(&self, change: ToldChange) {
        let mut noted = self.noted.lock();
        // Past it they count as never told.
        if noted.told.len() < NOTES_MAX {
            noted.told.push(change);
        }
    }

    /// The changes whose updates the log has brought.
    pub fn take_told(&self) -> Vec<ToldChange> {
        std::mem::take(&mut self.noted.lock().told)
    }
}
