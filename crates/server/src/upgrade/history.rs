//! The memory of what was sent, from one process to the other: its events in parts while more are
//! sent, and when nobody sends any more the rest, and what it has forgotten.

use anyhow::{Context, Result, ensure};
use engine::{History, Router};
use hub::Remembered;
use serde::{Deserialize, Serialize};
use sys::clock;

use super::conversation::{Broken, Conversation};
use super::messages::{EvictedRange, HistoryPart, ServingMessage};

/// Bytes of the lines in a part, at most by one event more. The memory is locked for as long as
/// they are copied, some 0.2 ms.
const PART_BYTES: usize = 256 << 10;

/// An event, as it is told.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    number: u64,
    line: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    age_ms: u64,
    lost: u64,
}

/// Sends what is remembered of events above the number `known`; answers the last one.
pub(crate) async fn send(
    successor: &mut Conversation,
    router: &Router,
    mut known: u64,
) -> Result<u64, Broken> {
    let Some(history) = router.history() else { return Ok(known) };
    loop {
        let part = history.dump(known, PART_BYTES, clock::monotonic_ms());
        let Some(last) = part.last() else { return Ok(known) };
        known = last.number;
        let events: Vec<Event> = part.into_iter().map(Event::from).collect();
        let json = serde_json::to_vec(&events);
        let json = json.map_err(|error| Broken::Words(error.to_string()))?;
        successor.say(&ServingMessage::History(HistoryPart { events: events.len() })).await?;
        successor.say_bytes(&json).await?;
        // Requests are answered in between: they are on the same thread.
        tokio::task::yield_now().await;
    }
}

/// Remembers the events of a part. A memory that is off here takes nothing.
pub(crate) fn take(router: &Router, bytes: &[u8]) -> Result<()> {
    let Some(history) = router.history() else { return Ok(()) };
    let events: Vec<Event> =
        serde_json::from_slice(bytes).context("the history that has come is none")?;
    let now_ms = clock::monotonic_ms();
    for event in events {
        let number = event.number;
        let taken = history.take_over(event.into(), now_ms);
        ensure!(taken, "the history that has come is none: event {number}");
    }
    Ok(())
}

/// What is forgotten, when nobody sends any more.
pub(crate) fn evicted_range(router: &Router) -> EvictedRange {
    let evicted_range = router.history().map(History::evicted_range).unwrap_or_default();
    let hub::EvictedRange { floor, evicted_floor, evicted } = evicted_range;
    EvictedRange { floor, evicted_floor, evicted }
}

/// Forgets the same.
pub(crate) fn forget(router: &Router, evicted_range: EvictedRange) {
    let EvictedRange { floor, evicted_floor, evicted } = evicted_range;
    if let Some(history) = router.history() {
        let evicted_range = hub::EvictedRange { floor, evicted_floor, evicted };
        history.take_over_evicted(evicted_range, clock::monotonic_ms());
    }
}

impl From<Remembered> for Event {
    fn from(Remembered { number, line, subject, age_ms, lost }: Remembered) -> Event {
        Event { number, line, subject, age_ms, lost }
    }
}

impl From<Event> for Remembered {
    fn from(Event { number, line, subject, age_ms, lost }: Event) -> Remembered {
        Remembered { number, line, subject, age_ms, lost }
    }
}
