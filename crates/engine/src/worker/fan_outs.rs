//! A worker sends to large audiences as long as it has a [permit](crate::fan_outs) for that, where
//! permits are needed.

use std::sync::Arc;

use crate::fan_outs::{HOLD_NS, RungPermits};

/// Whether a worker may send to large audiences.
#[derive(Clone, Copy, Debug)]
enum FanOutRight {
    None,
    /// It stands in the queue for one.
    Waits,
    Permit {
        until_ns: u64,
    },
}

/// A worker's part in the permits.
pub(super) struct FanOuts {
    permits: Option<Arc<RungPermits>>,
    worker: usize,
    right: FanOutRight,
}

impl FanOuts {
    pub(super) fn new(permits: Option<Arc<RungPermits>>, worker: usize) -> FanOuts {
        FanOuts { permits, worker, right: FanOutRight::None }
    }

    /// Whether a turn that began at `now_ns` may send to large audiences.
    pub(super) fn may_go_on(&mut self, now_ns: u64) -> bool {
        let Some(permits) = &self.permits else { return true };
        if matches!(self.right, FanOutRight::Waits) && permits.take_granted(self.worker) {
            self.right = FanOutRight::Permit { until_ns: now_ns + HOLD_NS };
        }
        matches!(self.right, FanOutRight::Permit { .. })
    }

    /// A turn ends at `now_ns`, which has something `left` to send to large audiences or not.
    /// Whether the next one may go on with it at once.
    pub(super) fn turned(&mut self, left: bool, now_ns: u64) -> bool {
        let Some(permits) = &self.permits else { return false };
        let is_over = |until_ns| now_ns >= until_ns;
        self.right = match self.right {
            FanOutRight::Permit { until_ns } if !left || is_over(until_ns) => {
                permits.give_back();
                FanOutRight::None
            }
            FanOutRight::Waits if !left => {
                permits.leave(self.worker);
                FanOutRight::None
            }
            right => right,
        };
        if left && matches!(self.right, FanOutRight::None) {
            self.right = match permits.take(self.worker) {
                true => FanOutRight::Permit { until_ns: now_ns + HOLD_NS },
                false => FanOutRight::Waits,
            };
        }
        matches!(self.right, FanOutRight::Permit { .. })
    }

    /// Whether this worker waits for a permit.
    pub(super) fn wait(&self) -> bool {
        matches!(self.right, FanOutRight::Waits)
    }

    /// Whether this worker was passed the permit that it waits for.
    pub(super) fn are_granted(&self) -> bool {
        self.wait() && self.permits.as_ref().is_some_and(|permits| permits.is_granted(self.worker))
    }
}

impl Drop for FanOuts {
    fn drop(&mut self) {
        self.turned(false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mailbox::Mailbox;

    fn workers<const N: usize>(cores: usize) -> [FanOuts; N] {
        let mailboxes = (0..N).map(|_| Arc::new(Mailbox::new().unwrap())).collect();
        let permits = RungPermits::of(N, cores, 20_000, &mailboxes);
        std::array::from_fn(|worker| FanOuts::new(permits.clone(), worker))
    }

    #[test]
    fn worker_with_a_core_of_its_own_always_may() {
        let [mut one, _] = workers(2);
        assert!(one.may_go_on(0) && !one.turned(true, 0) && !one.wait());
    }

    #[test]
    fn permit_goes_round_in_slices_and_back() {
        let [mut one, mut two, mut three] = workers(1);
        assert!(!one.may_go_on(0) && one.turned(true, 0), "who comes first has it");
        assert!(!two.turned(true, 1) && !three.turned(true, 2));
        assert!(one.may_go_on(3) && one.turned(true, HOLD_NS - 1), "for its time");
        assert!(!one.turned(true, HOLD_NS) && one.wait());
        assert!(two.are_granted() && two.may_go_on(HOLD_NS) && !three.may_go_on(HOLD_NS));
        assert!(!two.turned(false, HOLD_NS), "nothing is left");
        assert!(three.may_go_on(HOLD_NS) && !three.turned(true, 2 * HOLD_NS));
        assert!(one.may_go_on(2 * HOLD_NS));
        drop(one);
        assert!(three.are_granted());
        drop(three);
        assert!(two.turned(true, 0), "none is lost");
        assert!(two.turned(true, HOLD_NS), "nobody else wants it");
    }

    #[test]
    fn worker_whose_audience_has_gone_leaves_the_queue() {
        let [mut one, mut two, mut three] = workers(1);
        assert!(one.turned(true, 0) && !two.turned(true, 0) && !three.turned(true, 0));
        assert!(!two.turned(false, 0) && !two.wait());
        assert!(!one.turned(false, 0));
        assert!(!two.are_granted() && three.are_granted());
    }
}
