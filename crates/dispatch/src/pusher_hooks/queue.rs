//! What waits for one webhook of an app, and its way there: signed by the app's secret of that
//! moment. A batch is given up five minutes after it was sent first. What waited behind it has five
//! minutes of its own from then on.
//!
//! What finds no room is dropped; of channels and members it is kept that they are to be told of
//! ([`Refused`]).
//!
//! Whoever tells an event puts it into the backlog itself, so the bounds of that are the only ones.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::PusherApps;
use pusher::App;
use pusher::limits::WEBHOOK_RETRY_SECONDS_MAX;
use pusher::webhook::{BODY_TAIL, KEY_HEADER, SIGNATURE_HEADER, body_head, signature};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::refused::Refused;
use crate::log_interval::LogInterval;
use crate::subject_rooms::Subject;
use crate::webhook::{
    Backlog, Fields, Hooked, Over, SharedBytes, WebhookClient, WebhookCounts, WebhookUrl, deliver,
};

/// Where events for one webhook go. Dropped, nothing more is posted.
pub(super) struct HookQueue(Option<Arc<HookBacklog>>);

/// What waits for a webhook, for the one who tells and the task that posts.
struct HookBacklog {
    told: Mutex<HookEvents>,
    /// More was told, or the queue was dropped.
    updates: Notify,
    counts: Arc<WebhookCounts>,
}

/// How far a queue has come.
pub(super) struct HookMark {
    pub(super) url: String,
    /// How many events were put into it until then, and how many it had refused.
    pub(super) events: u64,
    pub(super) refused: u64,
}

struct HookEvents {
    backlog: Backlog,
    /// How many events were put into the backlog.
    events: u64,
    refused: Refused,
    /// When it was logged that it is full.
    logged: LogInterval,
    is_over: bool,
}

impl HookQueue {
    /// One for the webhook of `app` at `url`, which shares the room of what waits, and of what was
    /// refused, with others. Where nothing can be posted there, that is told, and it takes nothing.
    pub(super) fn begin(
        (apps, app): (Arc<PusherApps>, Arc<App>),
        url: &str,
        (waiting, refused): (Arc<SharedBytes>, Arc<SharedBytes>),
        counts: Arc<WebhookCounts>,
    ) -> HookQueue {
        let client = url.parse::<WebhookUrl>().map_err(anyhow::Error::new);
        let client = match client.and_then(WebhookClient::new) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!("a webhook of app {} hears nothing: {error:#}", app.id);
                return HookQueue(None);
            }
        };
        let (backlog, refused) = (Backlog::sharing(waiting), Refused::sharing(refused));
        let logged = LogInterval::default();
        let told = HookEvents { backlog, events: 0, refused, logged, is_over: false };
        let waiting =
            Arc::new(HookBacklog { told: Mutex::new(told), updates: Notify::new(), counts });
        let mut batches = AppBatches { waiting: Arc::clone(&waiting), heard: 0, apps, app };
        tokio::spawn(async move {
            // It ends when its app has the webhook no more.
            let Over = deliver(&client, &mut batches).await;
        });
        HookQueue(Some(waiting))
    }

    /// Puts an event about `subject` behind what waits. Whether there was room for it. Where there
    /// was none and it is one of a channel or a member, that is told of once there is room.
    pub(super) fn push(&self, json: Box<[u8]>, subject: impl FnOnce() -> Option<Subject>) -> bool {
        let Some(waiting) = &self.0 else { return false };
        let is_taken = {
            let mut told = waiting.told();
            let is_taken = told.backlog.push(json);
            told.events += u64::from(is_taken);
            // What it is told now is newer than what it has refused.
            if (!is_taken || !told.refused.is_empty())
                && let Some(subject) = subject()
            {
                let events = told.events;
                match is_taken {
                    true => told.refused.told(&subject, events),
                    false => told.refused.note(subject),
                }
            }
            // Before it can be taken away again.
            waiting.counts.backlog.add(u64::from(is_taken));
            is_taken
        };
        if is_taken {
            waiting.updates.notify_one();
        }
        is_taken
    }
}

impl HookQueue {
    /// How far it has come, as that of the webhook at `url`.
    pub(super) fn mark(&self, url: &str) -> HookMark {
        let count = |told: &HookEvents| (told.events, told.refused.count());
        let (events, refused) = self.0.as_ref().map_or((0, 0), |waiting| count(&waiting.told()));
        HookMark { url: url.to_owned(), events, refused }
    }

    /// Whether all up to a mark waits no more: it was taken, or given up; and what was refused was
    /// told as it is since.
    pub(super) fn is_done(&self, mark: &HookMark) -> bool {
        let Some(waiting) = &self.0 else { return true };
        let mut told = waiting.told();
        let done = told.events - told.backlog.len() as u64;
        done >= mark.events && told.refused.is_settled(mark.refused, done)
    }

    /// Whether there is something that it has refused.
    pub(super) fn has_refused(&self) -> bool {
        self.0.as_ref().is_some_and(|waiting| !waiting.told().refused.is_empty())
    }

    /// Whether there is something that it has refused, and room for it.
    pub(super) fn may_hear_refused(&self) -> bool {
        let may = |told: &HookEvents| !told.refused.is_empty() && told.backlog.is_half_empty();
        self.0.as_ref().is_some_and(|waiting| may(&waiting.told()))
    }

    /// The next channel or member that it is to be told of, and whether that is there.
    pub(super) fn next_refused(
        &self,
        is_there: impl Fn(&Subject) -> bool,
    ) -> Option<(Subject, bool)> {
        self.0.as_ref()?.told().refused.next(is_there)
    }

    /// It does not want to know of `subject` what there is to be told.
    pub(super) fn pass_over(&self, subject: &Subject) {
        if let Some(waiting) = &self.0 {
            let mut told = waiting.told();
            let events = told.events;
            told.refused.told(subject, events);
        }
    }

    /// All that waits is taken.
    #[cfg(test)]
    pub(super) fn take_all(&self) {
        let Some(waiting) = &self.0 else { return };
        let mut told = waiting.told();
        while let count @ 1.. = told.backlog.len().min(500) {
            told.backlog.remove(count);
            waiting.counts.backlog.sub(count as u64);
        }
    }

    /// Whether to log that it is full, and how often it was not since.
    pub(super) fn log_due(&self) -> Option<u64> {
        self.0.as_ref()?.told().logged.due(Instant::now())
    }
}

impl Drop for HookQueue {
    fn drop(&mut self) {
        if let Some(waiting) = &self.0 {
            waiting.told().is_over = true;
            waiting.updates.notify_one();
        }
    }
}

impl HookBacklog {
    /// Each change is whole when the lock is given back.
    fn told(&self) -> MutexGuard<'_, HookEvents> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HookBacklog {
    fn drop(&mut self) {
        let left = self.told().backlog.len();
        self.counts.backlog.sub(left as u64);
    }
}

struct AppBatches {
    waiting: Arc<HookBacklog>,
    /// How many of the events that were told it has heard of.
    heard: u64,
    apps: Arc<PusherApps>,
    /// The app as it was last seen.
    app: Arc<App>,
}

impl Hooked for AppBatches {
    const TRIED_FOR: Option<Duration> = Some(Duration::from_secs(WEBHOOK_RETRY_SECONDS_MAX));

    async fn hear(&mut self) -> Result<(), Over> {
        loop {
            {
                let told = self.waiting.told();
                if told.is_over {
                    return Err(Over);
                }
                if told.events != self.heard {
                    self.heard = told.events;
                    return Ok(());
                }
            }
            self.waiting.updates.notified().await;
        }
    }

    fn waiting(&self) -> usize {
        self.waiting.told().backlog.len()
    }

    fn has_batch(&self) -> bool {
        self.waiting.told().backlog.has_batch()
    }

    fn batch(&mut self, most: usize) -> (Vec<u8>, usize) {
        let head = body_head(sys::clock::unix_ms());
        self.waiting.told().backlog.batch(most, head.as_bytes(), BODY_TAIL.as_bytes())
    }

    fn fields(&mut self, _number: u64, body: &[u8]) -> Fields {
        if let Some(served) = self.apps.by_key(&self.app.key) {
            self.app = served.app;
        }
        vec![
            (KEY_HEADER, self.app.key.clone()),
            (SIGNATURE_HEADER, signature(&self.app.secret, body)),
        ]
    }

    fn remove(&mut self, events: usize) {
        self.waiting.told().backlog.remove(events);
        self.counts().backlog.sub(events as u64);
    }

    fn counts(&self) -> &WebhookCounts {
        &self.waiting.counts
    }
}
