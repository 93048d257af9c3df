//! Says which pages were refused because of their origin, each origin once, and what lets them in.
//! Workers only note them ([`engine::RefusedOrigins`]); they must not wait for a log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::RefusedOrigins;
use tokio::time::{MissedTickBehavior, interval};

/// How often it is looked whether there was any.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Origins that are told in all, since anybody can name any: 64 of 270 bytes.
const TOLD_MAX: usize = 64;

/// Looks and tells for as long as the runtime lives.
pub(super) async fn tell(refused: Arc<RefusedOrigins>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = BTreeSet::new();
    loop {
        looks.tick().await;
        while let Some(origin) = refused.take() {
            if told.len() == TOLD_MAX || told.contains(&origin) {
                continue;
            }
            // A page without an address, as a file's, which cannot be listed by itself.
            let listed = if &*origin == "null" { "'*'" } else { &origin };
            tracing::warn!(
                "a page of {origin} was refused with 403; if it is yours, start the server with \
                 --allow-origin {listed}"
            );
            told.insert(origin);
        }
    }
}
