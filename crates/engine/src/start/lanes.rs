//! The lanes of an engine, for the control plane that gives them their work.

use std::sync::Arc;

use sys::limits as process_limits;

use super::{Engine, LaneEnds};
use crate::lane::Lane;
use crate::limits::{LANE_PLACES, LANE_PLACES_MIN, LANE_PLACES_SHARE};
use crate::mailbox::Order;
use crate::receipt::LaneBell;

impl Engine {
    /// The sockets of workers that may have a lane, and how many connections each may have.
    pub fn lanes(&self) -> (Arc<[LaneEnds]>, usize) {
        let descriptors = process_limits::descriptors().map_or(0, |limit| limit.soft);
        (self.lane_sockets.clone(), places(descriptors))
    }

    /// Gives a worker that has a socket for it its lane; what wakes that.
    pub fn open_lane(&self, worker: usize, lane: Box<dyn Lane>) -> LaneBell {
        self.mailboxes[worker].post_order(Order::Lane(lane));
        LaneBell(self.mailboxes[worker].bell().clone())
    }
}

/// Connections that a lane has room for, where a table has so many descriptors.
fn places(descriptors: u64) -> usize {
    LANE_PLACES.min(descriptors / LANE_PLACES_SHARE) as usize
}

/// How many workers have lanes: of so many, on so many cores.
pub(super) fn count(workers: usize, cores: usize, descriptors: u64) -> usize {
    let are_many = places(descriptors) >= LANE_PLACES_MIN as usize;
    if are_many { cores.min(workers) } else { 0 }
}

/// Descriptors of a worker that are for lanes, and for what wakes the workers that it `rings`: its
/// own lane, if it `has_one`, has its connections.
pub(super) fn reserved(has_one: bool, rings: usize, descriptors: u64) -> usize {
    rings + if has_one { places(descriptors) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{BELLS_SHARE, DESCRIPTORS_RESERVED, UNPLACED_MAX};
    use crate::workers::fair_capacity;

    #[test]
    fn worker_with_a_lane_has_room_for_the_connections_that_it_is_meant_to_have() {
        for descriptors in (1_024..80_000).chain([1 << 20]) {
            let bells = (descriptors / BELLS_SHARE).min(64) as usize;
            let beside = reserved(true, bells, descriptors) + UNPLACED_MAX;
            let room = descriptors - DESCRIPTORS_RESERVED - beside as u64;
            assert!(room >= fair_capacity(descriptors), "{descriptors} descriptors");
        }
    }
}
