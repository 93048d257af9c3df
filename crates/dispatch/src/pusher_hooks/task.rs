//! Takes what workers have noted of channels, and tells what is left of it.

mod counts;
mod nodes;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::{ChannelChange, ChannelNote, Router, Watches, channel_name};
use hub::{Id, Key, Space};
use pusher::App;
use pusher::webhook::WebhookEvent;
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::counted::ReportedCounts;
use super::over_nodes::OverNodes;
use super::reporter::Reporter;
use super::told::Known;
use super::{ClientHookEvent, HookScope, PusherHooks, event};
use crate::barrier::Barrier;
use crate::cluster::Cluster;
use crate::subject_rooms::Subject;

/// How often it is looked what has changed.
const LOOK: Duration = Duration::from_millis(50);

/// Notes and graces that are looked at in one go.
const SLICE: usize = 2048;

/// A channel and a member of it; of the channel itself the member is [`Id::NONE`].
type HookedIds = (Id, Id);

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
    if let Some(cluster) = cluster {
        teller.be_node(cluster);
    }
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
    /// Of a server that is alone.
    known: Known<HookedIds>,
    counted: ReportedCounts,
    /// The other nodes, if there may be some.
    nodes: Option<OverNodes>,
    /// What webhooks are told of all nodes, likewise.
    reporter: Option<Reporter>,
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
            counted: ReportedCounts::default(),
            nodes: None,
            reporter: None,
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
            self.take_apps();
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
        self.tell_reports().await;
        self.tell_refused().await;
        if self.is_counting {
            self.hear_nodes().await;
            self.tell_counts().await;
        } else if let Some(nodes) = &mut self.nodes {
            nodes.rest();
        }
        self.settle_reports().await;
    }

    /// Puts what clients have said into the queues. An app may have lost a webhook, or be gone,
    /// since it was said.
    async fn tell_said(&self, said: Vec<ClientHookEvent>) {
        for (done, ClientHookEvent { app_key, kind, channel, json }) in said.into_iter().enumerate()
        {
            if let Some(served) = self.hooks.apps.by_key(&app_key) {
                let app = &served.app;
                self.hooks.push_json(app, HookScope::Node, (kind, &channel), (&json, &|| None));
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
                let event = WebhookEvent::CacheMiss { channel: &name };
                self.hooks.push(&app, HookScope::Node, &event);
            }
            return;
        }
        let is_alone = self.reporter.is_none();
        if is_alone && member != Id::NONE && change == ChannelChange::Came {
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

    fn change(&mut self, subject: HookedIds, change: ChannelChange, app: &Arc<App>) {
        if self.reporter.is_some() {
            return self.change_here(subject, change, app);
        }
        let now_ms = self.now_ms();
        if !self.known.has(&subject) {
            if change == ChannelChange::Waited {
                return;
            }
            self.keep(subject);
            self.known.insert(subject);
            if change == ChannelChange::Came {
                self.tell(app, subject, true);
            }
        }
        if change == ChannelChange::Came {
            // It may have gone again, and then waits from now on.
            self.known.look(&subject, true, now_ms);
        }
        self.known.look(&subject, self.is_there(subject), now_ms);
    }

    fn is_there(&self, (channel, member): HookedIds) -> bool {
        match &self.watches {
            _ if member == Id::NONE => self.router.is_online(channel),
            Some(watches) => watches.members().has(channel, member),
            None => false,
        }
    }

    /// Puts what has become of a channel, or of a member, into the app's queues.
    fn tell(&self, app: &Arc<App>, (channel, member): HookedIds, has_come: bool) {
        let names = self.router.names();
        let key = names.text(channel).unwrap_or_default();
        let Some(name) = channel_name(&key) else { return };
        let member = (member != Id::NONE).then(|| names.text(member).unwrap_or_default());
        let user = |member: &str| Key::parse(member).map_or(member, |key| key.name).to_owned();
        let user = member.as_deref().map(user);
        let event = event(&name, user.as_deref(), has_come);
        self.hooks.push(app, HookScope::Node, &event);
    }

    /// Some changes were not noted: all that is known is looked at as it is now.
    async fn look_at_all(&mut self) {
        self.counted.note_all();
        self.look_at_all_here().await;
        for (done, subject) in self.known.all().into_iter().enumerate() {
            self.known.look(&subject, self.is_there(subject), self.now_ms());
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

    /// Webhooks that were full and have room are told of what they have refused, as it is now.
    async fn tell_refused(&self) {
        for key in self.hooks.with_refused() {
            let Some(served) = self.hooks.apps.by_key(&key.app_key) else { continue };
            let (app, mut done) = (served.app, 0);
            let is_told = |subject: &Subject| self.is_told(&app.id, key.scope, subject);
            while self.hooks.tell_refused(&key, &app, is_told) {
                done += 1;
                if done % SLICE == 0 {
                    yield_now().await;
                }
            }
        }
    }

    /// Whether the last that was to be told of a subject is that it is there.
    fn is_told(&self, app: &str, scope: HookScope, subject: &Subject) -> bool {
        match scope {
            HookScope::Cluster => {
                self.reporter.as_ref().is_some_and(|reporter| reporter.knows(app, subject))
            }
            HookScope::Node => self.here(app, subject).is_some_and(|ids| self.known.has(&ids)),
        }
    }

    /// Apps were read anew: what nobody wants to know any more is forgotten.
    async fn forget_unwanted(&mut self) {
        for (done, subject) in self.known.all().into_iter().enumerate() {
            let key = self.router.names().text(subject.0).unwrap_or_default();
            if self.noted_app(&key).is_none() {
                self.known.forget(&subject);
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

    fn keep(&self, (channel, member): HookedIds) {
        for id in [channel, member].into_iter().filter(|&id| id != Id::NONE) {
            self.router.names().acquire_id(id);
        }
    }

    fn release(&self, (channel, member): HookedIds) {
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

#[cfg(test)]
mod tests;
