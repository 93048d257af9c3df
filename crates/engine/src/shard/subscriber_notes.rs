//! What is noted of clients of the hub that come and go, so that others hear who is subscribed
//! ([`topics::Subscriptions`]).
//!
//! Cost: a load for each that comes or goes, as long as nobody may hear of it; then the texts of
//! what it listens to. A token's payload is kept for whoever has one.

use std::sync::Arc;

use mercure::Dialect;
use topics::{HeldSelector, SubscriberNote, subscribed};

use super::core::{At, Core};
use super::front::Front;
use super::tables::hub_marks::HubMarks;
use crate::sockets::Sockets;

/// A subscriber that is about to be logged out, and what it listens to, where somebody wants to
/// know.
pub(super) struct SubscriberLeaving(Option<Vec<HeldSelector>>);

impl<S: Sockets> Core<S> {
    /// A subscriber is logged in, with a token or without, which has this payload. It may hear who
    /// is subscribed in the form of a dialect, or not.
    pub(super) fn note_subscriber(
        &mut self,
        at: &At<'_, S::Socket>,
        has_token: bool,
        hears_subscriptions: Option<Dialect>,
        payload: Option<Arc<str>>,
    ) {
        let Some(topics) = self.topics.clone() else { return };
        let (subscriptions, conn) = (topics.subscriptions(), self.conn_ref(at));
        let marks = HubMarks::of(&[
            (HubMarks::HAS_TOKEN, has_token),
            (HubMarks::HEARS_SUBSCRIPTIONS, hears_subscriptions.is_some()),
            (HubMarks::HAS_PAYLOAD, payload.is_some()),
        ]);
        self.hub_marks.set(at.slot, marks);
        if let Some(payload) = &payload {
            subscriptions.keep_payload(conn, Arc::clone(payload));
        }
        match hears_subscriptions {
            Some(Dialect::Old) => subscriptions.listen(|| self.event_ids.last()),
            Some(Dialect::V1) => subscriptions.listen_v1(|| self.event_ids.last()),
            None => {}
        }
        if subscriptions.is_wanted() {
            let (came, selectors) = (Some(self.connection_id(conn)), Some(self.selectors(at)));
            let who = subscriptions.number(conn);
            subscriptions.note(SubscriberNote { who, came, selectors, payload });
        }
    }

    /// What is to be noted of a connection that is about to be logged out, if it is a subscriber.
    pub(super) fn subscriber_leaving(&self, at: &At<'_, S::Socket>) -> Option<SubscriberLeaving> {
        let is_subscriber = self.front(at) == Front::Mercure && self.ids_len(at) > 0;
        let topics = self.topics.as_ref().filter(|_| is_subscriber)?;
        let is_wanted = topics.subscriptions().is_wanted();
        Some(SubscriberLeaving(is_wanted.then(|| self.selectors(at))))
    }

    /// It is logged out.
    pub(super) fn note_left(
        &mut self,
        at: &At<'_, S::Socket>,
        subscriber: Option<SubscriberLeaving>,
    ) {
        let (Some(topics), Some(SubscriberLeaving(selectors))) = (&self.topics, subscriber) else {
            return;
        };
        let (subscriptions, conn) = (topics.subscriptions(), self.conn_ref(at));
        let marks = self.hub_marks.take(at.slot);
        let has_payload = marks.has(HubMarks::HAS_PAYLOAD);
        let payload = has_payload.then(|| subscriptions.take_payload(conn)).flatten();
        // Behind the log-out, so that who lists those who are there sees one of the two.
        if subscriptions.is_wanted() {
            let who = subscriptions.number(conn);
            subscriptions.note(SubscriberNote { who, came: None, selectors, payload });
        }
        if marks.has(HubMarks::HAS_NAME) {
            subscriptions.forget_number(conn);
        }
        if marks.has(HubMarks::HEARS_SUBSCRIPTIONS) {
            subscriptions.leave();
        }
    }

    /// What a subscriber listens to.
    fn selectors(&self, at: &At<'_, S::Socket>) -> Vec<HeldSelector> {
        let texts = self.ids(at).filter(|id| id.is_key()).filter_map(|id| self.names.text(id));
        texts.filter_map(|text| subscribed(&text)).collect()
    }
}
