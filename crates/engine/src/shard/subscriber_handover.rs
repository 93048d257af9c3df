//! What a client of the hub is, as it is written down for another process, and goes on there.
//!
//! It is told by the keys that it is logged in under. Whoever takes it over has it listen to the
//! same anew, without a look at the bounds of those who come. If it cannot have all of that there,
//! because no hub is served any more, or not to anonymous clients, its stream ends: its client
//! comes back, and is told why it may not.

use std::sync::Arc;

use hub::IdText;

use super::Shard;
use super::core::{At, Core};
use super::front::Front;
use super::tables::hub_marks::HubMarks;
use crate::mercure_config::HeldHead;
use crate::sockets::Sockets;
use crate::state::SubscriberState;

impl<S: Sockets> Shard<S> {
    /// The list of grants of a key that somebody here is logged in under, if it has one.
    pub(crate) fn write_list(&self, key: &str) -> Option<Vec<u8>> {
        self.core.topics.as_ref()?.write_list(key)
    }

    /// A list comes that some of those have who are taken over next.
    pub(crate) fn expect_list(&self, list: &[u8]) {
        self.core.topics.iter().for_each(|topics| topics.expect_list(list));
    }
}

impl<S: Sockets> Core<S> {
    /// Whether it is a stream of the hub.
    pub(super) fn is_subscriber(&self, at: &At<'_, S::Socket>) -> bool {
        self.front(at) == Front::Mercure && at.conn.state().is_logged_in()
    }

    /// What a connection is at the hub, if it is a stream there.
    pub(super) fn write_subscriber(&self, at: &At<'_, S::Socket>) -> Option<SubscriberState> {
        let topics = self.topics.as_ref().filter(|_| self.is_subscriber(at))?;
        let (subscriptions, conn) = (topics.subscriptions(), self.conn_ref(at));
        let marks = self.hub_marks.get(at.slot);
        let keys = self.ids(at).filter(|id| id.is_key()).filter_map(|id| self.names.text(id));
        let payload = || subscriptions.payload(conn).map(|payload| payload.to_string());
        let number = subscriptions.number(conn);
        Some(SubscriberState {
            keys: keys.collect(),
            has_token: marks.has(HubMarks::HAS_TOKEN),
            hears_subscriptions: marks.has(HubMarks::HEARS_SUBSCRIPTIONS),
            payload: marks.has(HubMarks::HAS_PAYLOAD).then(payload).flatten(),
            name: Some(((number >> 64) as u64, number as u64)),
            head: at.conn.work().and_then(|work| Some(work.held.head.as_ref()?.write_down())),
        })
    }

    /// The keys under which a stream of the hub that comes from another process is to be logged
    /// in. `None` if it cannot go on here.
    pub(super) fn listen_again(
        &mut self,
        at: &At<'_, S::Socket>,
        subscriber: &SubscriberState,
    ) -> Option<Vec<String>> {
        let (topics, config) = (self.topics.as_ref()?, self.config.mercure.as_ref()?);
        let SubscriberState { keys, has_token, .. } = subscriber;
        let may = if *has_token { config.check.is_some() } else { config.is_open };
        if !may || keys.iter().any(|key| IdText::of_key(key).is_err()) {
            return None;
        }
        let listening = topics.listen_again(keys, !has_token)?;
        self.patterns.set(at.slot, listening.is_counted);
        Some(listening.keys)
    }

    /// It is logged in.
    pub(super) fn settle_subscriber(
        &mut self,
        at: &mut At<'_, S::Socket>,
        subscriber: SubscriberState,
    ) {
        let Some(topics) = self.topics.clone() else { return };
        let (subscriptions, conn) = (topics.subscriptions(), self.conn_ref(at));
        let SubscriberState { has_token, hears_subscriptions, payload, name, .. } = subscriber;
        let marks = HubMarks::of(&[
            (HubMarks::HAS_TOKEN, has_token),
            (HubMarks::HEARS_SUBSCRIPTIONS, hears_subscriptions),
            (HubMarks::HAS_PAYLOAD, payload.is_some()),
            (HubMarks::HAS_NAME, name.is_some()),
        ]);
        self.hub_marks.set(at.slot, marks);
        if let Some(payload) = payload {
            subscriptions.keep_payload(conn, Arc::from(payload));
        }
        if let Some((upper, lower)) = name {
            subscriptions.keep_number(conn, u128::from(upper) << 64 | u128::from(lower));
        }
        if hears_subscriptions {
            subscriptions.listen_again();
        }
    }

    /// Its answer has no head yet.
    pub(super) fn keep_head(
        &mut self,
        at: &mut At<'_, S::Socket>,
        subscriber: &mut SubscriberState,
    ) {
        if let Some(head) = subscriber.head.take() {
            let head = HeldHead::read_back(head, at.conn.wire);
            at.conn.new_work().held.head = Some(Box::new(head));
        }
    }
}
