//! The figures of the server as events, one a second, while somebody listens.
//!
//! The event goes through the router as any other and is heard over any transport. It is not
//! counted among the events that the API accepted, and what the page is told leaves its deliveries
//! out, too. A second costs a look at all counters, of which the [past](crate::api::dashboards)
//! keeps a few; while somebody listens it costs about 2 KB of text more.
//!
//! A page that loses its network resumes, as any client, so that its charts have no hole. For that
//! the figures of the seconds without it must be in the history: they go on being sent for a while
//! after the last page has left.

use std::sync::Arc;
use std::time::Duration;

use dispatch::send_options::SendOptions;
use engine::Outgoing;
use hub::IdText;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::sample::Sample;
use crate::api::readings::sockets::SocketBytes;
use crate::api::state::Api;

/// The time from one event to the next.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// Events that are sent after the last listener has left: a minute of them, which is what the
/// history remembers if it is not told otherwise.
const LINGER_EVENTS: u32 = 60;

/// Seconds after which the kernel's memory for sockets is asked for while nobody listens: of all
/// figures that one costs most.
const SOCKETS_SECONDS: u32 = 10;

/// Sends the figures until the server stops, or another goes on with its work.
pub(crate) async fn run(api: Arc<Api>) {
    let id = IdText::parse(&api.live_id).expect("the id is made of plain characters");
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut lingers, mut seconds) = (0, 0_u32);
    let (mut before, mut sockets) = (api.durations.since_start(), SocketBytes::default());
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = api.stop.cancelled() => return,
            // The figures are another's from now on.
            () = api.sender.barrier.moved() => return,
        }
        let is_heard = api.router.connections(id) > 0;
        lingers = if is_heard { LINGER_EVENTS } else { u32::saturating_sub(lingers, 1) };
        if is_heard || seconds.is_multiple_of(SOCKETS_SECONDS) {
            sockets = api.sockets.read().await;
        }
        seconds = seconds.wrapping_add(1);
        let now = api.durations.since_start();
        // While the engine drains there is nobody left to tell.
        if let Ok(sample) = Sample::take(&api, sockets, Some(now.since(&before))) {
            api.dashboards.past.push(sample.second());
            if lingers > 0 {
                send(&api, sample).await;
            }
        }
        before = now;
    }
}

/// Sends the figures to the pages that listen.
async fn send(api: &Api, sample: Sample) {
    let data = sample.into_json(api.backlog_bytes_max);
    let outgoing = Outgoing::new(&api.live_id, &data).expect("the id is made of plain characters");
    // Who misses one hears the next.
    let Ok(permit) = api.sender.barrier.enter().await else { return };
    let Ok(delivery) = api.sender.send(&permit, outgoing, SendOptions::default()).await else {
        return;
    };
    drop(permit);
    if let Ok(Ok(delivered)) = timeout(INTERVAL, delivery.answer()).await {
        api.dashboards.count_deliveries(delivered.count.into());
    }
}
