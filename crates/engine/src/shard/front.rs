//! The protocols that clients speak, and what each of them does in its own way: how a request opens
//! a connection, what a client says and is answered, how a stream ends.
//!
//! A connection's protocol follows from its format, so it takes no byte of the record. This is the
//! one place that tells protocols apart while a connection lives; what each does stands in modules
//! of its own. The set is closed: a further protocol is a variant here, and an arm of each function
//! that the compiler then names. No delivery comes by here: what an event looks like is its
//! format's ([`crate::form`]).
//!
//! Cost: a look at a byte.

use hub::DisconnectReason;
use proto::websocket::{self, command};
use proto::{Format, Request, Route};
use pusher::FrameFault;

use super::admission::Reply;
use super::channels;
use super::core::{At, Core, Lives};
use crate::catch_up::CatchUp;
use crate::conn::Marks;
use crate::said::Answered;
use crate::sockets::Sockets;

/// A protocol of connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Front {
    /// Our own: `docs/protocol.md`.
    Encke,
    /// Pusher Channels, at an app.
    Pusher,
    /// Mercure: a stream of the hub.
    Mercure,
}

impl Front {
    /// The protocol that has this format.
    pub(super) const fn of(format: Format) -> Front {
        match format {
            Format::Sse | Format::Ndjson | Format::Classic | Format::Text | Format::Poll => {
                Front::Encke
            }
            Format::Pusher => Front::Pusher,
            Format::Mercure => Front::Mercure,
        }
    }
}

impl<S: Sockets> Core<S> {
    /// What the connection speaks.
    pub(super) fn front(&self, at: &At<'_, S::Socket>) -> Front {
        Front::of(at.conn.wire.format())
    }

    /// Whether this server has nothing at `route`: no page for people, no tokens that could grant
    /// to read what was sent, or a protocol that is switched off.
    pub(super) fn is_absent(&self, route: Route) -> bool {
        match route {
            Route::Stream | Route::Classic | Route::Poll | Route::WellKnown | Route::Send => false,
            Route::Page => self.config.page.is_none(),
            Route::Events => self.config.tokens.is_none(),
            Route::App => self.config.pusher.is_none(),
            Route::Mercure | Route::MercureList => self.config.mercure.is_none(),
            Route::Durable => !self.config.hands_out,
        }
    }

    /// Serves a request that may be served, which `read` begins with.
    pub(super) fn open(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        read: &[u8],
        reply: &Reply<'_>,
    ) -> Lives {
        match request.route {
            Route::Stream | Route::Classic | Route::Poll => self.admit_listener(at, request, reply),
            Route::Page => self.show_page(at, request),
            Route::WellKnown => self.show_well_known(at, request, reply),
            Route::Send => {
                let whole = request.head_len.saturating_add(request.body.len);
                let body = read.get(request.head_len..whole);
                self.admit_send(at, request, body, reply)
            }
            Route::Events => self.admit_history_read(at, request, reply),
            Route::App => self.admit_to_channels(at, request, reply),
            Route::Mercure => self.admit_to_topics(at, request, read, reply),
            Route::MercureList => self.hand_out_of_hub(at, request, read, reply),
            Route::Durable => self.hand_out(at, request, read, reply),
        }
    }

    /// The longest message that is read of a WebSocket's client.
    pub(super) fn message_bytes_max(&self, at: &At<'_, S::Socket>) -> usize {
        match self.front(at) {
            Front::Pusher => self.frame_bytes_max(at),
            Front::Encke | Front::Mercure => self.command_bytes_max(at),
        }
    }

    /// Takes a message of a WebSocket in, and puts its answer into the buffer for answers. Where
    /// none is put there it follows.
    pub(super) fn hear_text(&mut self, at: &mut At<'_, S::Socket>, text: &str) {
        match self.front(at) {
            Front::Pusher => self.hear_frame(at, text),
            Front::Encke | Front::Mercure => {
                if let Some(answer) = self.command(at, text) {
                    websocket::push_text(&mut self.answer, &answer);
                }
            }
        }
    }

    /// Answers a message that is no text: none has a meaning.
    pub(super) fn hear_binary(&mut self, at: &At<'_, S::Socket>) {
        match self.front(at) {
            Front::Pusher => self.say_fault(FrameFault::NotJson),
            Front::Encke | Front::Mercure => {
                let answer = command::error(&command::binary_problem());
                websocket::push_text(&mut self.answer, &answer);
            }
        }
    }

    /// Tells a stream what has become of an event that it has sent.
    pub(super) fn say_sent(&mut self, at: &mut At<'_, S::Socket>, answered: Answered) -> Lives {
        let Answered { outcome, reference } = answered;
        match (self.front(at), &outcome) {
            // A success is told by nothing.
            (Front::Pusher, Ok(_)) => return Ok(()),
            (Front::Pusher, Err(problem)) => return self.refuse_sent(at, problem),
            (Front::Encke | Front::Mercure, Ok(answer)) => {
                let text = command::send_ok(answer, reference.as_deref());
                websocket::push_text(&mut self.answer, &text);
            }
            (Front::Encke | Front::Mercure, Err(problem)) => {
                let text = command::send_error(problem, reference.as_deref());
                websocket::push_text(&mut self.answer, &text);
            }
        }
        self.put_answer(at)
    }

    /// It is known what a connection has missed that has asked for it.
    pub(super) fn catch_up(&mut self, at: &mut At<'_, S::Socket>, catch_up: Box<CatchUp>) -> Lives {
        match self.front(at) {
            Front::Pusher if !at.conn.state().hears() => Ok(()),
            Front::Pusher => self.hear_missed(at, *catch_up),
            Front::Encke | Front::Mercure => self.catch_up_held(at, catch_up),
        }
    }

    /// Where a stream stands, if its next sign of life is to say so. What a page of Mercure's has
    /// heard last may be forgotten by the time it comes back: of a pattern that would be a gap,
    /// though nothing was missed.
    pub(super) fn place_in_keep_alive(&self, at: &At<'_, S::Socket>) -> Option<String> {
        match self.front(at) {
            Front::Mercure if at.conn.is(Marks::BLOCKS) => self.next(at),
            Front::Encke | Front::Pusher | Front::Mercure => None,
        }
    }

    /// Puts the last words of a stream that ends for `reason` into the buffer for answers.
    pub(super) fn push_end(&mut self, at: &mut At<'_, S::Socket>, reason: DisconnectReason) {
        let carrier = at.conn.wire.carrier();
        match self.front(at) {
            Front::Pusher => channels::push_end(reason, &mut self.answer),
            Front::Encke if carrier.has_messages() => {
                super::websocket::push_end(reason, &mut self.answer);
            }
            Front::Encke => self.answer.extend_from_slice(carrier.end()),
            Front::Mercure => {
                self.push_held_head(at);
                self.answer.extend_from_slice(carrier.end());
            }
        }
    }

    /// Whether a stream that was taken over has nowhere to be any more: the app is gone, or the hub
    /// is not for it.
    pub(super) fn has_no_place(&self, at: &At<'_, S::Socket>) -> bool {
        at.conn.state().hears()
            && match self.front(at) {
                Front::Encke => false,
                Front::Pusher => !self.is_at_app(at),
                Front::Mercure => self.is_subscriber(at) && self.ids_len(at) == 0,
            }
    }
}
