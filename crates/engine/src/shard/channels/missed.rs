//! What a subscriber has missed since an event that it names: behind its success, before all that
//! is posted later.
//!
//! The connection is logged in, and asks as one that comes back does ([`crate::resume`]). Until it
//! has the answer, events of that channel are passed over: the history has them. If one came while
//! the answer was on its way, the rest is asked for again. Else the channel goes on as any other.
//! Other channels of the connection notice nothing. A window of what was missed is written before
//! the next one is asked for, and one channel asks at a time. So no more than a window is kept for
//! a connection, however slowly it reads.
//!
//! Cost: nothing for those who name no event. Of others some 100 bytes while they wait.

use std::sync::{Arc, Weak};

use hub::{Id, IdText, KEY_MARK, Place};
use pusher::{App, Channel, Given, server_frame};
use smallvec::SmallVec;

use super::super::core::{At, Core, Lives};
use super::super::tables::wishes::{Start, Wish};
use crate::Event;
use crate::catch_up::CatchUp;
use crate::channels::channel_name;
use crate::limits;
use crate::questions::Asker;
use crate::resume::Resume;
use crate::shared_ids;
use crate::sockets::Sockets;

/// What is to be asked for the channel with this key, and what keeps it asked.
struct MissedQuestion {
    key: Box<str>,
    client: Arc<()>,
    resume: Resume,
}

impl<S: Sockets> Core<S> {
    /// Where a subscriber that has named the last event that it has heard goes on.
    pub(super) fn start_of(&self, app: &App, channel: Channel<'_>, after: &Given) -> Option<Start> {
        let place = match after {
            Given::Absent => return None,
            Given::Text(place) if place.is_empty() => return Some(Start::Here),
            Given::Text(place) => self.event_ids.known(place.as_bytes()),
            Given::Other => Place::Unknown,
        };
        Some(match place {
            // Before the file was changed its events were about something else.
            Place::Known(number) if number < self.ids_changed(app, channel) => Start::Nowhere,
            Place::Known(number) if self.config.history.is_on() => Start::Behind(number),
            // Heard at another node of the cluster.
            Place::Future(number) if self.config.history.is_on() && self.event_ids.are_given() => {
                Start::Behind(number)
            }
            _ => Start::Nowhere,
        })
    }

    /// Up to which number events on the channel may have been shared with another id than now.
    fn ids_changed(&self, app: &App, channel: Channel<'_>) -> u64 {
        let apps = self.config.pusher.as_ref();
        let apps = apps.filter(|_| channel.user().is_none() && !channel.is_cached());
        apps.map_or(0, |apps| apps.ids_changed(&app.id))
    }

    /// Notes that the connection wants to go on there as soon as it is logged in.
    pub(super) fn wish(&mut self, slot: u32, key: IdText<'_>, start: Start) {
        let key: Box<str> = key.to_string().into();
        self.channels.missed.forget(slot, &key);
        let apps = self.config.pusher.as_ref();
        let shared = apps.and_then(|apps| apps.kept_id(&self.names, &key));
        self.channels.missed.0.entry(slot).or_default().push(Wish {
            key,
            start,
            is_in: false,
            has_graph: false,
            shared,
            asked: None,
            asked_over: 0,
            is_first: true,
            gap_up_to: 0,
            passed_over: 0,
        });
    }

    /// Asks for what is posted behind the number `told`, since one that is being sent may not come
    /// otherwise. The connection is logged in under `key`, and has come back from nowhere.
    pub(super) fn wish_rest(&mut self, at: &At<'_, S::Socket>, key: IdText<'_>, told: u64) {
        self.wish(at.slot, key, Start::Behind(told));
        if let Some(wish) = self.channels.missed.find(at.slot, &key.to_string()) {
            (wish.is_in, wish.is_first) = (true, false);
        }
        self.ask_missed(at);
    }

    /// The connection was logged in under `key`, behind the number `newest`, and its success is in
    /// the buffer for answers. Whether it is told there what is behind that.
    pub(super) fn go_on_in_channel(
        &mut self,
        at: &At<'_, S::Socket>,
        key: IdText<'_>,
        newest: u64,
    ) -> bool {
        let (slot, key) = (at.slot, key.to_string());
        let has_graph = self.channels.graph.is_of(slot, &key);
        let Some(wish) = self.channels.missed.find(slot, &key) else { return false };
        (wish.is_in, wish.has_graph) = (true, has_graph);
        let start = wish.start;
        if let Start::Behind(_) = start {
            self.ask_missed(at);
            return true;
        }
        self.channels.missed.forget(slot, &key);
        let name = channel_name(&key).unwrap_or_default();
        let id = self.event_ids.id(newest).to_string();
        if start == Start::Here {
            self.say_frame(&server_frame::place(&name, &id));
        } else {
            self.resumes.count(true);
            self.say_frame(&server_frame::gap(&name, Some(&id)));
        }
        false
    }

    /// Asks for what the connection has missed, unless it has asked, or has still to read: then it
    /// asks when all is written. Where too many ask, it is told of a gap.
    pub(in super::super) fn ask_missed(&mut self, at: &At<'_, S::Socket>) {
        let slot = at.slot;
        while let Some(MissedQuestion { key, client, resume }) = self.next_missed(at) {
            let is_asked = match resume.after > self.event_ids.last() {
                true => self.resumes.post_future(resume),
                false => self.resumes.post(resume),
            };
            if is_asked {
                if let Some(wish) = self.channels.missed.find(slot, &key) {
                    (wish.asked, wish.asked_over) = (Some(client), wish.passed_over);
                }
                return;
            }
            self.channels.missed.forget(slot, &key);
            self.resumes.count(true);
            let name = channel_name(&key).unwrap_or_default();
            self.say_frame(&server_frame::gap(&name, None));
        }
    }

    /// The next question of the connection, if it waits for no answer and has read what came last.
    fn next_missed(&mut self, at: &At<'_, S::Socket>) -> Option<MissedQuestion> {
        if !at.conn.is_flushed() {
            return None;
        }
        let conn = self.conn_ref(at);
        let wishes = self.channels.missed.of(at.slot);
        if wishes.iter().any(|wish| wish.asked.is_some()) {
            return None;
        }
        let wish = wishes.iter().find(|wish| wish.is_in)?;
        let Start::Behind(after) = wish.start else { return None };
        let mut ids: SmallVec<[Id; 2]> = SmallVec::new();
        if wish.shared.as_ref().is_none_or(|shared| !shared.is_all) {
            ids.extend(IdText::of_key(&wish.key).ok().and_then(|key| self.names.lookup(key)));
        }
        ids.extend(wish.shared.as_ref().map(|shared| shared.id));
        if wish.has_graph {
            ids.extend(self.channels.graph.id(at.slot));
        }
        let client = Arc::new(());
        let resume = Resume {
            asker: Asker { conn, client: Arc::downgrade(&client) },
            ids,
            // Subscribers hear what is sent about the id, and not what that follows.
            are_alone: wish.shared.is_some(),
            after,
            named: None,
            future_in: None,
            gap_up_to: wish.gap_up_to,
            past: None,
            bytes_max: limits::window_bytes(self.config.backlog_bytes_max),
            is_first: wish.is_first,
            is_lost: false,
        };
        Some(MissedQuestion { key: wish.key.clone(), client, resume })
    }

    /// It is known what the connection has missed of a channel, or a window of it.
    pub(in super::super) fn hear_missed(
        &mut self,
        at: &mut At<'_, S::Socket>,
        catch_up: CatchUp,
    ) -> Lives {
        let CatchUp { client, events, gap, gap_up_to, up_to, whole, .. } = catch_up;
        let is_it = |asked: &Arc<()>| Weak::as_ptr(&client) == Arc::as_ptr(asked);
        let mut wishes = self.channels.missed.of(at.slot).iter_mut();
        let Some(wish) = wishes.find(|wish| wish.asked.as_ref().is_some_and(is_it)) else {
            // It has left the channel since, and others may wait.
            self.ask_missed(at);
            return self.put_answer(at);
        };
        let (key, start) = (wish.key.clone(), wish.start);
        let before = if let Start::Behind(number) = start { number } else { 0 };
        let heard = match whole {
            true => events.last().map_or(before, |last| last.number()).max(wish.asked_over),
            false => up_to.max(before),
        };
        let is_first = std::mem::take(&mut wish.is_first);
        (wish.asked, wish.start) = (None, Start::Behind(heard));
        wish.gap_up_to = wish.gap_up_to.max(gap_up_to);
        let is_over = whole && wish.passed_over <= heard;
        match is_first {
            true => self.resumes.count(gap),
            false if gap => self.resumes.count_gap(),
            false => {}
        }
        if gap {
            // What comes behind it has an id of its own.
            let is_last = is_over && events.is_empty();
            let id = is_last.then(|| self.event_ids.id(up_to).to_string());
            let name = channel_name(&key).unwrap_or_default();
            self.say_frame(&server_frame::gap(&name, id.as_deref()));
            self.put_answer(at)?;
        }
        self.put_missed(at, &key, &events)?;
        if is_over {
            self.channels.missed.forget(at.slot, &key);
            // What was posted up to there is in it, and may be on its way as well.
            self.channels.fresh.note(at.slot, up_to, &key);
        }
        self.ask_missed(at);
        self.put_answer(at)
    }

    /// Puts what was missed of the channel with this key onto the outbox.
    fn put_missed(
        &mut self,
        at: &mut At<'_, S::Socket>,
        key: &str,
        events: &[Arc<Event>],
    ) -> Lives {
        let own = self.connection_id(self.conn_ref(at));
        let has_graph = self.channels.graph.is_of(at.slot, key);
        for event in events.iter().filter(|event| !event.except().has(own)) {
            if event.about().starts_with(KEY_MARK) {
                at.conn.push_event(event);
            } else if !has_graph {
                if let Some(event) = shared_ids::on_channel(event, key) {
                    at.conn.push_event(&event);
                }
            } else if !self.is_heard_in_channel(at, event)
                && let Some(frame) = self.channels.graph.frame(at.slot, event)
            {
                self.say_frame(&frame);
                self.put_answer(at)?;
            }
        }
        if !at.conn.is_flushed() {
            self.queue(at, at.conn.backlog_bytes() > limits::EXPRESS_BYTES_MAX);
        }
        Ok(())
    }

    /// Whether the connection is in a channel that is shared with a subject of `event`.
    fn is_heard_in_channel(&self, at: &At<'_, S::Socket>, event: &Event) -> bool {
        let apps = self.config.pusher.as_ref();
        apps.is_some_and(|apps| {
            let shared = apps.shared_channels(&self.names, event);
            shared.iter().any(|channel| self.has_id(at, channel.id))
        })
    }

    /// The connection is told of a gap, and no answer comes: its channels go on behind that.
    pub(in super::super) fn give_up_missed(&mut self, at: &At<'_, S::Socket>) {
        let wishes = self.channels.missed.of(at.slot).iter().filter(|wish| wish.is_in);
        for key in wishes.map(|wish| wish.key.clone()).collect::<Vec<_>>() {
            self.channels.missed.forget(at.slot, &key);
            let name = channel_name(&key).unwrap_or_default();
            self.say_frame(&server_frame::gap(&name, None));
        }
    }

    /// A connection of another process waited there for what it has missed, or to be told where it
    /// is.
    pub(super) fn wish_again(&mut self, at: &At<'_, S::Socket>, wishes: &[(String, Start)]) {
        for (text, start) in wishes {
            let Ok(key) = IdText::of_key(text) else { continue };
            self.wish(at.slot, key, *start);
            let is_in = self.names.lookup(key).is_some_and(|id| self.has_id(at, id));
            let has_graph = self.channels.graph.is_of(at.slot, text);
            if let Some(wish) = self.channels.missed.find(at.slot, text) {
                (wish.is_in, wish.has_graph) = (is_in, has_graph);
            }
        }
    }
}
