//! What is noted of clients of the hub that come and go, so that others hear who is subscribed
//! ([`topics::Subscriptions`]).
//!
//! Cost: a load for each that comes or goes, as long as nobody may hear of it; then the texts of
//! what it listens to. A token's payload is kept for whoever has one.

use std::sync::Arc;

use proto::Format;
use topics::{HeldSelector, SubscriberNote, subscribed};

use super::core::{At, Core};
use crate::sockets::Sockets;

/// What there is of a subscriber to be taken back when it goes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct HubMarks {
    /// It may hear who is subscribed.
    pub(super) hears_subscriptions: bool,
    /// Its token has a payload.
    pub(super) has_payload: bool,
}

impl<S: Sockets> Core<S> {
    /// A subscriber is logged in, whose token has this payload.
    pub(super) fn note_subscriber(
        &mut self,
        at: &At<'_, S::Socket>,
        hears_subscriptions: bool,
        payload: Option<Arc<str>>,
    ) {
        let Some(topics) = self.topics.clone() else { return };
        let (subscriptions, conn) = (topics.subscriptions(), self.conn_ref(at));
        let marks = HubMarks { hears_subscriptions, has_payload: payload.is_some() };
        self.hub_marks.set(at.slot, marks);
        if let Some(payload) = &payload {
            subscriptions.keep_payload(conn, Arc::clone(payload));
        }
        if hears_subscriptions {
            subscriptions.listen(|| self.event_ids.last());
        }
        if subscriptions.is_wanted() {
            let (came, selectors) = (Some(self.connection_id(conn)), Some(self.selectors(at)));
            subscriptions.note(SubscriberNote { conn, came, selectors, payload });
        }
    }

    /// What is to be noted of a connection that is about to be logged out, if it is a subscriber.
    pub(super) fn subscriber_leaving(&self, at: &At<'_, S::Socket>) -> Option<SubscriberNote> {
        let is_subscriber = at.conn.wire.format() == Format::Mercure && self.ids_len(at) > 0;
        let topics = self.topics.as_ref().filter(|_| is_subscriber)?;
        let selectors = topics.subscriptions().is_wanted().then(|| self.selectors(at));
        Some(SubscriberNote { conn: self.conn_ref(at), came: None, selectors, payload: None })
    }

    /// It is logged out.
    pub(super) fn note_left(&mut self, at: &At<'_, S::Socket>, note: Option<SubscriberNote>) {
        let (Some(topics), Some(note)) = (&self.topics, note) else { return };
        let subscriptions = topics.subscriptions();
        let HubMarks { hears_subscriptions, has_payload } = self.hub_marks.take(at.slot);
        let payload = has_payload.then(|| subscriptions.take_payload(note.conn)).flatten();
        // Behind the log-out, so that who lists those who are there sees one of the two.
        if subscriptions.is_wanted() {
            subscriptions.note(SubscriberNote { payload, ..note });
        }
        if hears_subscriptions {
            subscriptions.leave();
        }
    }

    /// What a subscriber listens to.
    fn selectors(&self, at: &At<'_, S::Socket>) -> Vec<HeldSelector> {
        let texts = self.ids(at).filter(|id| id.is_key()).filter_map(|id| self.names.text(id));
        texts.filter_map(|text| subscribed(&text)).collect()
    }
}
