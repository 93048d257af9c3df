//! Who comes and who goes, for those who want to hear of it: streams of the API, a webhook, Erlang
//! processes.
//!
//! There is one mechanism for the three. The directory notes changes ([`hub::Changes`]) while there
//! is a listener. The [`task`] takes them twenty times a second and keeps those back who may come
//! back within their grace ([`tracker`]). It puts what is left into batches ([`events`]), which all
//! listeners share in one ring. Each reads at its own pace ([`Subscriber`]). One that falls behind
//! by the whole ring is told that it has lost something. So nobody waits for a listener, and a slow
//! one costs no memory of its own.
//!
//! It is of this server alone: in a cluster each node tells of its own connections. After a start
//! and after an upgrade, ids that are there are not told.

mod config;
mod counts;
mod events;
mod task;
#[cfg(test)]
mod tests;
mod tracker;
mod webhook;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::Router;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

pub use self::config::{PresenceConfig, Webhook, WebhookSecret};
pub use self::counts::{Counts, Report};
pub use self::events::{Batch, PresenceEvent};
pub use self::task::run;
pub use self::webhook::Hook;

/// Pieces that a listener may fall behind by: some 4 MiB of lines, 200,000 short ids, and twelve
/// seconds where less is told than fills a batch.
const RING_PIECES: usize = 256;

/// Who listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A stream of the API.
    Api,
    /// A webhook.
    Webhook,
    /// An Erlang process.
    Erlang,
}

impl Kind {
    /// All, in the order of their numbers.
    pub const ALL: [(Kind, &'static str); 3] =
        [(Kind::Api, "api"), (Kind::Webhook, "webhook"), (Kind::Erlang, "erlang")];

    /// Listeners of a kind at one time.
    fn most(self) -> usize {
        match self {
            Kind::Api => 64,
            Kind::Webhook => config::WEBHOOKS_MAX,
            Kind::Erlang => 256,
        }
    }
}

/// What tells of ids that come and go.
pub struct Presence {
    router: Arc<Router>,
    ring: broadcast::Sender<Arc<Batch>>,
    /// By kind. Locked while changes begin or cease to be noted, so that both are in step.
    listeners: Mutex<[usize; Kind::ALL.len()]>,
    /// Rung when there is a first listener.
    wanted: Notify,
    /// What was told, and what was lost.
    pub counts: Counts,
    /// Ids that wait for their grace. Relaxed: only reported.
    waiting: AtomicUsize,
    /// Cancelled when nothing more will be told.
    over: CancellationToken,
}

/// One who listens. Dropped, it listens no more.
pub struct Subscriber {
    presence: Arc<Presence>,
    kind: Kind,
    batches: broadcast::Receiver<Arc<Batch>>,
}

/// What a subscriber hears.
#[derive(Debug)]
pub enum Notification {
    /// Changes, in the order in which they came to be.
    Batch(Arc<Batch>),
    /// It was too slow: what was told in between is lost to it, and it may go on.
    Behind,
    /// Nothing more comes: the server stops, or another goes on with its work.
    Over,
}

impl Presence {
    /// Of the connections that `router` knows, until `stop`.
    pub fn new(router: Arc<Router>, stop: &CancellationToken) -> Arc<Presence> {
        Arc::new(Presence {
            router,
            ring: broadcast::Sender::new(RING_PIECES),
            listeners: Mutex::default(),
            wanted: Notify::new(),
            counts: Counts::default(),
            waiting: AtomicUsize::new(0),
            over: stop.child_token(),
        })
    }

    /// Listens from now on: who comes or goes after this is told. `None` where as many of the kind
    /// listen as may.
    pub fn listen(self: &Arc<Presence>, kind: Kind) -> Option<Subscriber> {
        let mut listeners = self.listeners();
        if listeners[kind as usize] >= kind.most() {
            return None;
        }
        // Before changes are noted, so that none is told to nobody.
        let batches = self.ring.subscribe();
        if listeners.iter().all(|&count| count == 0) {
            self.router.changes().hear(true);
            self.wanted.notify_one();
        }
        listeners[kind as usize] += 1;
        drop(listeners);
        Some(Subscriber { presence: Arc::clone(self), kind, batches })
    }

    /// How many of each kind listen.
    fn listeners(&self) -> MutexGuard<'_, [usize; Kind::ALL.len()]> {
        // A number is changed in one step.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_heard(&self) -> bool {
        self.listeners().iter().any(|&count| count > 0)
    }

    /// The figures as they stand.
    pub fn report(&self) -> Report {
        let listeners = *self.listeners();
        self.counts.report(listeners, self.waiting.load(Ordering::Relaxed))
    }
}

impl Subscriber {
    /// What comes next. It may be dropped before it is done, and asked again.
    pub async fn recv(&mut self) -> Notification {
        let received = tokio::select! {
            biased;
            () = self.presence.over.cancelled() => return Notification::Over,
            received = self.batches.recv() => received,
        };
        match received {
            Ok(batch) => Notification::Batch(batch),
            Err(RecvError::Lagged(_)) => {
                self.presence.counts.behind.add(1);
                Notification::Behind
            }
            Err(RecvError::Closed) => Notification::Over,
        }
    }

    /// What was told, and what was lost.
    pub fn counts(&self) -> &Counts {
        &self.presence.counts
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut listeners = self.presence.listeners();
        listeners[self.kind as usize] -= 1;
        if listeners.iter().all(|&count| count == 0) {
            self.presence.router.changes().hear(false);
        }
    }
}
