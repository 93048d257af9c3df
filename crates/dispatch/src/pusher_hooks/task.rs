//! Takes what workers have noted of channels, and tells what is left of it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::{ChannelChange, ChannelNote, Router, Step, Watches, channel_name};
use hub::{Id, IdText, Key, Nobody, Space};
use pusher::server_frame::subscription_count;
use pusher::webhook::WebhookEvent;
use pusher::{Access, App, Channel};
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::counted::ToldCounts;
use super::over_nodes::OverNodes;
use super::told::{Known, Subject};
use super::{PusherHooks, Said};
use crate::barrier::Barrier;
use crate::cluster::Cluster;

/// How often it is looked what has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Notes and graces that are looked at in one go.
const SLICE: usize = 2048;

/// Tells until another server goes on with its work, which is known at the `barrier`; as a node of
/// `cluster`, if it is one.
pub async fn run(
    hooks: Arc<PusherHooks>,
    router: Arc<Router>,
    watches: Option<Watches>,
    barrier: Arc<Barrier>,
    cluster: Option<Arc<Cluster>>,
) {
    let mut teller = HookTeller::new(&hooks, &router, watches);
    teller.nodes = cluster.map(OverNodes::new);
    let tell = async {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            teller.look().await;
        }
    };
    tokio::select! {
        () = tell => {}
        () = barrier.moved() => {}
    }
}

struct HookTeller<'h> {
    hooks: &'h PusherHooks,
    router: &'h Router,
    /// Who is in presence channels.
    watches: Option<Watches>,
    begun: Instant,
    /// Which reading of the apps was looked at last.
    version: u64,
    notes: Vec<ChannelNote>,
    known: Known,
    counted: ToldCounts,
    /// The other nodes, if there may be some.
    nodes: Option<OverNodes>,
    /// An app wants counts told.
    is_counting: bool,
    /// Channels of which it was told in this look that they keep nothing.
    missed: HashSet<Id>,
}

impl<'h> HookTeller<'h> {
    /// One that has told nothing yet.
    fn new(hooks: &'h PusherHooks, router: &'h Router, watches: Option<Watches>) -> HookTeller<'h> {
        HookTeller {
            hooks,
            router,
            watches,
            begun: Instant::now(),
            version: hooks.apps.version(),
            notes: Vec::new(),
            known: Known::default(),
            counted: ToldCounts::default(),
            nodes: None,
            is_counting: is_counting(hooks),
            missed: HashSet::new(),
        }
    }

    async fn look(&mut self) {
        if self.version != self.hooks.apps.version() {
            self.version = self.hooks.apps.version();
            self.is_counting = is_counting(self.hooks);
            self.hooks.retire();
            self.forget_unwanted().await;
        }
        // Before the notes: who has said something has come before, and that is told first.
        let said = self.hooks.take_said();
        let mut notes = std::mem::take(&mut self.notes);
        let has_lost = self.hooks.apps.notes().take(&mut notes);
        for (done, note) in notes.drain(..).enumerate() {
            self.note(note);
            note.release(self.router.names());
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
        self.notes = notes;
        // What a storm has taken is given back.
        self.notes.shrink_to(SLICE);
        self.missed.clear();
        if has_lost {
            self.hooks.overruns.add(1);
            self.look_at_all().await;
        }
        self.tell_said(said).await;
        self.end_graces().await;
        if self.is_counting {
            self.hear_nodes().await;
            self.tell_counts().await;
        } else if let Some(nodes) = &mut self.nodes {
            nodes.rest();
        }
    }

    /// What other nodes say of numbers: those of channels that somebody hears here are asked for.
    async fn hear_nodes(&mut self) {
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
            }
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    /// The number of a channel has changed, here or elsewhere, and is told if its app wants that.
    /// Whether it does.
    fn count(&mut self, channel: Id, key: &str) -> bool {
        let app = self.noted_app(key);
        if is_presence(key) || !app.is_some_and(|app| app.tells_subscription_count) {
            return false;
        }
        if self.counted.note(channel) {
            self.router.names().acquire_id(channel);
        }
        true
    }

    /// Puts what clients have said into the queues. An app may have lost a webhook, or be gone,
    /// since it was said.
    async fn tell_said(&self, said: Vec<Said>) {
        for (done, Said { app_key, kind, channel, json }) in said.into_iter().enumerate() {
            if let Some(served) = self.hooks.apps.by_key(&app_key) {
                self.hooks.push_json(&served.app, (kind, &channel), &json);
            }
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    /// The app of a key that is a channel, if it wants something told.
    fn noted_app(&self, key: &str) -> Option<Arc<App>> {
        let Key { space, app, .. } = Key::parse(key)?;
        let is_channel = matches!(space, Space::Channel | Space::CacheChannel);
        let served = self.hooks.apps.by_id(app).filter(|_| is_channel)?;
        served.app.is_noted().then_some(served.app)
    }

    fn note(&mut self, note: ChannelNote) {
        let ChannelNote { channel, member, change } = note;
        let Some(key) = self.router.names().text(channel) else { return };
        let Some(app) = self.noted_app(&key) else { return };
        if change == ChannelChange::Missed {
            if self.missed.insert(channel)
                && let Some(name) = channel_name(&key)
            {
                self.hooks.push(&app, &WebhookEvent::CacheMiss { channel: &name });
            }
            return;
        }
        if member != Id::NONE && change == ChannelChange::Came {
            // Whoever is told of a member knows the channel.
            self.change((channel, Id::NONE), change, &app);
        }
        self.change((channel, member), change, &app);
        let has_changed = member == Id::NONE && change != ChannelChange::WasThere;
        if has_changed
            && self.count(channel, &key)
            && let Some(nodes) = &mut self.nodes
        {
            nodes.note(&key);
        }
    }

    fn change(&mut self, subject: Subject, change: ChannelChange, app: &Arc<App>) {
        let now_ms = self.now_ms();
        if !self.known.has(subject) {
            self.keep(subject);
            self.known.insert(subject);
            if change == ChannelChange::Came {
                self.tell(app, subject, true);
            }
        }
        if change == ChannelChange::Came {
            // It may have gone again, and then waits from now on.
            self.known.look(subject, true, now_ms);
        }
        self.known.look(subject, self.is_there(subject), now_ms);
    }

    fn is_there(&self, (channel, member): Subject) -> bool {
        match &self.watches {
            _ if member == Id::NONE => self.router.is_online(channel),
            Some(watches) => watches.members().has(channel, member),
            None => false,
        }
    }

    /// Puts what has become of a channel, or of a member, into the app's queues.
    fn tell(&self, app: &Arc<App>, (channel, member): Subject, has_come: bool) {
        let names = self.router.names();
        let key = names.text(channel).unwrap_or_default();
        let Some(name) = channel_name(&key) else { return };
        let channel = &*name;
        if member == Id::NONE {
            let event = match has_come {
                true => WebhookEvent::ChannelOccupied { channel },
                false => WebhookEvent::ChannelVacated { channel },
            };
            return self.hooks.push(app, &event);
        }
        let member = names.text(member).unwrap_or_default();
        let user_id = Key::parse(&member).map_or(&*member, |key| key.name);
        let event = match has_come {
            true => WebhookEvent::MemberAdded { channel, user_id },
            false => WebhookEvent::MemberRemoved { channel, user_id },
        };
        self.hooks.push(app, &event);
    }

    /// Some changes were not noted: all that is known is looked at as it is now.
    async fn look_at_all(&mut self) {
        self.counted.note_all();
        for (done, subject) in self.known.all().into_iter().enumerate() {
            self.known.look(subject, self.is_there(subject), self.now_ms());
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    async fn end_graces(&mut self) {
        let (now_ms, mut ended) = (self.now_ms(), 0);
        while let Some(subject) = self.known.take_over(now_ms) {
            if self.is_there(subject) {
                // The note of that is on its way.
                self.known.insert(subject);
                continue;
            }
            let key = self.router.names().text(subject.0).unwrap_or_default();
            if let Some(app) = self.noted_app(&key) {
                self.tell(&app, subject, false);
            }
            self.release(subject);
            ended += 1;
            if ended % SLICE == 0 {
                yield_now().await;
            }
        }
    }

    async fn tell_counts(&mut self) {
        let (mut due, mut gone) = (Vec::new(), Vec::new());
        let (router, now_ms) = (self.router, self.now_ms());
        if let Some(nodes) = &mut self.nodes {
            let counts = nodes.counts(&self.counted, router, now_ms).await;
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
                self.counted.is_untold(channel);
                continue;
            }
            let channel = &*name;
            let event = WebhookEvent::SubscriptionCount { channel, subscription_count: number };
            self.hooks.push(&app, &event);
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

    /// Apps were read anew: what nobody wants to know any more is forgotten.
    async fn forget_unwanted(&mut self) {
        for (done, subject) in self.known.all().into_iter().enumerate() {
            let key = self.router.names().text(subject.0).unwrap_or_default();
            if self.noted_app(&key).is_none() {
                self.known.forget(subject);
                self.release(subject);
            }
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
        for (done, channel) in self.counted.all().into_iter().enumerate() {
            let key = self.router.names().text(channel).unwrap_or_default();
            let app = self.noted_app(&key);
            if app.is_none_or(|app| !app.tells_subscription_count) {
                self.counted.forget(channel);
                self.router.names().release(channel);
            }
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    fn keep(&self, (channel, member): Subject) {
        for id in [channel, member].into_iter().filter(|&id| id != Id::NONE) {
            self.router.names().acquire_id(id);
        }
    }

    fn release(&self, (channel, member): Subject) {
        for id in [channel, member].into_iter().filter(|&id| id != Id::NONE) {
            self.router.names().release(id);
        }
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}

fn is_counting(hooks: &PusherHooks) -> bool {
    hooks.apps.all().iter().any(|served| served.app.tells_subscription_count)
}

fn is_presence(key: &str) -> bool {
    let name = channel_name(key).unwrap_or_default();
    Channel::parse(&name).is_ok_and(|channel| channel.access() == Access::Presence)
}

#[cfg(test)]
mod tests;
