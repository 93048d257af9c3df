//! What the nodes have agreed on is another epoch.

use std::time::Duration;

use nats::Entry;
use sys::clock;

use super::NodeLoop;
use crate::cluster::agreement::Agreed;

impl NodeLoop {
    pub(super) fn epoch(&mut self, entry: Option<Entry>) {
        let entry = match entry.as_ref().map(Agreed::read).transpose() {
            Ok(entry) => entry,
            Err(error) => return tracing::error!("{error:#}"),
        };
        let ours = self.agreed.epoch().number;
        match entry {
            Some(agreed) if agreed.epoch().number > ours => {
                self.put_back = false;
                self.tag_before = self.agreed.tag();
                self.agreed = agreed;
                self.node.epoch(clock::monotonic_ms(), self.agreed.epoch());
            }
            Some(agreed) if agreed.is(&self.agreed) => {
                self.put_back = false;
                self.agreed = agreed;
            }
            // Others may go on from there: so that nobody does, all go on from here.
            entry => {
                self.agreed.revision = entry.map_or(0, |entry| entry.revision);
                if !std::mem::replace(&mut self.put_back, true) {
                    self.propose_anew(Duration::ZERO);
                }
            }
        }
    }
}
