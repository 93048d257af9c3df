//! At which app each connection is.

use std::sync::Arc;

use pusher::App;

use crate::column::Column;
use crate::pusher_apps::{AppsRead, PusherApps, ServedApp};

/// Apps that connections of this shard are at.
#[derive(Default)]
pub(in crate::shard) struct SeenApps {
    /// By slot: which of `seen`, from 1.
    of: Column<u32>,
    seen: Vec<Option<SeenApp>>,
    /// The apps of the last reading that was looked at, and which that was.
    read: Arc<AppsRead>,
    version: u64,
}

struct SeenApp {
    served: ServedApp,
    /// Connections of this shard.
    connections: usize,
}

impl SeenApps {
    /// The connection in `slot` is at this app, where it is counted.
    pub(in crate::shard) fn enter(&mut self, slot: u32, served: ServedApp) {
        let is_it = |seen: &Option<SeenApp>| {
            seen.as_ref().is_some_and(|seen| Arc::ptr_eq(&seen.served.usage, &served.usage))
        };
        let known = self.seen.iter().position(is_it);
        let place = known.or_else(|| self.seen.iter().position(Option::is_none));
        let place = place.unwrap_or_else(|| {
            self.seen.push(None);
            self.seen.len() - 1
        });
        let seen = self.seen[place]
            .get_or_insert_with(|| SeenApp { served: served.clone(), connections: 0 });
        (seen.served, seen.connections) = (served, seen.connections + 1);
        let before = self.of.set(slot, place as u32 + 1);
        debug_assert_eq!(before, 0, "a connection is at one app");
    }

    /// The connection in `slot` is there no more, if it was.
    pub(in crate::shard) fn leave(&mut self, slot: u32) {
        let Some(place) = (self.of.take(slot) as usize).checked_sub(1) else { return };
        let Some(seen) = &mut self.seen[place] else { return };
        seen.served.usage.give_back();
        seen.connections -= 1;
        if seen.connections == 0 {
            self.seen[place] = None;
        }
    }

    /// Whether the connection in `slot` is at one.
    pub(in crate::shard) fn has(&self, slot: u32) -> bool {
        self.of.get(slot) > 0
    }

    /// The app of the connection in `slot`, as it was last seen.
    pub(in crate::shard) fn last_seen(&self, slot: u32) -> Option<&Arc<App>> {
        let place = (self.of.get(slot) as usize).checked_sub(1)?;
        self.seen[place].as_ref().map(|seen| &seen.served.app)
    }

    /// The app of the connection in `slot` as it is now. One that is gone is what it was: its
    /// connections stay.
    pub(in crate::shard) fn app(&mut self, slot: u32, live: &PusherApps) -> Option<Arc<App>> {
        if self.version != live.version() {
            (self.version, self.read) = (live.version(), live.read());
            for seen in self.seen.iter_mut().flatten() {
                if let Some(served) = self.read.by_key(&seen.served.app.key) {
                    seen.served.app = served.app;
                }
            }
        }
        self.last_seen(slot).cloned()
    }
}
