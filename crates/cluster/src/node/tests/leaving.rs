//! A member that leaves while a record of another one is counted.

use super::*;
use crate::message::Counted;
use crate::record::{Event, LeaveReason};
use crate::{FORMAT, Outcome};

/// What a sender is told when the member 2 leaves right behind the event, for this `reason`, and
/// says only then that it has posted it to one connection: how many heard it, and whether at least.
fn told(reason: LeaveReason) -> Vec<(u64, bool)> {
    let mut driven = member();
    let (name, address) = ("b".to_owned(), String::new());
    let join = Join { name, address, formats: (FORMAT, FORMAT), founding: None };
    let head = Head { incarnation: 5, batch: 1, after: 0, chain: 0 };
    driven.reads(2, &Record { head, body: Body::Join(join) }.encode());
    assert_eq!(driven.node.status().members, 2);
    let event = Event { subject: "1".into(), line: "{}".into(), ..Event::default() };
    driven.does(|node, now| assert!(node.submit(now, event).is_ok()));
    let record = driven.published().pop().expect("it is published").encode();
    driven.reads(3, &record);
    let head = Head { incarnation: 2, batch: 0, after: 0, chain: 0 };
    let leave = Body::Leave { incarnation: 2, reason };
    driven.reads(4, &Record { head, body: leave }.encode());
    assert_eq!(driven.node.status().members, 1);
    driven.does(|node, now| node.posted(now, EPOCH.number, 3, 0, 1));
    let records = vec![Counted { sequence: 3, counts: vec![1] }];
    driven.hears(MessageBody::Counts { from: 2, records });
    let sent = |action: &Action| match action {
        Action::Answer { outcome: Outcome::Sent { delivered, at_least, .. }, .. } => {
            Some((*delivered, *at_least))
        }
        _ => None,
    };
    driven.actions.iter().filter_map(sent).collect()
}

#[test]
fn member_that_ends_in_order_is_waited_for_until_it_has_said_its_counts() {
    assert_eq!(told(LeaveReason::Drained), [(2, false)]);
}

#[test]
fn member_that_is_declared_gone_is_not_waited_for() {
    for reason in [LeaveReason::Silent, LeaveReason::Slow] {
        assert_eq!(told(reason), [(1, true)]);
    }
}
