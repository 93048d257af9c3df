//! The figures of the server as events, one a second, while somebody listens.
//!
//! The event goes through the router as any other and is heard over any transport. It is not
//! counted among the events that the API accepted, but its deliveries are deliveries. While nobody
//! listens a second costs one look into the directory; an event costs a look at all counters and
//! about 2 KB of text.
//!
//! A page that loses its network resumes, as any client, so that its charts have no hole. For that
//! the figures of the seconds without it must be in the history: they go on being sent for a while
//! after the last page has left.

use std::sync::Arc;
use std::time::Duration;

use figures::run::Durations;
use hub::{Draft, IdText};
use tokio::time::{MissedTickBehavior, interval};

use super::sample::Sample;
use crate::api::state::Api;
use crate::posting::Parcel;

/// The time from one event to the next.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Events that are sent after the last listener has left: a minute of them, which is what the
/// history remembers if it is not told otherwise.
const LINGER_EVENTS: u32 = 60;

/// Sends the figures until the server stops.
pub(crate) async fn run(api: Arc<Api>) {
    let id = IdText::parse(&api.live_id).expect("the id is made of plain characters");
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut lingers, mut before) = (0, None);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = api.stop.cancelled() => return,
        }
        let is_heard = api.router.connections(id) > 0;
        lingers = if is_heard { LINGER_EVENTS } else { u32::saturating_sub(lingers, 1) };
        before = if lingers > 0 { Some(tick(&api, id, before).await) } else { None };
    }
}

/// Sends the figures, and returns how long sends have taken so far, against which those of the next
/// second are told apart.
async fn tick(api: &Api, id: IdText<'_>, before: Option<Durations>) -> Durations {
    let now = api.durations.since_start();
    let sends = before.map(|before| now.since(&before));
    // While the engine drains there is nobody left to tell.
    if let Ok(sample) = Sample::take(api, sends).await {
        let data = sample.into_json(api.backlog_bytes_max);
        let draft = Draft::new(&api.live_id, &data);
        // Who misses one hears the next.
        let _ = api.sender.send(Parcel { about: id, draft, term: None, alone: false }).await;
    }
    now
}
