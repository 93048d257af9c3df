//! A node of a cluster does more than a server that is alone. It tells the others who is at its
//! channels. It tells webhooks what is so over all nodes, if that is its turn.

use std::sync::Arc;

use engine::{ChannelChange, channel_name};
use hub::{Id, IdText, Key, Space};
use pusher::{App, Channel};
use tokio::task::yield_now;

use super::{HookTeller, HookedIds, SLICE};
use crate::cluster::Cluster;
use crate::hook_rooms::{channel_subject, member_subject, parse_subject};
use crate::pusher_hooks::over_nodes::OverNodes;
use crate::pusher_hooks::reporter::{AppReport, Reporter};
use crate::pusher_hooks::{HookScope, event};
use crate::subject_rooms::{Subject, SubjectRooms};

impl HookTeller<'_> {
    /// From the beginning this is one of several.
    pub(super) fn be_node(&mut self, cluster: Arc<Cluster>) {
        self.nodes = Some(OverNodes::new(Arc::clone(&cluster)));
        self.reporter = Reporter::new(cluster, self.hooks);
        self.take_apps();
    }

    /// The apps were read.
    pub(super) fn take_apps(&mut self) {
        if let Some(reporter) = &mut self.reporter {
            reporter.take_apps(&self.hooks.apps.all());
        }
    }

    /// Somebody has come here, or has gone: the nodes are told.
    pub(super) fn change_here(&self, subject: HookedIds, change: ChannelChange, app: &App) {
        if let Some(reporter) = self.reporter.as_ref().filter(|_| !app.webhooks.is_empty()) {
            self.put_change(reporter.rooms(), subject, change, app);
        }
    }

    /// Puts it into what this node has.
    pub(super) fn put_change(
        &self,
        rooms: &SubjectRooms,
        subject: HookedIds,
        change: ChannelChange,
        app: &App,
    ) {
        let (channel, is_member) = ((subject.0, Id::NONE), subject.1 != Id::NONE);
        let Some(of_channel) = self.subject(channel) else { return };
        let has_come = change == ChannelChange::Came;
        if has_come {
            // It may have gone again: that is told behind it. Whoever is told of a member knows the
            // channel.
            rooms.set(&app.id, &of_channel, true);
        }
        let is_there = self.is_there(subject);
        if is_member && let Some(member) = self.subject(subject) {
            if has_come {
                rooms.set(&app.id, &member, true);
            }
            // Who waits for the list is no member: such a note takes one away, or says nothing.
            if change != ChannelChange::Waited || !is_there {
                rooms.set(&app.id, &member, is_there);
            }
        }
        // A member that waits for the list is in the channel before it hears that.
        let is_occupied = has_come && is_there || self.is_there(channel);
        rooms.set(&app.id, &of_channel, is_occupied);
    }

    /// What nodes call a subject.
    fn subject(&self, (channel, member): HookedIds) -> Option<Subject> {
        let names = self.router.names();
        let key = names.text(channel)?;
        let name = channel_name(&key)?;
        if member == Id::NONE {
            return Some(channel_subject(&name));
        }
        let member = names.text(member)?;
        Some(member_subject(&name, Key::parse(&member).map_or(&*member, |key| key.name)))
    }

    /// Some changes were not noted: all that is known here is looked at as it is now.
    pub(super) async fn look_at_all_here(&self) {
        let Some(reporter) = &self.reporter else { return };
        for (done, (app, text)) in reporter.rooms().all().into_iter().enumerate() {
            let is_there = self.here(&app, &text).is_some_and(|subject| self.is_there(subject));
            reporter.rooms().set(&app, &text, is_there);
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    /// A subject as this node has it; `None` of what nobody here has to do with.
    pub(super) fn here(&self, app: &str, subject: &str) -> Option<HookedIds> {
        let (channel, user) = parse_subject(subject)?;
        let lookup = |key: &str| self.router.names().lookup(IdText::of_key(key).ok()?);
        let channel = lookup(&key_of(app, channel)?)?;
        let Some(user) = user else { return Some((channel, Id::NONE)) };
        Some((channel, lookup(&Key { space: Space::Member, app, name: user }.text())?))
    }

    /// Puts what is to be told of all nodes into the queues of webhooks.
    pub(super) async fn tell_reports(&mut self) {
        let now_ms = self.now_ms();
        let Some(reporter) = &mut self.reporter else { return };
        for AppReport { app: id, told, has_begun } in reporter.look(now_ms, self.hooks).await {
            let Some(app) = self.hooks.apps.by_id(&id).map(|served| served.app) else { continue };
            for (done, (subject, has_come)) in told.iter().enumerate() {
                let Some((channel, user)) = parse_subject(subject) else { continue };
                self.hooks.push(&app, HookScope::Cluster, &event(channel, user, *has_come));
                if user.is_none() {
                    self.count_subject(&app, channel, true);
                }
                if done % SLICE == SLICE - 1 {
                    yield_now().await;
                }
            }
            if has_begun {
                self.count_all(&app).await;
            }
        }
    }

    /// The numbers of all channels of an app are told, since nobody knows which were.
    async fn count_all(&mut self, app: &App) {
        let there = self.reporter.as_ref().map(|reporter| reporter.there(&app.id));
        for (done, subject) in there.into_iter().flatten().enumerate() {
            if let Some((channel, None)) = parse_subject(&subject) {
                self.count_subject(app, channel, false);
            }
            if done % SLICE == SLICE - 1 {
                yield_now().await;
            }
        }
    }

    fn count_subject(&mut self, app: &App, channel: &str, is_known: bool) {
        if app.tells_subscription_count
            && let Some(key) = key_of(&app.id, channel)
        {
            self.count_reported(&key, is_known);
        }
    }

    /// All that was told is in the queues.
    pub(super) async fn settle_reports(&mut self) {
        let now_ms = self.now_ms();
        if let Some(reporter) = &mut self.reporter {
            reporter.settle(now_ms, self.hooks).await;
        }
    }
}

/// The key of an app's channel.
fn key_of(app: &str, channel: &str) -> Option<String> {
    Some(engine::channel_key(app, Channel::parse(channel).ok()?))
}
