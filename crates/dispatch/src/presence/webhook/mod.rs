//! What comes and goes, as batches to a webhook: in order, one batch at a time, each repeated until
//! it is taken.
//!
//! While a receiver is away, or slow, events wait in a [`backlog`] with a bound. A batch is the
//! same each time it is sent, with the same number (`Encke-Batch`), and what it says is how things
//! are: who takes one twice is not misled.
//!
//! The first batch begins with `{"lost":true}`: what was not taken when a server ended, or was
//! upgraded, is lost, and nobody else could say so.

mod backlog;
mod post;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use backon::{BackoffBuilder, ExponentialBuilder};
use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use self::backlog::Backlog;
use self::post::WebhookClient;
use super::{Counts, Kind, Notification, Presence, Subscriber, Webhook};
use crate::log_interval::LogInterval;

/// How long more events are waited for before a batch that is not full is sent.
const GATHER: Duration = Duration::from_millis(200);

/// The waits between two tries.
const RETRIES: ExponentialBuilder = ExponentialBuilder::new()
    .with_min_delay(Duration::from_millis(200))
    .with_max_delay(Duration::from_secs(30))
    .with_factor(2.0)
    .with_jitter()
    .without_max_times();

/// A webhook that is told nothing yet.
pub struct Hook(WebhookClient);

impl Hook {
    /// The one that `webhook` describes.
    pub fn new(webhook: Webhook) -> Result<Hook> {
        WebhookClient::new(webhook).map(Hook)
    }

    /// Listens from now on, and tells it until the server stops, or another goes on with its work.
    pub fn begin(self, presence: &Arc<Presence>) {
        let subscriber = presence.listen(Kind::Webhook);
        let subscriber = subscriber.expect("there are no more webhooks than may listen");
        let mut batches = Batches { backlog: Backlog::new(), subscriber, counted: 0 };
        batches.backlog.push_lost();
        tokio::spawn(async move {
            // It ends when nothing more will be told.
            let _ = deliver(&self.0, &mut batches).await;
        });
    }
}

/// What waits for the webhook and who adds to it.
struct Batches {
    backlog: Backlog,
    subscriber: Subscriber,
    /// What the backlog's figure has of this one.
    counted: u64,
}

/// Nothing more will be told.
struct Over;

async fn deliver(client: &WebhookClient, batches: &mut Batches) -> Result<(), Over> {
    let (lot, mut log) = (fastrand::u32(..), LogInterval::default());
    for number in 0_u64.. {
        batches.gather().await?;
        let (body, count) = batches.backlog.batch();
        let (body, number) = (Bytes::from(body), format!("{lot:08x}-{number}"));
        let mut pauses = RETRIES.build();
        loop {
            match batches.meanwhile(client.post(body.clone(), &number)).await? {
                Ok(()) => break,
                Err(error) => {
                    batches.subscriber.counts().webhook_failed.add(1);
                    if let Some(more) = log.due(Instant::now()) {
                        let host = client.host();
                        tracing::warn!(more, "the webhook at {host} takes nothing: {error}");
                    }
                }
            }
            let pause = pauses.next().expect("there is always another try");
            batches.meanwhile(sleep(pause)).await?;
        }
        batches.subscriber.counts().webhook_taken.add(1);
        batches.backlog.remove(count);
        batches.count();
    }
    Ok(())
}

impl Batches {
    /// Waits until there is a batch.
    async fn gather(&mut self) -> Result<(), Over> {
        if self.backlog.len() == 0 {
            self.hear().await?;
        }
        let until = Instant::now() + GATHER;
        while !self.backlog.has_batch() {
            match timeout_at(until, self.hear()).await {
                Ok(notification) => notification?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Does `work`, and goes on hearing.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Over> {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                biased;
                done = work.as_mut() => return Ok(done),
                notification = self.hear() => notification?,
            }
        }
    }

    /// Puts what comes next behind what waits.
    async fn hear(&mut self) -> Result<(), Over> {
        match self.subscriber.recv().await {
            Notification::Batch(batch) => {
                let left_out = self.backlog.push(&batch);
                self.subscriber.counts().webhook_dropped.add(left_out);
            }
            Notification::Behind => self.backlog.push_lost(),
            Notification::Over => return Err(Over),
        }
        self.count();
        Ok(())
    }

    /// Brings the figure up to date.
    fn count(&mut self) {
        let (counts, now): (&Counts, u64) = (self.subscriber.counts(), self.backlog.len() as u64);
        counts.webhook_backlog.add(now.saturating_sub(self.counted));
        counts.webhook_backlog.sub(self.counted.saturating_sub(now));
        self.counted = now;
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.subscriber.counts().webhook_backlog.sub(self.counted);
    }
}
