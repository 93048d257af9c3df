//! What backends and subscribers are told of channels of the Pusher protocol: webhooks, and counts
//! of subscribers.
//!
//! Workers note what changes ([`engine::ChannelNotes`]). The [`task`] takes that twenty times a
//! second, keeps those back who may come back within their grace ([`told`]), and pushes what is
//! left to the [`queue`] of each webhook that wants it. So nobody waits for a receiver, and a slow
//! one costs others nothing.
//!
//! Webhooks are of a server alone. In a cluster each node tells its own subscribers of [numbers
//! over all nodes](over_nodes). What waits when a server ends, or is upgraded, is lost.
//!
//! Cost for apps that want nothing told: a lock, twenty times a second.

mod counted;
mod over_nodes;
mod queue;
mod task;
mod told;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{PusherApps, SentToChannel, channel_name};
use hub::Key;
use pusher::webhook::{WebhookEvent, WebhookKind};
use pusher::{App, SocketId, plain_text};

use self::queue::HookQueue;
pub use self::task::run;
use crate::count::SharedCount;
use crate::webhook::{SharedBytes, WebhookCounts};

/// The bytes that wait for all webhooks of all apps together.
const BYTES_MAX: usize = 64 << 20;

/// The bytes of what clients have said that waits for the next look. As many may be told meanwhile.
const SAID_BYTES_MAX: usize = 16 << 20;

/// An event of a client. It waits until what has become of its channel before is told.
struct Said {
    app_key: Box<str>,
    kind: WebhookKind,
    channel: Box<str>,
    json: String,
}

#[derive(Default)]
struct SaidEvents {
    events: Vec<Said>,
    bytes: usize,
}

/// The webhooks of all apps.
pub struct PusherHooks {
    apps: Arc<PusherApps>,
    /// By the key of the app and the URL.
    queues: Mutex<HashMap<(String, String), HookQueue>>,
    said: Mutex<SaidEvents>,
    bytes: Arc<SharedBytes>,
    /// What is counted.
    pub counts: Arc<WebhookCounts>,
    /// How often there were more changes than could be noted. All that is known is looked at anew
    /// then.
    pub overruns: SharedCount,
}

impl PusherHooks {
    /// Those of `apps`, of which nothing was told yet.
    pub fn new(apps: Arc<PusherApps>) -> Arc<PusherHooks> {
        Arc::new(PusherHooks {
            apps,
            queues: Mutex::default(),
            said: Mutex::default(),
            bytes: Arc::new(SharedBytes::new(BYTES_MAX)),
            counts: Arc::default(),
            overruns: SharedCount::default(),
        })
    }

    /// A client has sent an event, whose data is this JSON, to a channel.
    pub fn client_event(&self, sent: &SentToChannel, data: &str) {
        let Some(app) = Key::parse(&sent.key).and_then(|key| self.apps.by_id(key.app)) else {
            return;
        };
        let Some(channel) = channel_name(&sent.key).filter(|_| !app.app.webhooks.is_empty()) else {
            return;
        };
        let event = WebhookEvent::ClientEvent {
            channel: &channel,
            event: &sent.name,
            data: &plain_text(data),
            socket_id: &SocketId::of_bits(sent.own.bits()).to_string(),
            user_id: sent.from.as_deref(),
        };
        if !app.app.webhooks.iter().any(|webhook| webhook.hears(&event)) {
            return;
        }
        let mut said = self.said();
        let json = event.json();
        if said.bytes + json.len() > SAID_BYTES_MAX {
            return self.counts.dropped.add(1);
        }
        said.bytes += json.len();
        said.events.push(Said {
            app_key: app.app.key.as_str().into(),
            kind: event.kind(),
            channel: (*channel).into(),
            json,
        });
    }

    /// What clients have said since it was taken last.
    fn take_said(&self) -> Vec<Said> {
        let mut said = self.said();
        said.bytes = 0;
        std::mem::take(&mut said.events)
    }

    fn said(&self) -> MutexGuard<'_, SaidEvents> {
        // Each change is whole when the lock is given back.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts `event` behind what waits for each webhook of the app that wants it.
    fn push(&self, app: &Arc<App>, event: &WebhookEvent<'_>) {
        if !app.webhooks.is_empty() {
            self.push_json(app, (event.kind(), event.channel()), &event.json());
        }
    }

    fn push_json(&self, app: &Arc<App>, (kind, channel): (WebhookKind, &str), json: &str) {
        let wanted = app.webhooks.iter().filter(|webhook| webhook.hears_of(kind, channel));
        for webhook in wanted {
            let mut queues = self.queues();
            let queue = queues.entry((app.key.clone(), webhook.url.clone()));
            let queue = queue.or_insert_with(|| self.begin(app, &webhook.url));
            if !queue.push(json.as_bytes().into()) {
                self.counts.dropped.add(1);
            }
        }
    }

    fn begin(&self, app: &Arc<App>, url: &str) -> HookQueue {
        let (apps, shared) = (Arc::clone(&self.apps), Arc::clone(&self.bytes));
        HookQueue::begin((apps, Arc::clone(app)), url, shared, Arc::clone(&self.counts))
    }

    /// Forgets the queues of webhooks that the apps have no more, with what waits in them.
    fn retire(&self) {
        self.queues().retain(|(key, url), _| {
            let served = self.apps.by_key(key);
            served.is_some_and(|served| served.app.webhooks.iter().any(|hook| hook.url == *url))
        });
    }

    /// Each change is one step.
    fn queues(&self) -> MutexGuard<'_, HashMap<(String, String), HookQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
