//! A worker's lane: its reports, and its share of each turn.

use std::io;
use std::sync::Arc;

use super::Worker;
use crate::lane::{LANE_SOCKET, Lane, LaneSocket, LaneTurn, lane_index};

impl Worker {
    /// It may have a lane, whose socket this is.
    pub(crate) fn set_lane_socket(&mut self, socket: Arc<LaneSocket>) -> io::Result<()> {
        self.lane_turn(0).register(&*socket, LANE_SOCKET)?;
        self.lane_socket = Some(socket);
        // Senders would wait with it.
        self.serving.take_no_permits();
        Ok(())
    }

    /// Does what `lane` does for senders from now on.
    pub(super) fn begin_lane(&mut self, mut lane: Box<dyn Lane>, now_ms: u64) {
        // What has come before it was there was reported to nobody.
        lane.ready(&self.lane_turn(now_ms), LANE_SOCKET, false);
        self.lane = Some(lane);
    }

    /// Tells the lane what has come for it.
    pub(super) fn hear_lane(&mut self, now_ms: u64) {
        if std::mem::replace(&mut self.is_lane_told, true) {
            return;
        }
        let Some(mut lane) = self.lane.take() else { return };
        let turn = self.lane_turn(now_ms);
        for event in self.serving.reports.iter() {
            if let Some(index) = lane_index(event.token) {
                lane.ready(&turn, index, event.hung_up());
            }
        }
        self.lane = Some(lane);
    }

    /// All mail of the turn is delivered. `true` when the lane has work left.
    pub(super) fn lane_turned(&mut self, now_ms: u64) -> bool {
        let Some(mut lane) = self.lane.take() else { return false };
        let busy = lane.turned(&self.lane_turn(now_ms));
        self.lane = Some(lane);
        busy
    }

    fn lane_turn(&self, now_ms: u64) -> LaneTurn<'_> {
        let (epoll, bell) = (&self.epoll, self.mailbox.bell());
        LaneTurn { epoll, bell, now_ms }
    }
}
