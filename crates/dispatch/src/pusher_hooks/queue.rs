//! What waits for one webhook of an app, and its way there: signed by the app's secret of that
//! moment, and given up after five minutes.

use std::sync::Arc;
use std::time::Duration;

use engine::PusherApps;
use pusher::App;
use pusher::limits::WEBHOOK_RETRY_SECONDS_MAX;
use pusher::webhook::{BODY_TAIL, KEY_HEADER, SIGNATURE_HEADER, body_head, signature};
use tokio::sync::mpsc;

use crate::webhook::{
    Backlog, Fields, Hooked, Over, SharedBytes, WebhookClient, WebhookCounts, WebhookUrl, deliver,
};

/// Events on their way to the task that posts them: it takes them as soon as it has its turn.
const ON_THEIR_WAY_MAX: usize = 1024;

/// Where events for one webhook go. Dropped, nothing more is posted.
pub(super) struct HookQueue(Option<mpsc::Sender<Box<[u8]>>>);

impl HookQueue {
    /// One for the webhook of `app` at `url`. Where nothing can be posted there, that is told, and
    /// it takes nothing.
    pub(super) fn begin(
        (apps, app): (Arc<PusherApps>, Arc<App>),
        url: &str,
        shared: Arc<SharedBytes>,
        counts: Arc<WebhookCounts>,
    ) -> HookQueue {
        let client = url.parse::<WebhookUrl>().map_err(anyhow::Error::msg);
        let client = match client.and_then(WebhookClient::new) {
            Ok(client) => client,
            Err(error) => {
                tracing::error!("a webhook of app {} hears nothing: {error:#}", app.id);
                return HookQueue(None);
            }
        };
        let (sender, events) = mpsc::channel(ON_THEIR_WAY_MAX);
        let backlog = Backlog::sharing(shared);
        let mut batches = AppBatches { events, backlog, apps, app, counts, counted: 0 };
        tokio::spawn(async move {
            // It ends when its app has the webhook no more.
            let Over = deliver(&client, &mut batches).await;
        });
        HookQueue(Some(sender))
    }

    /// Puts an event behind what waits. Whether there was room for it.
    pub(super) fn push(&self, json: Box<[u8]>) -> bool {
        self.0.as_ref().is_some_and(|sender| sender.try_send(json).is_ok())
    }
}

struct AppBatches {
    events: mpsc::Receiver<Box<[u8]>>,
    backlog: Backlog,
    apps: Arc<PusherApps>,
    /// The app as it was last seen.
    app: Arc<App>,
    counts: Arc<WebhookCounts>,
    /// What the backlog's figure has of this one.
    counted: u64,
}

impl Hooked for AppBatches {
    const TRIED_FOR: Option<Duration> = Some(Duration::from_secs(WEBHOOK_RETRY_SECONDS_MAX));

    async fn hear(&mut self) -> Result<(), Over> {
        let json = self.events.recv().await.ok_or(Over)?;
        if !self.backlog.push(json) {
            self.counts.dropped.add(1);
        }
        self.count();
        Ok(())
    }

    fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    fn batch(&self) -> (Vec<u8>, usize) {
        let head = body_head(sys::clock::unix_ms());
        self.backlog.batch(head.as_bytes(), BODY_TAIL.as_bytes())
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
        self.backlog.remove(events);
        self.count();
    }

    fn counts(&self) -> &WebhookCounts {
        &self.counts
    }
}

impl AppBatches {
    /// Brings the figure up to date.
    fn count(&mut self) {
        let now = self.backlog.len() as u64;
        self.counts.backlog.add(now.saturating_sub(self.counted));
        self.counts.backlog.sub(self.counted.saturating_sub(now));
        self.counted = now;
    }
}

impl Drop for AppBatches {
    fn drop(&mut self) {
        self.counts.backlog.sub(self.counted);
    }
}
