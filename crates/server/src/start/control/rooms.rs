//! What tells of who is in rooms and channels, begun.

use std::sync::{Arc, PoisonError};

use super::ControlPlane;
use crate::watchlists;

impl ControlPlane {
    /// Begins to tell webhooks of channels, clients of rooms, and users of whom they watch.
    pub(super) fn begin_rooms(&self) {
        let (barrier, watches) = (&self.sender.barrier, self.state.watches());
        if let Some(hooks) = self.pusher_hooks.clone() {
            let (router, watches) = (Arc::clone(&self.router), watches.cloned());
            let (barrier, nodes) = (Arc::clone(barrier), self.cluster.clone());
            tokio::spawn(dispatch::pusher_hooks::run(hooks, router, watches, barrier, nodes));
        }
        let Some(watches) = watches else { return };
        let link = self.cluster.as_ref().and_then(|cluster| cluster.rooms_link());
        let of_hooks = self.pusher_hooks.as_ref().map(|hooks| Arc::clone(hooks.rooms()));
        let subjects = of_hooks.into_iter().chain(self.state.subscriber_rooms()).collect();
        let (barrier, grace) = (Arc::clone(barrier), self.presence_grace);
        tokio::spawn(dispatch::members::run(watches.clone(), barrier, grace, link, subjects));
        let engine = self.engine.read().unwrap_or_else(PoisonError::into_inner);
        tokio::spawn(watchlists::answer(watches.clone(), self.graph.clone(), engine.answers()));
    }
}
