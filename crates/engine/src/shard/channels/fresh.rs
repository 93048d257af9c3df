//! The last event of a channel, for one who subscribes: a success, then that event, then what is
//! posted behind it.
//!
//! The event is looked up behind the log-in. So what was posted meanwhile is on its way to the
//! connection as well. It is passed over, up to the event that the client has been told. As soon as
//! all mail up to there has come nothing of that is kept.
//!
//! Of an event that is being sent at that moment it is not known whether its audience was looked up
//! before the log-in. Then the connection asks for what is behind the event that it was told, as
//! one that comes back does (`missed.rs`).
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
    /// connection has just been logged in there, behind the number `newest`.
    pub(super) fn say_last(
        &mut self,
        at: &At<'_, S::Socket>,
        (key, channel): (IdText<'_>, &str),
        newest: u64,
    ) {
        let Some((id, apps)) = self.names.lookup(key).zip(self.config.pusher.clone()) else {
            return;
        };
        // Before the look-up: what is recorded in between is found by both.
        let is_sending = apps.cached().is_sending(id);
        let mut told = newest;
        match apps.cached().last(id) {
            None => {
                self.note(at, (id, Id::NONE), ChannelChange::Missed);
                self.say_frame(&server_frame::cache_miss(channel));
            }
            Some(event) => {
                told = newest.max(event.number());
                self.answer.extend_from_slice(FORM.frame(&event).for_carrier(Carrier::WebSocket));
                self.channels.fresh.note(at.slot, event.number(), &key.to_string());
            }
        }
        if is_sending {
            self.wish_rest(at, key, told);
        }
    }
}
