//! What comes and goes, as batches to a webhook.
//!
//! A batch has the same number each time it is sent (`Encke-Batch`), and what it says is how things
//! are: who takes one twice is not misled.
//!
//! The first batch begins with `{"lost":true}`: what was not taken when a server ended, or was
//! upgraded, is lost, and nobody else could say so.
//!
//! The signature has the form that Stripe made usual: `t=SECONDS,v1=HEX`, where the second is the
//! HMAC-SHA256 of `SECONDS.BODY`. The time in it keeps somebody who has overheard a batch from
//! sending it again later.

mod backlog;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use self::backlog::PresenceBacklog;
use super::{Kind, Notification, Presence, Subscriber, Webhook, WebhookSecret};
use crate::webhook::{Fields, Hooked, Over, WebhookClient, WebhookCounts, deliver};

/// A webhook that is told nothing yet.
pub struct Hook {
    client: WebhookClient,
    secret: WebhookSecret,
}

impl Hook {
    /// The one that `webhook` describes.
    pub fn new(webhook: Webhook) -> Result<Hook> {
        let Webhook { url, secret } = webhook;
        Ok(Hook { client: WebhookClient::new(url)?, secret })
    }

    /// Listens from now on, and tells it until the server stops, or another goes on with its work.
    pub fn begin(self, presence: &Arc<Presence>) {
        let subscriber = presence.listen(Kind::Webhook);
        let subscriber = subscriber.expect("there are no more webhooks than may listen");
        let Hook { client, secret } = self;
        let backlog = PresenceBacklog::new();
        let mut batches =
            Batches { backlog, subscriber, secret, nonce: fastrand::u32(..), counted: 0 };
        batches.backlog.push_lost();
        tokio::spawn(async move {
            // It ends when nothing more will be told.
            let Over = deliver(&client, &mut batches).await;
        });
    }
}

/// What waits for the webhook and who adds to it.
struct Batches {
    backlog: PresenceBacklog,
    subscriber: Subscriber,
    secret: WebhookSecret,
    /// What tells batches of this process from those of others.
    nonce: u32,
    /// What the backlog's figure has of this one.
    counted: u64,
}

impl Hooked for Batches {
    const TRIED_FOR: Option<Duration> = None;

    async fn hear(&mut self) -> Result<(), Over> {
        match self.subscriber.recv().await {
            Notification::Batch(batch) => {
                let left_out = self.backlog.push(&batch);
                self.counts().dropped.add(left_out);
            }
            Notification::Behind => self.backlog.push_lost(),
            Notification::Over => return Err(Over),
        }
        self.count();
        Ok(())
    }

    fn waiting(&self) -> usize {
        self.backlog.waiting().len()
    }

    fn has_batch(&self) -> bool {
        self.backlog.waiting().has_batch()
    }

    fn batch(&mut self, most: usize) -> (Vec<u8>, usize) {
        self.backlog.batch(most)
    }

    fn fields(&mut self, number: u64, body: &[u8]) -> Fields {
        let seconds = (sys::clock::unix_ms() / 1000).to_string();
        let signature = self.secret.sign(&[seconds.as_bytes(), b".", body]);
        vec![
            ("Encke-Batch", format!("{:08x}-{number}", self.nonce)),
            ("Encke-Signature", format!("t={seconds},v1={signature}")),
        ]
    }

    fn remove(&mut self, events: usize) {
        self.backlog.remove(events);
        self.count();
    }

    fn counts(&self) -> &WebhookCounts {
        &self.subscriber.counts().webhooks
    }
}

impl Batches {
    /// Brings the figure up to date.
    fn count(&mut self) {
        let now = self.waiting() as u64;
        let backlog = &self.subscriber.counts().webhooks.backlog;
        backlog.add(now.saturating_sub(self.counted));
        backlog.sub(self.counted.saturating_sub(now));
        self.counted = now;
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.counts().backlog.sub(self.counted);
    }
}
