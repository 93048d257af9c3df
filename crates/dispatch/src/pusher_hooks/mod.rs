//! What backends and subscribers are told of channels of the Pusher protocol: webhooks, and counts
//! of subscribers.
//!
//! Workers note what changes ([`engine::ChannelNotes`]). The [`task`] takes that twenty times a
//! second and keeps those back who may come back within their grace ([`told`]). It pushes what is
//! left to the [`queue`] of each webhook that wants it. So nobody waits for a receiver, and a slow
//! one costs others nothing. A webhook that was full is told later who is in channels then.
//!
//! In a cluster each node tells webhooks what clients have said to it, and what it keeps not. Of
//! who is in channels, and of numbers, [one node tells](reporter) what is so over all. Each tells
//! its own subscribers of [numbers over all nodes](over_nodes).
//!
//! What waits when a server that is alone ends, or is upgraded, is lost.
//!
//! Cost for apps that want nothing told: a lock, twenty times a second.

mod app_reports;
mod counted;
mod over_nodes;
mod queue;
mod refused;
mod reporter;
mod reports;
mod task;
mod told;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use engine::{PusherApps, SentToChannel, channel_name};
use hub::{Key, Space};
use pusher::webhook::{WebhookEvent, WebhookKind};
use pusher::{App, SocketId, plain_text};
use tokio::sync::{mpsc, watch};

use self::queue::{HookMark, HookQueue};
use self::refused::Refused;
pub use self::task::run;
use crate::count::SharedCount;
use crate::hook_rooms::{channel_subject, member_subject, parse_subject};
use crate::subject_rooms::{Subject, SubjectRooms, SubjectStep};
use crate::webhook::{SharedBytes, WebhookCounts, WebhookUrl};

/// The bytes that wait for all webhooks of all apps together.
const BYTES_MAX: usize = 64 << 20;

/// The bytes of what clients have said that waits for the next look; as many may be told meanwhile.
/// The longest event, of 1 MiB, takes 6 MiB if all of its characters are escaped.
const SAID_BYTES_MAX: usize = 8 << 20;

/// An event of a client. It waits until what has become of its channel before is told.
struct ClientHookEvent {
    app_key: Box<str>,
    kind: WebhookKind,
    channel: Box<str>,
    json: Box<str>,
}

#[derive(Default)]
struct ClientHookEvents {
    events: Vec<ClientHookEvent>,
    bytes: usize,
}

/// What an event is of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum HookScope {
    /// This node. Of a server that is alone all events are.
    Node,
    /// All nodes of a cluster: another node may go on with it.
    Cluster,
}

/// A webhook of an app, by the app's key.
#[derive(Clone, PartialEq, Eq, Hash)]
struct HookKey {
    app_key: String,
    url: String,
    scope: HookScope,
}

/// Whether a node of a cluster is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HookEnd {
    No,
    Asked,
    /// Nothing waits, and it tells nothing more of all nodes.
    Done,
}

/// The webhooks of all apps.
pub struct PusherHooks {
    apps: Arc<PusherApps>,
    queues: Mutex<HashMap<HookKey, HookQueue>>,
    /// What nodes of a cluster have, and what the log says until the task takes it.
    rooms: Arc<SubjectRooms>,
    steps: Mutex<Option<mpsc::Receiver<SubjectStep>>>,
    end: watch::Sender<HookEnd>,
    said: Mutex<ClientHookEvents>,
    bytes: Arc<SharedBytes>,
    refused_bytes: Arc<SharedBytes>,
    /// What is counted.
    pub counts: Arc<WebhookCounts>,
    /// How often there were more changes than could be noted. All that is known is looked at anew
    /// then.
    pub overruns: SharedCount,
    /// Channels and members that webhooks were told of later, since they were full.
    pub told_later: SharedCount,
}

impl PusherHooks {
    /// Those of `apps`, of which nothing was told yet.
    pub fn new(apps: Arc<PusherApps>) -> Arc<PusherHooks> {
        let (rooms, steps) = SubjectRooms::new(Space::Webhooks, false);
        Arc::new(PusherHooks {
            apps,
            queues: Mutex::default(),
            rooms: Arc::new(rooms),
            steps: Mutex::new(Some(steps)),
            end: watch::Sender::new(HookEnd::No),
            said: Mutex::default(),
            bytes: Arc::new(SharedBytes::new(BYTES_MAX)),
            refused_bytes: Refused::shared(),
            counts: Arc::default(),
            overruns: SharedCount::default(),
            told_later: SharedCount::default(),
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
        let bytes = size_of::<ClientHookEvent>() + app.app.key.len() + channel.len() + json.len();
        if said.bytes + bytes > SAID_BYTES_MAX {
            return self.counts.dropped.add(1);
        }
        said.bytes += bytes;
        said.events.push(ClientHookEvent {
            app_key: app.app.key.as_str().into(),
            kind: event.kind(),
            channel: (*channel).into(),
            json: json.into(),
        });
    }

    /// What clients have said since it was taken last.
    fn take_said(&self) -> Vec<ClientHookEvent> {
        let mut said = self.said();
        said.bytes = 0;
        std::mem::take(&mut said.events)
    }

    fn said(&self) -> MutexGuard<'_, ClientHookEvents> {
        // Each change is whole when the lock is given back.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What nodes of a cluster tell each other of apps with webhooks.
    pub fn rooms(&self) -> &Arc<SubjectRooms> {
        &self.rooms
    }

    /// What the log says: once.
    fn take_steps(&self) -> Option<mpsc::Receiver<SubjectStep>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Ends what a node of a cluster tells: resolves when its webhooks have taken what waits, and
    /// another node may go on. One that does not answer holds it up.
    pub async fn end(&self) {
        self.end.send_if_modified(|end| match end {
            HookEnd::No => {
                *end = HookEnd::Asked;
                true
            }
            HookEnd::Asked | HookEnd::Done => false,
        });
        // The sender lives as long as this.
        let _ = self.end.subscribe().wait_for(|end| *end == HookEnd::Done).await;
    }

    fn is_to_end(&self) -> bool {
        *self.end.borrow() == HookEnd::Asked
    }

    fn has_ended(&self) {
        self.end.send_replace(HookEnd::Done);
    }

    /// Whether nothing waits for a webhook, and none is to be told of what it has refused.
    fn is_empty(&self) -> bool {
        self.counts.backlog.read() == 0 && !self.queues().values().any(HookQueue::has_refused)
    }

    /// Puts `event` behind what waits for each webhook of the app that wants it.
    fn push(&self, app: &Arc<App>, scope: HookScope, event: &WebhookEvent<'_>) {
        if !app.webhooks.is_empty() {
            let subject = || subject_of(event);
            self.push_json(app, scope, (event.kind(), event.channel()), (&event.json(), &subject));
        }
    }

    fn push_json(
        &self,
        app: &Arc<App>,
        scope: HookScope,
        (kind, channel): (WebhookKind, &str),
        (json, subject): (&str, &dyn Fn() -> Option<Subject>),
    ) {
        let wanted = app.webhooks.iter().filter(|webhook| webhook.hears_of(kind, channel));
        for webhook in wanted {
            let mut queues = self.queues();
            let (app_key, url) = (app.key.clone(), webhook.url.clone());
            let queue = queues.entry(HookKey { app_key, url, scope });
            let queue = queue.or_insert_with(|| self.begin(app, &webhook.url));
            if queue.push(json.as_bytes().into(), subject) {
                continue;
            }
            self.counts.dropped.add(1);
            if let Some(suppressed) = queue.log_due() {
                tracing::warn!(
                    suppressed,
                    "the webhook of app {} at {} is full: events are dropped; who is in channels \
                     is told once there is room",
                    app.id,
                    host_of(&webhook.url)
                );
            }
        }
    }

    fn begin(&self, app: &Arc<App>, url: &str) -> HookQueue {
        let shared = (Arc::clone(&self.bytes), Arc::clone(&self.refused_bytes));
        let of = (Arc::clone(&self.apps), Arc::clone(app));
        HookQueue::begin(of, url, shared, Arc::clone(&self.counts))
    }

    /// How far what is of all nodes was put into the queues of an app.
    fn marks(&self, app: &str) -> Vec<HookMark> {
        let Some(served) = self.apps.by_id(app) else { return Vec::new() };
        let queues = self.queues();
        let of_app = queues.iter().filter(|(key, _)| key.is_of_all_nodes(&served.app));
        of_app.map(|(key, queue)| queue.mark(&key.url)).collect()
    }

    /// The webhooks that have refused something and have room for it now.
    fn with_refused(&self) -> Vec<HookKey> {
        let queues = self.queues();
        let may = queues.iter().filter(|(_, queue)| queue.may_hear_refused());
        may.map(|(key, _)| key.clone()).collect()
    }

    /// Tells a webhook of the next channel or member of which it has refused an event, as it is
    /// now. Whether there may be more, and room for it.
    fn tell_refused(&self, key: &HookKey, app: &App, is_there: impl Fn(&Subject) -> bool) -> bool {
        let queues = self.queues();
        let Some(queue) = queues.get(key).filter(|queue| queue.may_hear_refused()) else {
            return false;
        };
        let Some((subject, is_there)) = queue.next_refused(is_there) else { return false };
        let event = parse_subject(&subject).map(|(channel, user)| event(channel, user, is_there));
        let mut hooks = app.webhooks.iter().filter(|webhook| webhook.url == key.url);
        let wanted = |event: &WebhookEvent<'_>| hooks.any(|hook| hook.hears(event));
        let Some(event) = event.filter(wanted) else {
            queue.pass_over(&subject);
            return true;
        };
        let is_taken = queue.push(event.json().as_bytes().into(), || Some(Arc::clone(&subject)));
        self.told_later.add(u64::from(is_taken));
        is_taken
    }

    /// Whether all up to these marks was taken, or was given up.
    fn is_taken(&self, app: &str, marks: &[HookMark]) -> bool {
        let Some(served) = self.apps.by_id(app) else { return true };
        let (queues, scope) = (self.queues(), HookScope::Cluster);
        marks.iter().all(|mark| {
            let key = HookKey { app_key: served.app.key.clone(), url: mark.url.clone(), scope };
            queues.get(&key).is_none_or(|queue| queue.is_done(mark))
        })
    }

    /// Forgets what waits of an app that is of all nodes: another one tells it.
    fn end_reports(&self, app: &str) {
        if let Some(served) = self.apps.by_id(app) {
            self.queues().retain(|key, _| !key.is_of_all_nodes(&served.app));
        }
    }

    /// Forgets the queues of webhooks that the apps have no more, with what waits in them.
    fn retire(&self) {
        self.queues().retain(|HookKey { app_key, url, .. }, _| {
            let served = self.apps.by_key(app_key);
            served.is_some_and(|served| served.app.webhooks.iter().any(|hook| hook.url == *url))
        });
    }

    /// Each change is one step.
    fn queues(&self) -> MutexGuard<'_, HashMap<HookKey, HookQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What of a webhook's URL may be shown: its path and its query may be secrets.
fn host_of(url: &str) -> String {
    url.parse::<WebhookUrl>().map(|url| url.host().to_owned()).unwrap_or_default()
}

/// What is told of a channel, or of a user in it.
fn event<'e>(channel: &'e str, user: Option<&'e str>, has_come: bool) -> WebhookEvent<'e> {
    match (user, has_come) {
        (None, true) => WebhookEvent::ChannelOccupied { channel },
        (None, false) => WebhookEvent::ChannelVacated { channel },
        (Some(user_id), true) => WebhookEvent::MemberAdded { channel, user_id },
        (Some(user_id), false) => WebhookEvent::MemberRemoved { channel, user_id },
    }
}

/// What an event is about, if that is a channel or a member that is there or has gone.
fn subject_of(event: &WebhookEvent<'_>) -> Option<Subject> {
    match event {
        WebhookEvent::ChannelOccupied { channel } | WebhookEvent::ChannelVacated { channel } => {
            Some(channel_subject(channel))
        }
        WebhookEvent::MemberAdded { channel, user_id }
        | WebhookEvent::MemberRemoved { channel, user_id } => {
            Some(member_subject(channel, user_id))
        }
        _ => None,
    }
}

impl HookKey {
    fn is_of_all_nodes(&self, app: &App) -> bool {
        self.scope == HookScope::Cluster && self.app_key == app.key
    }
}
