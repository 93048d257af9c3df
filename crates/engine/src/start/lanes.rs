//! The lanes of an engine, for the control plane that gives them their work.

use std::sync::Arc;

use sys::limits as process_limits;

use super::Engine;
use crate::lane::{Lane, LaneBell, LaneSocket};
use crate::limits::{LANE_PLACES, LANE_SHARE};

impl Engine {
    /// The sockets of workers that may have a lane, and how many connections each may have.
    pub fn lanes(&self) -> (Arc<[Arc<LaneSocket>]>, usize) {
        let descriptors = process_limits::descriptors().map_or(0, |limit| limit.soft);
        (self.lane_sockets.clone(), lane_places(descriptors))
    }

    /// Gives a worker that has a socket for it its lane; what wakes that.
    pub fn open_lane(&self, worker: usize, lane: Box<dyn Lane>) -> LaneBell {
        self.mailboxes[worker].post_lane(lane);
        LaneBell(self.mailboxes[worker].bell().clone())
    }
}

/// Connections that a lane has room for, where a table has so many descriptors.
pub(super) fn lane_places(descriptors: u64) -> usize {
    LANE_PLACES.min(descriptors / LANE_SHARE) as usize
}
