//! A worker's lane: its reports, and its share of each turn.

use std::io;
use std::sync::Arc;

use super::Worker;
use crate::lane::{LANE_SOCKET, LaneDesk, LaneSocket};

impl Worker {
    /// It may have a lane, whose socket this is.
    pub(crate) fn set_lane_socket(&mut self, socket: Arc<LaneSocket>) -> io::Result<()> {
        self.lane_desk(0).register(&*socket, LANE_SOCKET)?;
        self.lane_socket = Some(socket);
        Ok(())
    }

    /// Something has come for the lane, on what it has registered as `index`.
    pub(super) fn lane_ready(&mut self, index: Option<u32>, hung_up: bool, now_ms: u64) {
        let (Some(index), Some(mut lane)) = (index, self.lane.take()) else { return };
        lane.ready(&self.lane_desk(now_ms), index, hung_up);
        self.lane = Some(lane);
    }

    /// All mail of the turn is delivered. `true` when the lane has work left.
    pub(super) fn lane_turned(&mut self, now_ms: u64) -> bool {
        if let Some(lane) = self.mailbox.take_lane() {
            self.lane = Some(lane);
            // What has come before it was there was reported to nobody.
            self.lane_ready(Some(LANE_SOCKET), false, now_ms);
        }
        let Some(mut lane) = self.lane.take() else { return false };
        let busy = lane.turned(&self.lane_desk(now_ms));
        self.lane = Some(lane);
        busy
    }

    fn lane_desk(&self, now_ms: u64) -> LaneDesk<'_> {
        let (epoll, bell) = (&self.epoll, self.mailbox.bell());
        LaneDesk { epoll, bell, worker: self.number(), now_ms }
    }
}
