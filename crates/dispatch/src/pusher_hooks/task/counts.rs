//! Numbers of subscribers: which are told, and to whom.

use engine::{Step, channel_name};
use hub::{Id, IdText, Key, Nobody};
use pusher::server_frame::subscription_count;
use pusher::webhook::WebhookEvent;
use pusher::{Access, Channel};
use tokio::task::yield_now;

use super::{HookTeller, SLICE};
use crate::pusher_hooks::HookScope;
use crate::pusher_hooks::reporter::Reporter;

impl HookTeller<'_> {
    /// What other nodes say of numbers: those of channels that somebody hears here are asked for,
    /// and those that this node tells webhooks.
    pub(super) async fn hear_nodes(&mut self) {
        let now_ms = self.now_ms();
        let Some(nodes) = &mut self.nodes else { return };
        let heard = nodes.exchange(now_ms).await;
        if heard.has_lost {
            self.counted.note_all();
        }
        for (done, key) in heard.keys.iter().enumerate() {
            let id = IdText::of_key(key).ok().and_then(|key| self.router.names().lookup(key));
            if let Some(channel) = id.filter(|&id| id.is_key() && self.router.is_online(id)) {
                self.count(channel, key);
            } else if self.reports_app_of(key) {
                self.count_reported(key, true);
            }
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    /// The number of a channel has changed, here or elsewhere, and is told if its app wants that.
    /// Whether it does.
    pub(super) fn count(&mut self, channel: Id, key: &str) -> bool {
        let app = self.noted_app(key);
        if is_presence(key) || !app.is_some_and(|app| app.tells_subscription_count) {
            return false;
        }
        if self.counted.note(channel) {
            self.router.names().acquire_id(channel);
        }
        true
    }

    /// The number of a channel may have changed that this node tells webhooks, whoever hears it;
    /// or nobody knows what was told of it: then it is told, and subscribers hear it once more.
    pub(super) fn count_reported(&mut self, key: &str, is_known: bool) {
        let Ok(text) = IdText::of_key(key) else { return };
        let names = self.router.names();
        let channel = names.acquire(text);
        if self.count(channel, key) && !is_known {
            self.counted.is_pending(channel);
        }
        names.release(channel);
    }

    /// Whether this node tells the webhooks of the app that this key is of.
    fn reports_app_of(&self, key: &str) -> bool {
        is_reported(self.reporter.as_ref(), key)
    }

    pub(super) async fn tell_counts(&mut self) {
        let (mut due, mut gone) = (Vec::new(), Vec::new());
        let (router, now_ms) = (self.router, self.now_ms());
        if let Some(nodes) = &mut self.nodes {
            let reporter = self.reporter.as_ref();
            let is_told =
                |channel, key: &str| router.is_online(channel) || is_reported(reporter, key);
            let counts = nodes.counts(&self.counted, router, is_told, now_ms).await;
            if !counts.is_empty() {
                self.counted.due(now_ms, |id| counts.get(&id).copied(), &mut due, &mut gone);
            }
        } else {
            let count = |id| Some(router.connections_of(id));
            self.counted.due(now_ms, count, &mut due, &mut gone);
        }
        for (channel, number) in due {
            let key = self.router.names().text(channel).unwrap_or_default();
            let (Some(app), Some(name)) = (self.noted_app(&key), channel_name(&key)) else {
                continue;
            };
            if !self.tell_subscribers(&key, subscription_count(&name, number)).await {
                self.counted.is_pending(channel);
                continue;
            }
            let channel = &*name;
            let event = WebhookEvent::SubscriptionCount { channel, subscription_count: number };
            match &self.reporter {
                None => self.hooks.push(&app, HookScope::Node, &event),
                Some(reporter) if reporter.reports(&app.id) => {
                    self.hooks.push(&app, HookScope::Cluster, &event);
                }
                Some(_) => {}
            }
        }
        gone.into_iter().for_each(|channel| self.router.names().release(channel));
    }

    /// Tells all who are subscribed to a channel. `false` where a mailbox is full.
    async fn tell_subscribers(&self, key: &str, text: String) -> bool {
        let Ok(key) = IdText::of_key(key) else { return true };
        let mut sending = self.router.tell(key, text.into());
        loop {
            // Nobody is asked who follows whom, so nothing fails.
            match sending.step(&Nobody) {
                Ok(Step::More) => yield_now().await,
                Ok(Step::MailboxFull) => return false,
                Ok(_) | Err(_) => return true,
            }
        }
    }
}

/// Whether this node tells the webhooks of the app that this key is of.
fn is_reported(reporter: Option<&Reporter>, key: &str) -> bool {
    Key::parse(key).zip(reporter).is_some_and(|(key, reporter)| reporter.reports(key.app))
}

fn is_presence(key: &str) -> bool {
    let name = channel_name(key).unwrap_or_default();
    Channel::parse(&name).is_ok_and(|channel| channel.access() == Access::Presence)
}
