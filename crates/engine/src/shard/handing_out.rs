//! Requests about durable streams, let in here by their token, and updates of the Mercure protocol,
//! whose token is looked at with them: all are served elsewhere.
//!
//! Whoever serves them has the connection to itself ([`crate::handing_out`]), with all that was
//! read of it. It answers this one request. Where there is no room for one more its client is
//! refused here.

use hub::{AddressKey, DisconnectReason, Grant};
use proto::request::durable_path;
use proto::{Cors, Method, Problem, Request};

use super::admission::Reply;
use super::core::{At, Core, End, Lives};
use super::tokens::{Presented, too_many_connections};
use crate::handing_out::Message;
use crate::limits::RETRY_AFTER_SECONDS;
use crate::sockets::Sockets;

impl<S: Sockets> Core<S> {
    /// Lets a request about a durable stream in, with which `read` begins, all that was read of its
    /// connection. That ends here then, and goes on elsewhere.
    pub(super) fn hand_out(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        read: &[u8],
        reply: &Reply<'_>,
    ) -> Lives {
        let granted = match self.look_at_token(at, request) {
            Presented::Open => None,
            Presented::Granted(granted) => Some(granted),
            Presented::Refused(problem) => return self.refuse(at, &problem, reply),
            Presented::Asked => {
                // A body may be longer than what is kept of a request here.
                at.conn.new_work().token.leaves_rest = true;
                return Ok(());
            }
        };
        let appends = request.method == Method::Post;
        let limits = &self.config.settings.client_sends;
        let has_rate = limits.per_second > 0;
        let grant = granted.as_ref().map(|granted| &*granted.grant);
        let may = may(request, grant, appends, has_rate);
        if let Err(problem) = may {
            self.counters.ids_not_granted.add(u64::from(problem.status == 403));
            return self.refuse(at, &problem, reply);
        }
        let mut message = Message::new(request.path, grant);
        message.set_limits(limits);
        if let Some(granted) = granted.filter(|granted| granted.grant.connections_max.is_some()) {
            if !self.take_use(&granted) {
                return self.refuse(at, &too_many_connections(), reply);
            }
            message.token_use = Some(self.tokens.use_of(&granted.grant));
        }
        self.leave_with(at, message, read, reply)
    }

    /// Hands an update on, as it came, or a question who is subscribed.
    pub(super) fn hand_out_of_hub(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        read: &[u8],
        reply: &Reply<'_>,
    ) -> Lives {
        self.leave_with(at, Message::new(request.path, None), read, reply)
    }

    fn leave_with(
        &mut self,
        at: &mut At<'_, S::Socket>,
        mut message: Message,
        read: &[u8],
        reply: &Reply<'_>,
    ) -> Lives {
        // A browser that sent no cookies takes any name for its page's origin.
        if let Some(cors) = reply.cors {
            let Cors { origin, credentials } = cors;
            (message.origin, message.credentials) = (Some(origin.to_owned()), credentials);
        }
        let token_use = message.token_use;
        if !self.send_on(at, message, read) {
            token_use.into_iter().for_each(|token_use| self.tokens.uses.give_back(token_use));
            let problem = Problem::streams_busy(RETRY_AFTER_SECONDS);
            return self.refuse_for(at, &problem, reply, DisconnectReason::Full);
        }
        // It goes on being counted, until whoever serves it is done.
        self.sources.take(at.slot);
        self.is_handed_out = true;
        Err(End { reason: DisconnectReason::Answered, abort: false })
    }

    /// Sends a copy of a connection to whoever serves it. Whether there was room.
    fn send_on(&self, at: &At<'_, S::Socket>, mut message: Message, read: &[u8]) -> bool {
        let socket = &at.conn.socket;
        message.source = self.sources.get(at.slot).map(AddressKey::bits);
        match (self.io.descriptor(socket), self.io.write_down(socket), &self.hand_outs) {
            (Some(descriptor), Ok(secured), Some(to)) => {
                to.send(descriptor, message, secured, read.to_vec())
            }
            _ => false,
        }
    }
}

/// Whether a client with this `grant` may do what it asks for. Without tokens everybody may read,
/// and nobody may append. Where appends have a rate they need a name to count them by.
fn may(
    request: &Request<'_>,
    grant: Option<&Grant>,
    appends: bool,
    has_rate: bool,
) -> Result<(), Problem> {
    let Some(grant) = grant else {
        return if appends { Err(Problem::appends_are_off()) } else { Ok(()) };
    };
    let path = durable_path(request.path).filter(|path| hub::is_path(path));
    let path = path.ok_or_else(|| {
        let detail = "The path of a stream has 1 to 1,024 bytes of percent-encoded UTF-8, \
                      without control characters.";
        Problem::bad_request(detail)
    })?;
    match appends {
        true if grant.allows_write(&path) => {
            let is_named = grant.subject.is_some() || grant.token.is_some();
            if is_named || !has_rate { Ok(()) } else { Err(Problem::append_without_name()) }
        }
        false if grant.allows_read(&path) => Ok(()),
        _ => Err(Problem::stream_not_granted(appends)),
    }
}
