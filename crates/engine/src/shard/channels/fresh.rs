//! The last event of a channel, for one who subscribes: a success, then that event, then what is
//! posted behind it.
//!
//! The event is looked up behind the log-in. So what was posted meanwhile is on its way to the
//! connection as well: it is passed over, up to the event that the client has been told. As soon as
//! all mail up to there has come nothing of that is kept.
//!
//! Cost of a delivery: a look whether there is such a connection at this moment.

use hub::{Id, IdText};
use proto::{Carrier, Format};
use pusher::server_frame;

use super::super::core::{At, Core};
use crate::channel_notes::ChannelChange;
use crate::form::Form;
use crate::sockets::Sockets;

/// How the client is told the event.
const FORM: Form = Form { format: Format::Pusher, carrier: Carrier::WebSocket, deflate: false };

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
