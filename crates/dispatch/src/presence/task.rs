//! Takes what the directory has noted, and tells what is left of it.
//!
//! While nobody listens it sleeps. Otherwise it looks twenty times a second, which costs a lock for
//! each list where nothing has happened, 0.7 µs together (`cargo bench -p hub --bench million`).
//! After each list that has something, others have their turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hub::{Change, Changes, Id};
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::events::{PresenceEvent, Writer};
use super::tracker::{Settled, Tracker};
use super::{Batch, Presence};
use crate::barrier::Barrier;

/// How often it is looked what has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Graces that end in one go.
const OVER_SLICE: usize = 2048;

/// Tells until the server stops, or another goes on with its work, which is known at the `barrier`.
pub async fn run(presence: Arc<Presence>, barrier: Arc<Barrier>, grace: Duration) {
    let _over = presence.over.clone().drop_guard();
    let tracker = Tracker::new(grace.as_millis() as u64);
    let mut teller = Teller {
        presence: &presence,
        tracker,
        begun: Instant::now(),
        writer: Writer::default(),
        changes: Vec::new(),
        outcomes: Vec::new(),
    };
    let tell = async {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if !presence.is_heard() {
                teller.forget();
                presence.wanted.notified().await;
            }
            looks.tick().await;
            teller.look().await;
        }
    };
    tokio::select! {
        () = tell => {}
        () = barrier.moved() => {}
        () = presence.over.cancelled() => {}
    }
}

struct Teller<'p> {
    presence: &'p Presence,
    tracker: Tracker,
    begun: Instant,
    writer: Writer,
    changes: Vec<Change>,
    outcomes: Vec<Settled>,
}

impl Teller<'_> {
    async fn look(&mut self) {
        let noted = self.presence.router.changes();
        for list in 0..Changes::LISTS {
            noted.take(list, &mut self.changes);
            if self.changes.is_empty() {
                continue;
            }
            let now_ms = self.now_ms();
            for change in self.changes.drain(..) {
                debug_assert!(!change.id.is_key(), "keys are not noted");
                self.tracker.note(change, now_ms, &mut self.outcomes);
            }
            self.tell();
            yield_now().await;
        }
        let lost = noted.take_lost();
        if lost > 0 {
            self.presence.counts.lost.add(lost);
            self.push(PresenceEvent::Lost);
        }
        self.end_graces().await;
        self.presence.counts.early.add(self.tracker.take_early());
        self.presence.waiting.store(self.tracker.len(), Ordering::Relaxed);
        if let Some(batch) = self.writer.finish() {
            self.send(batch);
        }
    }

    async fn end_graces(&mut self) {
        let now_ms = self.now_ms();
        loop {
            let router = &self.presence.router;
            let over = || self.tracker.next_over(now_ms, |id| router.is_online(id));
            self.outcomes.extend(std::iter::from_fn(over).take(OVER_SLICE));
            if self.outcomes.is_empty() {
                return;
            }
            self.tell();
            yield_now().await;
        }
    }

    /// Nobody listens: nobody will be told of those who wait.
    fn forget(&mut self) {
        self.outcomes.extend(self.tracker.clear());
        self.tell();
        self.presence.waiting.store(0, Ordering::Relaxed);
    }

    /// Writes what is to be told, and lets the names go.
    fn tell(&mut self) {
        debug_assert!(self.changes.is_empty(), "a change is noted before its outcome is told");
        let outcomes = std::mem::take(&mut self.outcomes);
        for &outcome in &outcomes {
            let counts = &self.presence.counts;
            let id = match outcome {
                Settled::Online(id) => {
                    counts.online.add(1);
                    self.push(PresenceEvent::Online(self.text(id)));
                    id
                }
                Settled::Offline(id) => {
                    counts.offline.add(1);
                    self.push(PresenceEvent::Offline(self.text(id)));
                    id
                }
                Settled::Nothing(id) => id,
            };
            self.presence.router.names().release(id);
        }
        self.outcomes = outcomes;
        self.outcomes.clear();
    }

    fn text(&self, id: Id) -> Box<str> {
        let text = self.presence.router.names().text(id);
        text.expect("the name is kept until it is released").into()
    }

    fn push(&mut self, event: PresenceEvent) {
        if let Some(batch) = self.writer.push(event) {
            self.send(batch);
        }
    }

    fn send(&self, batch: Arc<Batch>) {
        // It fails where the last listener has just left.
        let _ = self.presence.ring.send(batch);
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        self.forget();
    }
}
