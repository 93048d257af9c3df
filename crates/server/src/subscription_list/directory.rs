//! Who is subscribed, as the directory has it.
//!
//! Cost: a look at each name of a key, and at each connection of those that are selectors.

use std::sync::Arc;

use engine::Router;
use hub::{ConnRef, Id};
use topics::{HeldSelector, SubscriberNumber, Subscriptions, subscribed};

use crate::subscription_changes::has_path;

/// Connections of a topic that are read at one time, under a lock.
const WALKED_AT_ONCE: usize = 1_024;

/// Visits the subscriptions in the directory, until `visit` wants no more.
pub(super) fn visit_subscribed(
    router: &Router,
    subscriptions: &Subscriptions,
    mut visit: impl FnMut(&HeldSelector, SubscriberNumber, Option<Arc<str>>) -> bool,
) {
    let mut keys: Vec<(Id, HeldSelector)> = Vec::new();
    router.names().visit_keys(|id, text| {
        let held = subscribed(text).filter(has_path);
        keys.extend(held.map(|held| (id, held)));
    });
    for (id, held) in keys {
        let mut after: Option<ConnRef> = None;
        loop {
            let mut conns = Vec::new();
            after = router.walk(id, after, WALKED_AT_ONCE, |conn| conns.push(conn));
            for conn in conns {
                if !visit(&held, subscriptions.number(conn), subscriptions.payload(conn)) {
                    return;
                }
            }
            if after.is_none() {
                break;
            }
        }
    }
}
