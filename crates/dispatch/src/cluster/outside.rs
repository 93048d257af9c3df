//! A node that stays outside although nothing keeps it there that is known: it ends, with a
//! sentence. Better a process that is started anew than one that refuses all for good.

use std::sync::Weak;
use std::time::Duration;

use nats::NatsClient;
use tokio_util::sync::CancellationToken;

use super::agreement::Agreed;
use super::{Cluster, Membership, NodeStatus};

/// How often it is looked at a node that is no member, and how often in a row nothing may have
/// moved while NATS is well: for a minute.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOKS: u32 = 12;

/// What was seen of a node at the last looks. Looks are counted and no time: if this process stands
/// still, nobody looks.
#[derive(Debug, Default)]
struct Watch {
    /// Looks in a row at which it was kept out.
    looks: u32,
    place: Option<(Membership, u64, u64)>,
    /// How often NATS had no room.
    no_room: u64,
}

impl Watch {
    /// Whether the node was outside at the last look, and is where it was. One that waits for the
    /// graph, or for room in NATS, comes in when it has that.
    fn stands(&mut self, status: &NodeStatus, waits_for_graph: bool, no_room: u64) -> bool {
        let place = Some((status.membership, status.epoch, status.node.read));
        // One that lost its place by a new epoch is called a member until it is one again.
        let is_out = status.membership != Membership::Gone && status.node.incarnation.is_none();
        let was_there = std::mem::replace(&mut self.place, place) == place;
        let had_room = std::mem::replace(&mut self.no_room, no_room) == no_room;
        is_out && was_there && had_room && !waits_for_graph
    }

    /// Whether it is to end, now that it is known whether it is kept out.
    fn is_over(&mut self, is_kept_out: bool) -> bool {
        self.looks = if is_kept_out { self.looks + 1 } else { 0 };
        self.looks >= LOOKS
    }
}

/// Looks at a node as long as it lives, and ends it.
pub(super) async fn mind(cluster: Weak<Cluster>, stop: CancellationToken) {
    let mut watch = Watch::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(cluster) = cluster.upgrade() else { return };
        let (standing, status) = (&cluster.standing, cluster.status());
        let no_room = standing.nats.counts().no_room;
        let stands = watch.stands(&status, standing.waits_for_graph(&status), no_room);
        if watch.is_over(stands && is_whole(&standing.nats).await) {
            tracing::error!(
                "NATS is well, and yet this node has been no member of its cluster for {} s ({}): \
                 it ends, to be started anew",
                (LOOK_EVERY * LOOKS).as_secs(),
                standing.obstacle(&status),
            );
            return stop.cancel();
        }
    }
}

/// Whether all that a node needs of NATS is there: what was agreed on, and the log of that.
async fn is_whole(nats: &NatsClient) -> bool {
    let Ok(Some(entry)) = nats.epoch().await else { return false };
    let Ok(agreed) = Agreed::read(&entry) else { return false };
    match nats.find_log(agreed.epoch().number).await {
        Ok(log) => log.extent().await.is_ok(),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(membership: Membership, incarnation: Option<u64>) -> NodeStatus {
        let mut status = NodeStatus { membership, epoch: 1, ..NodeStatus::default() };
        status.node.incarnation = incarnation;
        status
    }

    /// One that was kept out at this look.
    fn looks(watch: &mut Watch, status: &NodeStatus) -> bool {
        let stands = watch.stands(status, false, 0);
        watch.is_over(stands)
    }

    #[test]
    fn node_that_is_kept_out_at_twelve_looks_in_a_row_ends() {
        for membership in [Membership::Joining, Membership::Away, Membership::Member] {
            let (mut watch, out) = (Watch::default(), status(membership, None));
            // At the first one it is not known where it was.
            assert!((0..LOOKS).all(|_| !looks(&mut watch, &out)), "{membership:?}");
            assert!(looks(&mut watch, &out), "{membership:?}");
        }
        let (mut watch, member) = (Watch::default(), status(Membership::Member, Some(7)));
        assert!((0..100).all(|_| !looks(&mut watch, &member)));
        let (mut watch, gone) = (Watch::default(), status(Membership::Gone, None));
        assert!((0..100).all(|_| !looks(&mut watch, &gone)), "it is ending");
    }

    #[test]
    fn whatever_moves_or_is_waited_for_begins_the_minute_anew() {
        let out = status(Membership::Joining, None);
        let changes: [fn(&mut NodeStatus); 3] = [
            |status| status.epoch += 1,
            |status| status.node.read += 1,
            |status| status.membership = Membership::Away,
        ];
        for change in changes {
            let (mut watch, mut out) = (Watch::default(), out.clone());
            (0..LOOKS).for_each(|_| assert!(!looks(&mut watch, &out)));
            change(&mut out);
            assert!((0..LOOKS).all(|_| !looks(&mut watch, &out)));
            assert!(looks(&mut watch, &out));
        }
        let mut watch = Watch::default();
        (0..LOOKS).for_each(|_| assert!(!looks(&mut watch, &out)));
        assert!(!watch.stands(&out, true, 0), "it waits for the graph");
        assert!(watch.stands(&out, false, 0) && !watch.stands(&out, false, 1), "there is no room");
        // NATS was not whole.
        assert!(!watch.is_over(false) && watch.looks == 0);
    }
}
