//! Says which pages were refused because of their origin, each origin once an hour at most, and
//! what lets them in.
//! Workers only note them ([`engine::RefusedOrigins`]); they must not wait for a log.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use engine::RefusedOrigins;
use tokio::time::{MissedTickBehavior, interval};

/// How often it is looked whether there was any.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Origins that are told in [`FORGOTTEN_AFTER`], since anybody can name any: 64 of 270 bytes.
const TOLD_MAX: usize = 64;

/// After that it may be told again: who names many origins silences a true one for no longer.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

/// Looks and tells for as long as the runtime lives.
pub(super) async fn tell(refused: Arc<RefusedOrigins>) {
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut told = BTreeSet::new();
    let mut since = looks.tick().await;
    loop {
        let now = looks.tick().await;
        if now - since >= FORGOTTEN_AFTER {
            told.clear();
            since = now;
        }
        while let Some(origin) = refused.take() {
            if !is_to_be_told(&mut told, &origin) {
                continue;
            }
            // A page without an address, as a file's, which cannot be listed by itself.
            let listed = if &*origin == "null" { "'*'" } else { &origin };
            tracing::warn!(
                "a page of {origin} was refused with 403; if it is yours, start the server with \
                 --allow-origin {listed}"
            );
        }
    }
}

/// Whether it was not told before, and there is room to tell another one.
fn is_to_be_told(told: &mut BTreeSet<Box<str>>, origin: &str) -> bool {
    told.len() < TOLD_MAX && told.insert(origin.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowd_of_origins_fills_no_log() {
        let mut told = BTreeSet::new();
        let lines = (0..2 * TOLD_MAX).chain(0..2 * TOLD_MAX);
        let lines = lines.filter(|n| is_to_be_told(&mut told, &n.to_string())).count();
        assert_eq!((lines, told.len()), (TOLD_MAX, TOLD_MAX));
    }
}
