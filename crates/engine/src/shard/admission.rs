//! From a request head to a stream or a poll, or to an answer that says why not.

use std::borrow::Cow;
use std::sync::Arc;

use hub::{DisconnectReason, IdText};
use proto::request::{self, Parsed, Refusal, Request};
use proto::resume::{Begins, PlaceStyle, end_head};
use proto::{Carrier, Cors, Format, Method, Problem, Route, response};

use super::core::{At, Core, End, Lives};
use super::forwarded::Before;
use super::request_ids::ids_of;
use super::tokens::Presented;
use crate::conn::Marks;
use crate::conn::state::State;
use crate::limits::{self, work};
use crate::sockets::Sockets;
use crate::tokens::Granted;
use crate::wire::Wire;

/// An answer that ends the exchange, as far as it depends on the request.
#[derive(Default)]
pub(super) struct Reply<'r> {
    pub(super) head_only: bool,
    pub(super) cors: Option<Cors<'r>>,
}

/// How a stream is to be.
pub(super) struct Manner<'r> {
    pub(super) wire: Wire,
    pub(super) cursor: Option<&'r [u8]>,
    pub(super) past: request::Past,
    pub(super) told: PlaceStyle,
    /// The rooms of which it is told who is there.
    pub(super) members: &'r [Cow<'r, str>],
    /// What the classic page greets.
    pub(super) first: &'r str,
}

impl<S: Sockets> Core<S> {
    /// The first `len` bytes of the scratch buffer belong to the connection's requests.
    pub(super) fn read_head(&mut self, at: &mut At<'_, S::Socket>, len: usize) -> Lives {
        let scratch = std::mem::take(&mut self.scratch);
        let mut unread = at.take_unread();
        let lives = if unread.is_empty() {
            self.read_requests(at, &scratch[..len], 0)
                .and_then(|used| self.put_by(at, scratch[used..len].to_vec()))
        } else {
            let seen = unread.len();
            unread.extend_from_slice(&scratch[..len]);
            self.read_gathered(at, unread, seen)
        };
        self.scratch = scratch;
        lives
    }

    /// Goes on with what was put by.
    pub(super) fn read_unread(&mut self, at: &mut At<'_, S::Socket>) -> Lives {
        let unread = at.take_unread();
        if unread.is_empty() {
            return Ok(());
        }
        self.read_gathered(at, unread, 0)
    }

    fn read_gathered(
        &mut self,
        at: &mut At<'_, S::Socket>,
        mut bytes: Vec<u8>,
        seen: usize,
    ) -> Lives {
        let used = self.read_requests(at, &bytes, seen)?;
        bytes.drain(..used);
        self.put_by(at, bytes)
    }

    /// Serves the requests that `bytes` begin with: one, or after polls that are answered at once
    /// several, as far as there is time. The first `seen` bytes were looked at before. Returns how
    /// many are dealt with.
    fn read_requests(
        &mut self,
        at: &mut At<'_, S::Socket>,
        bytes: &[u8],
        mut seen: usize,
    ) -> Result<usize, End> {
        let mut used = 0;
        if at.conn.state() == State::Body {
            // Its head is read again, with the body.
            seen = 0;
        }
        while at.conn.awaits_request() {
            if used > 0 && used < bytes.len() && self.budget.is_anothers() {
                self.defer(at);
                break;
            }
            let left = &bytes[used..];
            if left.len() < at.conn.whole_request() {
                break;
            }
            match self.before_request(at, left) {
                Before::Nothing => {}
                Before::Header(len) => {
                    (used, seen) = (used + len, 0);
                    continue;
                }
                Before::NeedMore => break,
                Before::Refused(problem, reason) => {
                    self.refuse_for(at, &problem, &Reply::default(), reason)?;
                    continue;
                }
            }
            match request::parse(left, seen) {
                Parsed::NeedMore => break,
                Parsed::Request(request) => {
                    self.budget.spend(work::REQUEST);
                    let whole = request.head_len.saturating_add(request.body.len);
                    self.admit(at, &request, left)?;
                    if matches!(at.conn.state(), State::Verifying | State::Body) {
                        // It is read again when its token is verified, or its body is there.
                        break;
                    }
                    at.conn.forget_body();
                    (used, seen) = (used + whole.min(left.len()), 0);
                }
                Parsed::Refused(Refusal { problem, head_only, origin, host }) => {
                    let cors = self.cors(origin, host);
                    self.refuse(at, &problem, &Reply { head_only, cors })?;
                }
            }
        }
        Ok(used)
    }

    /// Keeps bytes that cannot be dealt with yet: half a head, what was sent while a poll waits, or
    /// what a turn had no time for. On an open stream they mean nothing. On a WebSocket they are
    /// messages: its client should have waited (RFC 6455, section 4.1), but to skip them would read
    /// the next ones wrong.
    fn put_by(&mut self, at: &mut At<'_, S::Socket>, mut unread: Vec<u8>) -> Lives {
        let conn = &mut at.conn;
        match conn.state() {
            _ if unread.is_empty() => Ok(()),
            State::Stream | State::Held if conn.wire.carrier().has_messages() => {
                self.hear(at, &mut unread)
            }
            // What a proxy says before a handshake may be half there as well.
            State::Handshake
            | State::Head
            | State::Body
            | State::Verifying
            | State::Sending
            | State::Between
            | State::Poll
            | State::HeldPoll => {
                // Of one that leaves the rest in the kernel it is one read more.
                let most = limits::PIPELINED_BYTES_MAX + conn.whole_request();
                if unread.len() > most && !conn.leaves_rest() {
                    return Err(End { reason: DisconnectReason::BadRequest, abort: true });
                }
                let is_next = conn.state() == State::Between && conn.is_flushed();
                conn.new_work().unread = unread;
                if is_next && !conn.is(Marks::DEFERRED) {
                    conn.move_to(State::Head);
                    conn.active = self.now;
                    self.wait(at);
                }
                Ok(())
            }
            State::Stream | State::Held | State::Leaving(_) => Ok(()),
            State::Ending(_) | State::Lingering(_) => Ok(()),
        }
    }

    /// Serves the request that `read` begins with.
    fn admit(&mut self, at: &mut At<'_, S::Socket>, request: &Request<'_>, read: &[u8]) -> Lives {
        let cors = self.cors(request.origin, request.host);
        let reply = Reply { head_only: request.method == Method::Head, cors };
        if self.unplaced.has(at.slot) {
            return self.refuse_unplaced(at, request, &reply);
        }
        if let Err(bound) = self.count_request(at, request) {
            return self.refuse_bound(at, request, bound, &reply);
        }
        // Only a browser can be led astray by a name, and what it may be led to is a page of ours
        // or what one asks for. Other clients, and proxies, call the server as they like.
        let is_of_page = request.by_page || request.origin.is_some();
        let is_pages = request.route == Route::Page || is_of_page;
        if is_pages && !self.config.settings.origins.is_called(request.host, request.origin) {
            return self.refuse(at, &Problem::misdirected(), &reply);
        }
        if self.is_absent(request.route) {
            return self.refuse(at, &Problem::no_such_path(), &reply);
        }
        if request.method == Method::Options {
            // Who is not let in is refused when it asks: then its page can read why.
            let readable = cors.or(request.origin.map(Cors::plain));
            let private_network = request.private_network && cors.is_some();
            response::preflight(request.route, readable, private_network, &mut self.answer);
            return self.answered(at, DisconnectReason::Answered);
        }
        if request.route == Route::App {
            // Its client is told on the WebSocket what is wrong, and of its origin too.
            return self.open(at, request, read, &reply);
        }
        if let (Some(origin), None) = (request.origin, cors) {
            self.config.refused_origins.note(origin);
            let reply = Reply { cors: Some(Cors::plain(origin)), ..reply };
            let problem = Problem::forbidden_origin(origin);
            // The log is told of its origin, once, and not of each client.
            return self.refuse_unnoted(at, &problem, &reply, DisconnectReason::BadRequest);
        }
        self.open(at, request, read, &reply)
    }

    /// Shows a short text below `/.well-known/`, if there is one.
    pub(super) fn show_well_known(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        match self.show_text(request) || self.show_metadata(request, reply.cors) {
            true => self.answered(at, DisconnectReason::Answered),
            false => self.refuse(at, &Problem::no_such_path(), reply),
        }
    }

    /// Opens a stream or a poll, as far as a token grants it.
    pub(super) fn admit_listener(
        &mut self,
        at: &mut At<'_, S::Socket>,
        request: &Request<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        let cors = reply.cors;
        let granted = match self.look_at_token(at, request) {
            Presented::Open => None,
            Presented::Granted(granted) => Some(granted),
            Presented::Refused(problem) => return self.refuse(at, &problem, reply),
            Presented::Asked => return Ok(()),
        };
        let grant = granted.as_ref().map(|granted| Arc::clone(&granted.grant));
        let ids = match ids_of(request, grant.as_deref()) {
            Ok(ids) => ids,
            Err(problem) => {
                self.counters.ids_not_granted.add(u64::from(problem.status == 403));
                return self.refuse(at, &problem, reply);
            }
        };
        if let Err(problem) = self.may_watch(request, grant.as_deref()) {
            return self.refuse(at, &problem, reply);
        }
        at.conn.begin_request();
        if request.route == Route::Poll {
            if request.method == Method::Get {
                return self.begin_poll(at, &ids, request, granted, reply);
            }
            self.describe_poll(cors);
            return self.answered(at, DisconnectReason::Answered);
        }
        let first = request.ids.first().map(|id| &**id);
        let first = first.or(grant.as_ref().and_then(|grant| grant.subject.as_deref()));
        let first = first.unwrap_or_default();
        let (cursor, past, told) = (request.cursor, request.past, request.told);
        let members = &request.members[..];
        if let Some(upgrade) = &request.upgrade {
            let wire = Wire::new(Format::Text, Carrier::WebSocket);
            return match self.open_websocket(at, upgrade) {
                Ok(()) => {
                    let manner = Manner { wire, cursor, past, told, members, first };
                    self.begin(at, &ids, granted, manner, reply)
                }
                Err(problem) => self.refuse(at, &problem, reply),
            };
        }
        response::stream_head(request.format, request.carrier, cors, &mut self.answer);
        if request.method == Method::Head {
            let next = self.event_ids.id(self.event_ids.begin_stream().1).to_string();
            let wants_past = request.past != request::Past::Nothing;
            let has_place =
                request.format.resumes() && !(wants_past && self.config.history.is_on());
            let begins = Begins { next: has_place.then_some(&*next), ..Begins::default() };
            end_head(&mut self.answer, has_place.then_some(begins), cors);
            return self.answered(at, DisconnectReason::Answered);
        }
        let wire = Wire::new(request.format, request.carrier);
        let manner = Manner { wire, cursor, past, told, members, first };
        self.begin(at, &ids, granted, manner, reply)
    }

    /// Logs in before the head is sent: who has read the head is online.
    fn begin(
        &mut self,
        at: &mut At<'_, S::Socket>,
        ids: &[IdText<'_>],
        granted: Option<Granted>,
        manner: Manner<'_>,
        reply: &Reply<'_>,
    ) -> Lives {
        let (gaps, newest) = self.event_ids.begin_stream();
        at.conn.wire = manner.wire;
        at.conn.mark(Marks::BLOCKS, manner.told == PlaceStyle::InBlock);
        if let Err(problem) = self.login_with(at, ids, granted) {
            return self.refuse(at, &problem, reply);
        }
        let lists = match self.watch_all(at, manner.members) {
            Ok(lists) => lists,
            Err(problem) => {
                self.log_out_of_all(at);
                return self.refuse(at, &problem, reply);
            }
        };
        self.counters.streams_opened[manner.wire.transport().index()].add(1);
        self.note_begun(at.slot, gaps);
        let held = self.begin_at(at, &manner, newest, reply.cors);
        let wire = manner.wire;
        for list in lists {
            wire.format().push_message(&mut self.answer, wire.carrier(), &list);
        }
        at.conn.move_to(if held { State::Held } else { State::Stream });
        at.conn.active = self.now;
        self.wait(at);
        self.send_answer(at)
    }

    /// Whether the page that asks may read the answer.
    pub(super) fn cors<'r>(&self, origin: Option<&'r str>, host: Option<&str>) -> Option<Cors<'r>> {
        let origins = &self.config.settings.origins;
        let origin = origin.filter(|origin| origins.allows(origin, host))?;
        // Only tokens come in cookies.
        let has_tokens = self.config.tokens.is_some() || self.config.mercure.is_some();
        let credentials = has_tokens && origins.allows_credentials(origin, host);
        Some(Cors { origin, credentials })
    }
}
