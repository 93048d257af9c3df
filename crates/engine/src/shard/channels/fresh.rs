//! The last event of a channel, for one who subscribes: a success, then that event, then what is
//! posted behind it.
//!
//! The event is looked up behind the log-in. So what was posted meanwhile is on its way to the
//! connection as well. It is passed over, up to the event that the client has been told. As soon as
//! all mail up to there has come nothing of that is kept.
//!
//! Cost of a delivery: a look whether there is such a connection at this moment.

use std::collections::HashMap;

use hub::{Id, IdText};
use proto::{Carrier, Format};
use pusher::server_frame;
use smallvec::SmallVec;

use super::super::core::{At, Core};
use crate::Event;
use crate::channel_notes::ChannelChange;
use crate::form::Form;
use crate::sockets::Sockets;

/// How the client is told the event.
const FORM: Form = Form { format: Format::Pusher, carrier: Carrier::WebSocket, deflate: false };

/// Up to which number events are told, and of the channel with which key.
type Told = SmallVec<[(u64, Box<str>); 1]>;

/// What connections have just been told, by slot.
#[derive(Default)]
pub(in super::super) struct Fresh(HashMap<u32, Told>);

impl Fresh {
    /// Whether there is none.
    pub(in super::super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All mail up to the number `settled` has come.
    pub(in super::super) fn forget_up_to(&mut self, settled: u64) {
        self.0.retain(|_, told| {
            told.retain(|(number, _)| *number > settled);
            !told.is_empty()
        });
    }

    /// The connection in `slot` has gone.
    pub(super) fn forget(&mut self, slot: u32) {
        self.0.remove(&slot);
    }

    /// The connection in `slot` has been told all of the channel with this key up to a number.
    pub(super) fn note(&mut self, slot: u32, up_to: u64, key: &str) {
        self.0.entry(slot).or_default().push((up_to, key.into()));
    }

    /// The connection in `slot` has left the channel with this key.
    pub(super) fn forget_channel(&mut self, slot: u32, key: &str) {
        if let Some(told) = self.0.get_mut(&slot) {
            told.retain(|(_, of)| **of != *key);
        }
    }

    /// Whether the connection in `slot` has been told `event`, or a later one of its channel.
    pub(in super::super) fn has_told(&self, slot: u32, event: &Event) -> bool {
        let mut told = self.0.get(&slot).into_iter().flatten();
        told.any(|(up_to, key)| event.number() <= *up_to && *event.about() == **key)
    }
}

impl<S: Sockets> Core<S> {
    /// Puts the last event of a channel into the buffer for answers, or that there is none. The
    /// connection has just been logged in there.
    pub(super) fn say_last(&mut self, at: &At<'_, S::Socket>, key: IdText<'_>, channel: &str) {
        let id = self.names.lookup(key);
        let last =
            id.zip(self.config.pusher.as_ref()).and_then(|(id, apps)| apps.cached().last(id));
        let Some(event) = last else {
            if let Some(id) = id {
                self.note(at, (id, Id::NONE), ChannelChange::Missed);
            }
            return self.say_frame(&server_frame::cache_miss(channel));
        };
        self.answer.extend_from_slice(FORM.frame(&event).for_carrier(Carrier::WebSocket));
        self.channels.fresh.note(at.slot, event.number(), &key.to_string());
    }
}

#[cfg(test)]
mod tests {
    use hub::{Draft, EventId, EventParts, Payload, Tag};
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn event_that_is_told_is_passed_over_until_all_mail_up_to_it_has_come() {
        let event = |number: u64, about: &str| -> Event {
            let payload = Payload::Text("x");
            let parts = EventParts { about, also: &[], name: None, from: None, payload };
            Draft::of_key(parts).unwrap().numbered(EventId::new(number, Tag::of(0)))
        };
        let mut fresh = Fresh::default();
        fresh.0.insert(3, smallvec![(7, "#k1:cache-a".into())]);
        let told = [event(6, "#k1:cache-a"), event(7, "#k1:cache-a")];
        assert!(told.iter().all(|event| fresh.has_told(3, event)));
        for other in [event(8, "#k1:cache-a"), event(7, "#k1:cache-b")] {
            assert!(!fresh.has_told(3, &other));
        }
        assert!(!fresh.has_told(4, &told[0]), "another connection");
        fresh.forget_up_to(6);
        assert!(!fresh.is_empty());
        fresh.forget_up_to(7);
        assert!(fresh.is_empty());
    }
}
