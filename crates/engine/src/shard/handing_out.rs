//! Requests about durable streams, let in here by their token, and updates of the Mercure protocol,
//! whose token is looked at with them: all are served elsewhere.
//!
//! Whoever serves them has the connection to itself ([`crate::handing_out`]), with all that was
//! read of it. It answers this one request.

use hub::{AddressKey, DisconnectReason, Grant};
use proto::request::durable_path;
use proto::{Cors, Method, Problem, Request};

use super::admission::Reply;
use super::core::{At, Core, End, Lives};
use super::tokens::Presented;
use crate::handing_out::Message;
use crate::sockets::Sockets;

/// A connection that is to be handed out, but for its socket.
pub(super) struct Leaving {
    message: Message,
    /// For whom it is counted.
    source: Option<AddressKey>,
    /// All that was read of it and not dealt with, its request first.
    pub(super) read: Vec<u8>,
}

impl<S: Sockets> Core<S> {
    /// Lets a request about a durable stream in. Its connection ends here with that, and goes on
    /// elsewhere.
    pub(super) fn hand_out(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        let granted = match self.look_at_token(at, request) {
            Presented::Open => None,
            Presented::Granted(granted) => Some(granted.grant),
            Presented::Refused(problem) => return self.refuse(at, &problem, reply),
            Presented::Asked => return Ok(()),
        };
        let appends = request.method == Method::Post;
        if let Err(problem) = may(request, granted.as_deref(), appends) {
            self.counters.ids_not_granted.add(u64::from(problem.status == 403));
            return self.refuse(at, &problem, reply);
        }
        let mut message = Message::new(request.path, granted.as_deref());
        message.set_limits(&self.config.settings.client_sends);
        self.leave_with(at, message, reply)
    }

    /// Hands an update on, as it came.
    pub(super) fn hand_out_update(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        self.leave_with(at, Message::new(request.path, None), reply)
    }

    fn leave_with(
        &mut self,
        at: &mut At<'_, S::Socket>,
        mut message: Message,
        reply: &Reply<'_>,
    ) -> Lives {
        // A browser that sent no cookies takes any name for its page's origin.
        if let Some(cors) = reply.cors {
            let Cors { origin, credentials } = cors;
            (message.origin, message.credentials) = (Some(origin.to_owned()), credentials);
        }
        // It goes on being counted, until whoever serves it is done.
        let source = self.sources.take(at.slot);
        self.handed_out = Some(Box::new(Leaving { message, source, read: Vec::new() }));
        Err(End { reason: DisconnectReason::Answered, abort: false })
    }

    /// Hands a connection out whose place here is free again.
    pub(super) fn let_go_of(&mut self, socket: S::Socket, leaving: Leaving) {
        let Leaving { mut message, source, read } = leaving;
        message.source = source.map(AddressKey::bits);
        let went = match (self.io.let_go(socket), &self.hand_outs) {
            (Some((socket, secured)), Some(to)) => to.send(&socket, message, secured, read),
            _ => false,
        };
        if let Some(key) = source.filter(|_| !went) {
            self.addresses.disconnect(key);
        }
    }
}

/// Whether a client with this `grant` may do what it asks for. Without tokens everybody may read,
/// and nobody may append.
fn may(request: &Request<'_>, grant: Option<&Grant>, appends: bool) -> Result<(), Problem> {
    let Some(grant) = grant else {
        return if appends { Err(Problem::appends_are_off()) } else { Ok(()) };
    };
    let path = durable_path(request.path)
        .ok_or_else(|| Problem::bad_request("The path of the stream is empty, or not UTF-8."))?;
    match appends {
        true if grant.allows_write(&path) => Ok(()),
        false if grant.allows_read(&path) => Ok(()),
        _ => Err(Problem::stream_not_granted(&path, appends)),
    }
}
