//! Subscriptions that change while a demo with nodes runs: added at one node and taken away at
//! another, and the very next send, at whichever node, must obey.
//!
//! Each is to a subject of its own that nobody else follows, by a listener whose node is not
//! killed: so the count of a send says whether it was obeyed.

use std::time::{Duration, Instant};

use anyhow::Result;
use figures::latency::{Latencies, Quantiles};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::record::mix;
use super::users::home;
use crate::client::{ApiClient, ServerUrl};

/// The time from one subscription to the next.
const EVERY: Duration = Duration::from_millis(100);

/// The number that such an event has: no book has it.
const OF_NOBODY: u64 = u64::MAX;

/// What came of them.
#[derive(Debug, Default, Serialize)]
pub(super) struct Changes {
    /// Subscriptions that were added or taken away.
    pub(super) changed: u64,
    /// Those of them that the next send did not obey.
    pub(super) disobeyed: u64,
    /// Those whose next send was answered with a lower bound.
    pub(super) unchecked: u64,
    /// Calls that were refused, or had no answer.
    pub(super) failed: u64,
    /// How long a change took.
    pub(super) latency: Quantiles,
}

#[derive(Deserialize)]
struct SentChange {
    delivered: u64,
    #[serde(default)]
    at_least: bool,
}

/// Changes one after the other at `nodes`, which stay alive, until it is stopped. There are so many
/// `users` on so many nodes `in_all`.
pub(super) async fn change(
    nodes: Vec<ServerUrl>,
    users: u32,
    in_all: usize,
    stop: CancellationToken,
) -> Result<Changes> {
    let mut clients = Vec::new();
    for node in &nodes {
        clients.push(ApiClient::connect(node).await?);
    }
    let (mut changes, mut times) = (Changes::default(), Latencies::default());
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    for round in 0_u64.. {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => break,
        }
        let drawn = (mix(round) % u64::from(users)) as u32;
        // The last node is killed.
        let user = if home(drawn, in_all) == in_all - 1 { drawn - 1 } else { drawn };
        let subject = format!("demo:{round}");
        for (path, step, expected) in
            [("/subscriptions/add", 0, 1), ("/subscriptions/remove", 1, 0)]
        {
            let place = |step: u64| ((round + step) % nodes.len() as u64) as usize;
            let pair = json!([{ "subscriber": user, "subscribee": subject }]);
            let began = Instant::now();
            if clients[place(step)].post::<Value>(path, &pair).await.is_err() {
                changes.failed += 1;
                continue;
            }
            changes.changed += 1;
            times.record(began.elapsed().as_nanos() as u64);
            let event = json!({ "about": subject, "data": { "n": OF_NOBODY } });
            match clients[place(step + 1)].post::<SentChange>("/send", &event).await {
                Ok(SentChange { at_least: true, .. }) => changes.unchecked += 1,
                Ok(SentChange { delivered, .. }) => {
                    changes.disobeyed += u64::from(delivered != expected);
                }
                Err(_) => changes.failed += 1,
            }
        }
    }
    changes.latency = times.quantiles();
    Ok(changes)
}
