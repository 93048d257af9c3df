//! The head of a request on the public port (RFC 9112): what it asks for, or why it is refused.
//!
//! No request has a body but four. `POST /send` and a `QUERY` ([`Route::Mercure`]) have one that
//! the caller finds behind the head ([`Body`]). An append to a durable stream ([`Route::Durable`])
//! and an update ([`Route::Mercure`]) have one too. The caller gathers bytes and shows them to
//! [`parse`] until it answers. Nothing is copied out of them but ids that had escapes and lists
//! that came on several lines.
//!
//! Decisions that HTTP leaves to a server:
//! - A head has at most [`HEAD_BYTES_MAX`] bytes and [`HEADER_LINES_MAX`] header lines. An empty
//!   line may stand before it (section 2.2), and a line may end in a bare LF (same section).
//! - Neither folded header lines (section 5.2) nor white space before a colon (section 5.1) pass.
//! - On the classic page's path a first line may lack the version, and the request is one of
//!   HTTP/1.0 then: clients that were written for the original begin so.
//! - An unknown method is 405 like a known one, never 501, so that `Allow` is always there.
//! - Fields for features that this port does not have (`Expect`, `Range`, `Upgrade` to anything
//!   but a WebSocket) are ignored, as RFC 9110 has it. So is an `Upgrade` where there is nothing to
//!   upgrade: in HTTP/1.0, with a method other than `GET`, on a path other than a stream's.
//! - Where a browser goes on by itself, its `Last-Event-ID` is newer than the `last_event_id` in
//!   the address, and counts instead of it and of `last`.
//!
//! Cost: bytes are looked at once for the blank line however they trickle in, and once more when
//! the head is complete.

mod accept;
mod bearer;
mod fields;
mod host;
mod origin;
mod query;
mod secret;
mod syntax;
mod target;
#[cfg(test)]
mod tests;
mod upgrade;

use std::borrow::Cow;

use fields::Fields;
use memchr::memchr;
use query::{Place, Query};
use syntax::{not_http, syntax_problem};

use crate::place_style::PlaceStyle;
use crate::{Carrier, Format, Forwarded, Problem};

pub use accept::NDJSON_SUBTYPES;
pub use bearer::{Bearer, tokens_of};
pub use fields::{Body, is_form};
pub use host::{Hosts, host_name, name_of, split_port};
pub use origin::{is_origin_at_port, is_own_origin, origin};
pub use query::{MARKED_PLACE_LEN, POLL_WAIT_SECONDS_DEFAULT, POLL_WAIT_SECONDS_MAX};
pub(crate) use secret::PROTOCOL_PREFIX;
pub use secret::Secret;
pub use target::{METHODS, Route, durable_path};
pub use upgrade::Upgrade;

/// The longest head, its blank line included.
pub const HEAD_BYTES_MAX: usize = 8 * 1024;
/// The most header lines in a head.
pub const HEADER_LINES_MAX: usize = 100;

/// What a client may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Opens it.
    Get,
    /// Asks for the head that a GET would get.
    Head,
    /// Asks what is allowed, as browsers do before a page may connect.
    Options,
    /// Sends an event, on [`Route::Send`] and [`Route::Mercure`]; appends, on [`Route::Durable`].
    Post,
    /// Opens it as [`Method::Get`] does, by what its body says (RFC 10008), on [`Route::Mercure`].
    Query,
}

/// What the bytes so far are.
#[expect(clippy::large_enum_variant, reason = "one on the stack, and a box is an allocation each")]
#[derive(PartialEq, Eq, Debug)]
pub enum Parsed<'b> {
    /// The start of a head, as far as can be told. The caller bounds the wait.
    NeedMore,
    /// A request to serve.
    Request(Request<'b>),
    /// A request to answer with a problem, after which the connection ends.
    Refused(Refusal<'b>),
}

/// A request to serve. For [`Method::Options`] only the method, the route, the path and the last
/// five fields have a meaning.
#[derive(PartialEq, Eq, Debug)]
pub struct Request<'b> {
    /// What to do with it.
    pub method: Method,
    /// What the path leads to.
    pub route: Route,
    /// The path, still escaped.
    pub path: &'b str,
    /// The query, still escaped; its token may be in it.
    pub query: &'b str,
    /// How the client wants to hear events. Of a meaning on [`Route::Stream`], without an upgrade,
    /// on [`Route::Classic`] and on [`Route::Poll`].
    pub format: Format,
    /// How the body of a stream is delimited.
    pub carrier: Carrier,
    /// The ids to log in, decoded: the path's first, then those of the query in their order.
    /// Possibly one of them twice, none checked against the rules for ids. Perhaps none, as for
    /// [`Method::Options`], [`Route::Page`], [`Route::WellKnown`], [`Route::App`] and
    /// [`Route::Mercure`], whose query is read elsewhere.
    pub ids: Vec<Cow<'b, str>>,
    /// The ids of which the stream or poll is told who is logged in there, decoded and not checked.
    pub members: Vec<Cow<'b, str>>,
    /// Where a poll stands in what is told of them, as an answer said in `Encke-Members`.
    pub members_after: Option<&'b str>,
    /// The id of the event after which the client has heard nothing, where it says so: `?after=`,
    /// and of a stream `Last-Event-ID` or `?last_event_id=`. Whether it is an event of ours is not
    /// for us to say.
    pub cursor: Option<&'b [u8]>,
    /// What the client wants to hear of the time before, where it names no cursor.
    pub past: Past,
    /// How a stream tells its client where it begins.
    pub told: PlaceStyle,
    /// How long a poll waits for an event.
    pub wait_seconds: u8,
    /// The wish to become a WebSocket, on [`Route::Stream`] and [`Route::App`].
    pub upgrade: Option<Upgrade<'b>>,
    /// Whether the connection may carry another request after this one: in HTTP/1.1, unless the
    /// client says that it will not (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// Whether the client reads an answer that is compressed with gzip.
    pub gzip: bool,
    /// The tags of the documents that it has already: the value of `If-None-Match`.
    pub known: Option<&'b str>,
    /// Where its token may stand.
    pub bearer: Bearer<'b>,
    /// Whether a browser says that a page of another origin makes the request.
    pub other_site: bool,
    /// Whether a browser says that a page makes the request, and nobody's hand.
    pub by_page: bool,
    /// Whether a browser asks if a page of the open network may connect to this one (Private
    /// Network Access, section 3.1).
    pub private_network: bool,
    /// For whom a proxy asks, if the client is one, or says that it is.
    pub forwarded: Forwarded<'b>,
    /// The page's origin, when a browser sent one.
    pub origin: Option<&'b str>,
    /// Whom the client believes to speak to: host and port. Always there in HTTP/1.1.
    pub host: Option<&'b str>,
    /// The body, of [`Method::Post`] on [`Route::Send`] and of [`Method::Query`] alone.
    pub body: Body<'b>,
    /// How many bytes of the buffer the head takes. What follows, but for the body, was sent too
    /// early to be served.
    pub head_len: usize,
}

/// What of the time before it a stream or a poll begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Past {
    /// Nothing.
    #[default]
    Nothing,
    /// All that is remembered (`?after=earliest`).
    Earliest,
    /// The last events about each of its ids, so many of each and one at least (`?last=`).
    Last(u32),
}

/// A request that is refused.
#[derive(PartialEq, Eq, Debug)]
pub struct Refusal<'b> {
    /// What is wrong with the request, and what to do.
    pub problem: Problem,
    /// Whether it was a `HEAD`, whose answer has no body.
    pub head_only: bool,
    /// As in [`Request::origin`], as far as the head could be read, so that a page may read the
    /// problem.
    pub origin: Option<&'b str>,
    /// As in [`Request::host`], as far as the head could be read.
    pub host: Option<&'b str>,
}

/// Looks at what a client has sent so far, `buf`. The first `seen` bytes of it were there at an
/// earlier call that answered [`Parsed::NeedMore`] (0 on the first): they are not searched again,
/// so a client that sends byte by byte costs no more than one that does not.
pub fn parse(buf: &[u8], seen: usize) -> Parsed<'_> {
    debug_assert!(seen <= buf.len(), "what was looked at before is a part of it");
    let start = match buf {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        [] | [b'\r'] => return Parsed::NeedMore,
        _ => 0,
    };
    match buf.get(start) {
        None => return Parsed::NeedMore,
        Some(first) if !first.is_ascii_graphic() => return Parsed::refused(buf, not_http()),
        Some(_) => {}
    }
    let window = &buf[..buf.len().min(HEAD_BYTES_MAX)];
    match head_end(window, start.max(seen.saturating_sub(2))) {
        Some(head_len) => {
            debug_assert!(start < head_len && head_len <= HEAD_BYTES_MAX);
            parse_head(&buf[start..head_len], head_len)
        }
        None if window.len() < HEAD_BYTES_MAX => Parsed::NeedMore,
        None => Parsed::refused(&buf[start..], Problem::head_too_large()),
    }
}

/// The end of the first blank line that comes after `from`: two line ends in a row.
fn head_end(buf: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(line) = memchr(b'\n', buf.get(at..)?) {
        at += line + 1;
        match &buf[at..] {
            [b'\n', ..] => return Some(at + 1),
            [b'\r', b'\n', ..] => return Some(at + 2),
            _ => {}
        }
    }
    None
}

/// `head` is a whole head: it ends with the only blank line in it.
fn parse_head(head: &[u8], head_len: usize) -> Parsed<'_> {
    let mut headers = [httparse::EMPTY_HEADER; HEADER_LINES_MAX];
    if let Some((target, lines)) = target::without_version(head) {
        return match httparse::parse_headers(lines, &mut headers) {
            Ok(httparse::Status::Complete((_, headers))) => {
                answer("GET", target, Carrier::Close, headers, head_len)
            }
            Ok(httparse::Status::Partial) => Parsed::refused(head, not_http()),
            Err(error) => Parsed::refused(head, syntax_problem(error, head)),
        };
    }
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Parsed::refused(head, not_http()),
        Err(error) => return Parsed::refused(head, syntax_problem(error, head)),
    }
    let (Some(method), Some(target), Some(minor)) = (parsed.method, parsed.path, parsed.version)
    else {
        return Parsed::refused(head, not_http());
    };
    let carrier = if minor == 0 { Carrier::Close } else { Carrier::Chunked };
    answer(method, target, carrier, parsed.headers, head_len)
}

/// The format that the `Accept` lines of a request ask for most; `None` when they take none that
/// there is.
pub fn preferred_format<'v>(lines: impl IntoIterator<Item = &'v [u8]>) -> Option<Format> {
    let mut accept = accept::Accept::default();
    lines.into_iter().for_each(|line| accept.read_line(line));
    accept.best()
}

/// The request in a whole head, or why it is refused.
fn answer<'b>(
    method: &str,
    target: &'b str,
    carrier: Carrier,
    headers: &[httparse::Header<'b>],
    head_len: usize,
) -> Parsed<'b> {
    let fields = Fields::read(headers);
    let (origin, host) = (fields.origin, target::authority(target).or(fields.host));
    match serve(method, target, carrier, fields) {
        Ok(request) => Parsed::Request(Request { origin, host, head_len, ..request }),
        Err(problem) => {
            let head_only = method == "HEAD";
            Parsed::Refused(Refusal { problem, head_only, origin, host })
        }
    }
}

/// The method of a request for `route`, if that has it.
fn method_at(route: Route, name: &str) -> Result<Method, Problem> {
    let method = match name {
        "GET" => Some(Method::Get),
        "HEAD" => Some(Method::Head),
        "OPTIONS" => Some(Method::Options),
        "POST" => Some(Method::Post),
        "QUERY" => Some(Method::Query),
        _ => None,
    };
    let methods = route.methods();
    let method = method.filter(|_| methods.split(", ").any(|allowed| allowed == name));
    method.ok_or_else(|| Problem::method_not_allowed(methods))
}

/// The body of a request with `method` for `route`, as far as it is to be read here.
fn body_of<'b>(fields: &Fields<'b>, method: Method, route: Route) -> Result<Body<'b>, Problem> {
    match (method, route) {
        // In whatever form it comes: whoever serves it reads it.
        (Method::Post, Route::Durable | Route::Mercure) => Ok(Body::default()),
        (Method::Post, _) => fields.body(),
        (Method::Query, _) => fields.form(),
        _ => fields.no_body(),
    }
}

/// Where the client goes on, or what of the past it wants.
fn begins<'b>(query: &Query<'b>) -> (Option<&'b [u8]>, Past) {
    match query.after {
        Place::Behind(id) => (Some(id), Past::Nothing),
        Place::Earliest => (None, Past::Earliest),
        Place::None if query.last > 0 => (None, Past::Last(query.last)),
        Place::None => (None, Past::Nothing),
    }
}

/// The request, but for the fields that a refusal has as well.
fn serve<'b>(
    method: &str,
    target: &'b str,
    carrier: Carrier,
    fields: Fields<'b>,
) -> Result<Request<'b>, Problem> {
    fields.check(carrier)?;
    let (route, escaped) = target::route(target)?;
    let method = method_at(route, method)?;
    let body = body_of(&fields, method, route)?;
    let told = fields.told();
    let mut request = Request {
        method,
        route,
        path: escaped.path,
        query: escaped.query,
        format: route.format(),
        carrier,
        ids: Vec::new(),
        members: Vec::new(),
        members_after: None,
        cursor: None,
        past: Past::Nothing,
        told: PlaceStyle::InHead,
        wait_seconds: POLL_WAIT_SECONDS_DEFAULT,
        upgrade: None,
        keep_alive: carrier == Carrier::Chunked && !fields.close,
        gzip: fields.gzip,
        known: fields.known,
        bearer: fields.bearer,
        other_site: fields.other_site,
        by_page: fields.by_page,
        private_network: fields.private_network,
        forwarded: fields.forwarded,
        origin: None,
        host: None,
        body,
        head_len: 0,
    };
    if method == Method::Options {
        return Ok(request);
    }
    let query = Query::read(route, escaped)?;
    (request.cursor, request.past) = begins(&query);
    (request.ids, request.members) = (query.ids, query.members);
    request.members_after = query.members_after;
    request.bearer.parameter = query.token;
    request.wait_seconds = query.wait_seconds.unwrap_or(POLL_WAIT_SECONDS_DEFAULT);
    // RFC 9110, section 7.8: a client of HTTP/1.0 cannot mean it.
    let can_mean_it = method == Method::Get && carrier == Carrier::Chunked;
    let upgrades = can_mean_it && route.upgrades() && fields.websocket;
    request.upgrade = Some(fields.upgrade).filter(|_| upgrades);
    match route {
        Route::Stream => {
            let cursor = fields.cursor.filter(|cursor| !cursor.is_empty());
            if cursor.is_some() {
                (request.cursor, request.past) = (cursor, Past::Nothing);
            }
            request.told = if query.next { PlaceStyle::InMessage } else { told };
            if request.upgrade.is_none() {
                request.format = fields.accept.best().ok_or_else(Problem::not_acceptable)?;
            }
        }
        Route::Mercure => (request.cursor, request.told) = (fields.cursor, told),
        _ => {}
    }
    Ok(request)
}

impl Parsed<'_> {
    /// A head that could not be read at all; only its very start is looked at.
    fn refused(head: &[u8], problem: Problem) -> Parsed<'_> {
        let head_only = head.starts_with(b"HEAD ");
        Parsed::Refused(Refusal { problem, head_only, origin: None, host: None })
    }
}
