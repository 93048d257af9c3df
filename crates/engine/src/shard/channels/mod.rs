//! Connections that speak the Pusher protocol: how they begin and end, and what is kept of them.
//!
//! Such a connection is a WebSocket whose format is [`Format::Pusher`]. It is at one app, and each
//! channel that it subscribes to is a key under which it is logged in ([`crate::channels`]). So an
//! event of a channel is delivered as any other, and nothing here stands in its way.
//!
//! A client that is refused is told so on the WebSocket, since its library reads nothing else: the
//! handshake, an error, the close.
//!
//! Cost: 4 bytes beside a connection's record, and its log-ins. Nothing where nobody speaks it.

mod fresh;
mod graph;
mod handed_over;
mod hearing;
mod missed;
mod noting;
mod seats;
mod users;

use std::sync::Arc;

use hub::DisconnectReason;
use proto::resume::end_head;
use proto::websocket::{self, handshake};
use proto::{Carrier, Format, Problem, Request};
use pusher::{App, Close, FrameFault, SocketId, app_key, check_protocol, server_frame};

use super::admission::Reply;
use super::core::{At, Core, Lives};
use crate::conn::state::State;
use crate::limits::{MESSAGE_AROUND_BYTES, PUSHER_FRAME_BYTES};
use crate::pusher_apps::ServedApp;
use crate::sockets::Sockets;
use crate::wire::Wire;

/// How much later than the server's sign of life a client misses it, in milliseconds.
const KEEPALIVE_SPARE_MS: u64 = 8_000;

impl<S: Sockets> Core<S> {
    /// Serves a request for a WebSocket at an app.
    pub(super) fn admit_to_channels(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        let Some(upgrade) = &request.upgrade else {
            let problem = Problem::bad_request(
                "This path is a WebSocket of the Pusher protocol. Connect with pusher-js, Laravel \
                 Echo or another library of that protocol.",
            );
            return self.refuse(at, &problem, reply);
        };
        // An event is compressed as those hear it who speak our own protocol.
        let agreement = match handshake::agree(upgrade, false) {
            Ok(agreement) => agreement,
            Err(problem) => return self.refuse(at, &problem, reply),
        };
        handshake::push_head(&agreement, &mut self.answer);
        end_head(&mut self.answer, None, None);
        match self.app_of_request(request, reply) {
            Ok(served) => self.begin_at_app(at, served),
            Err(close) => {
                push_close(close, &mut self.answer);
                self.answered(at, DisconnectReason::BadRequest)
            }
        }
    }

    /// The app of a request, at which one more connection is counted.
    fn app_of_request(
        &mut self,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Result<ServedApp, Close> {
        if let (Some(origin), None) = (request.origin, reply.cors) {
            self.config.refused_origins.note(origin);
            return Err(Close::Unauthorized);
        }
        let apps = self.config.pusher.as_ref().ok_or(Close::NoSuchApp)?;
        let key = app_key(request.path).ok_or(Close::NoSuchApp)?;
        let served = apps.by_key(key).ok_or(Close::NoSuchApp)?;
        if !served.app.is_enabled {
            return Err(Close::AppDisabled);
        }
        check_protocol(request.query)?;
        match served.usage.take(served.app.connections_max) {
            true => Ok(served),
            false => Err(Close::OverCapacity),
        }
    }

    fn begin_at_app(&mut self, at: &mut At<'_, S::Socket>, served: ServedApp) -> Lives {
        at.conn.begin_request();
        at.conn.wire = Wire::new(Format::Pusher, Carrier::WebSocket);
        let (gaps, _) = self.event_ids.begin_stream();
        self.channels.apps.enter(at.slot, served);
        self.counters.streams_opened[at.conn.wire.transport().index()].add(1);
        self.note_begun(at.slot, gaps);
        let activity_timeout = match self.config.settings.keepalive_ms {
            0 => u64::from(pusher::limits::ACTIVITY_TIMEOUT_SECONDS_MAX),
            keepalive_ms => (keepalive_ms + KEEPALIVE_SPARE_MS).div_ceil(1000),
        };
        let activity_timeout = u32::try_from(activity_timeout).unwrap_or(u32::MAX);
        let established =
            server_frame::connection_established(self.socket_id(at), activity_timeout);
        websocket::push_text(&mut self.answer, &established);
        at.conn.move_to(State::Stream);
        at.conn.active = self.now;
        self.wait(at);
        self.send_answer(at)
    }

    /// What the protocol calls the connection.
    fn socket_id(&self, at: &At<'_, S::Socket>) -> SocketId {
        SocketId::of_bits(self.connection_id(self.conn_ref(at)).bits())
    }

    /// The app at which the connection is, as its file has it now.
    fn app(&mut self, at: &At<'_, S::Socket>) -> Option<Arc<App>> {
        let live = self.config.pusher.as_ref()?;
        self.channels.apps.app(at.slot, live)
    }

    /// The longest frame that is read of the connection.
    pub(super) fn frame_bytes_max(&self, at: &At<'_, S::Socket>) -> usize {
        let app = self.channels.apps.last_seen(at.slot);
        let event = app.map_or(0, |app| app.event_bytes_max + MESSAGE_AROUND_BYTES);
        PUSHER_FRAME_BYTES.max(event)
    }

    /// The connection is at no app any more, and in no channel.
    pub(super) fn leave_app(&mut self, at: &At<'_, S::Socket>) {
        if !self.channels.apps.has(at.slot) {
            return;
        }
        self.leave_seats(at);
        self.sign_out(at);
        self.channels.fresh.forget(at.slot);
        self.channels.missed.forget_all(at.slot);
        self.channels.graph.forget(at.slot);
        self.channels.apps.leave(at.slot);
    }

    /// Whether the connection is at an app.
    pub(super) fn is_at_app(&self, at: &At<'_, S::Socket>) -> bool {
        self.channels.apps.has(at.slot)
    }

    /// Puts a frame into the buffer for answers.
    fn say_frame(&mut self, frame: &str) {
        websocket::push_text(&mut self.answer, frame);
    }

    /// Says that a message cannot be read. The connection stays.
    pub(super) fn say_fault(&mut self, fault: FrameFault) {
        self.say_frame(&server_frame::error(fault));
    }
}

/// The last words of the server to one whose stream ends for `reason`.
pub(super) fn push_end(reason: DisconnectReason, out: &mut Vec<u8>) {
    let close = match reason {
        DisconnectReason::LoggedOut => Close::Unauthorized,
        // Nothing else ends a stream gracefully.
        _ => Close::Reconnect,
    };
    push_close(close, out);
}

/// The error that says why, and the close with the same number.
pub(super) fn push_close(close: Close, out: &mut Vec<u8>) {
    websocket::push_text(out, &server_frame::error(close));
    websocket::push_close_code(out, close.code(), close.message());
}
