//! The request target (RFC 9112, section 3.2): which resource, and the escaped parts that name ids.

use std::borrow::Cow;

use memchr::memchr;
use percent_encoding::percent_decode_str;

use crate::{Format, Problem};

/// The methods of every path on this port but those of [`Route::methods`], as `Allow` lists them.
pub const METHODS: &str = "GET, HEAD, OPTIONS";

/// What a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// `/stream/{id}` or `/stream`: a stream whose transport is the client's choice.
    Stream,
    /// `/test/{id}` or `/test`: the classic page.
    Classic,
    /// `/poll/{id}` or `/poll`: one answer with the next events.
    Poll,
    /// `/`: a page for people.
    Page,
    /// `/.well-known/…` (RFC 8615): a short text, if there is one.
    WellKnown,
    /// `/send`: an event of a client.
    Send,
    /// `/events/{id}`: a page of what was sent about an id.
    Events,
    /// `/app/{key}`: a WebSocket of the Pusher protocol. The key stands in the path.
    App,
    /// `/.well-known/mercure`: a stream, or an update, of the Mercure protocol.
    Mercure,
    /// `/.well-known/mercure/subscriptions…`: who listens there.
    MercureList,
    /// `/v1/stream/{path}`: a durable stream, which is read or appended to. Whoever serves it reads
    /// the request anew, with its body.
    Durable,
}

/// What stands before the path of a durable stream.
const DURABLE_PREFIX: &str = "/v1/stream/";

/// The path of the durable stream to which the path of a target leads, decoded; `None` where it
/// leads to none, or is no UTF-8.
pub fn durable_path(of_target: &str) -> Option<Cow<'_, str>> {
    let path = of_target.strip_prefix(DURABLE_PREFIX).filter(|path| !path.is_empty())?;
    percent_decode_str(path).decode_utf8().ok()
}

impl Route {
    /// The methods of the path, as `Allow` lists them.
    pub fn methods(self) -> &'static str {
        match self {
            Route::Send => "POST, OPTIONS",
            Route::Durable => "GET, HEAD, POST, OPTIONS",
            Route::Mercure => "GET, HEAD, OPTIONS, POST, QUERY",
            _ => METHODS,
        }
    }
}

impl Route {
    /// What its answers look like, where the client has no choice.
    pub(super) fn format(self) -> Format {
        match self {
            Route::Classic => Format::Classic,
            Route::Poll => Format::Poll,
            Route::Mercure | Route::MercureList => Format::Mercure,
            _ => Format::Ndjson,
        }
    }

    /// Whether a client may ask for a WebSocket there.
    pub(super) fn upgrades(self) -> bool {
        matches!(self, Route::Stream | Route::App)
    }

    /// Whether its query is read with its head, as [`Query`](super::query::Query) has it. The
    /// others read theirs where they are served.
    pub(super) fn has_query(self) -> bool {
        let is_of_another = matches!(self, Route::App | Route::Mercure | Route::MercureList);
        !is_of_another && !matches!(self, Route::Page | Route::WellKnown)
    }
}

/// The parts of a target behind its route, still escaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<'b> {
    /// The id of the path; `None` where it ends before one.
    pub(super) id: Option<&'b str>,
    /// All of the path.
    pub(super) path: &'b str,
    pub(super) query: &'b str,
}

/// The authority of a target in absolute form, which counts instead of `Host` (section 3.2.2).
pub(super) fn authority(target: &str) -> Option<&str> {
    absolute(target).map(|(authority, _)| authority)
}

/// Finds what `target` leads to.
pub(super) fn route(target: &str) -> Result<(Route, Escaped<'_>), Problem> {
    const PREFIXES: [(&str, Route); 4] = [
        ("/stream/", Route::Stream),
        ("/test/", Route::Classic),
        ("/poll/", Route::Poll),
        ("/events/", Route::Events),
    ];
    let origin_form = absolute(target).map_or(target, |(_, rest)| rest);
    let (path, query) = origin_form.split_once('?').unwrap_or((origin_form, ""));
    if path == "/" {
        return Ok((Route::Page, Escaped { id: None, path, query }));
    }
    if path == "/send" {
        return Ok((Route::Send, Escaped { id: None, path, query }));
    }
    let below = path.strip_prefix("/.well-known/mercure");
    let of_list = below.and_then(|below| below.strip_prefix("/subscriptions"));
    if below == Some("") {
        return Ok((Route::Mercure, Escaped { id: None, path, query }));
    }
    if of_list.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        return Ok((Route::MercureList, Escaped { id: None, path, query }));
    }
    if path.starts_with(DURABLE_PREFIX) {
        return Ok((Route::Durable, Escaped { id: None, path, query }));
    }
    if path.starts_with("/.well-known/") {
        return Ok((Route::WellKnown, Escaped { id: None, path, query }));
    }
    if path.strip_prefix("/app/").is_some_and(|key| !key.is_empty() && !key.contains('/')) {
        return Ok((Route::App, Escaped { id: None, path, query }));
    }
    for (prefix, route) in PREFIXES {
        if let Some(id) = path.strip_prefix(prefix)
            && !id.contains('/')
        {
            return Ok((route, Escaped { id: Some(id), path, query }));
        }
        // A page of events is of one id, which no token stands for.
        if route != Route::Events && prefix.strip_suffix('/') == Some(path) {
            return Ok((route, Escaped { id: None, path, query }));
        }
    }
    Err(Problem::no_such_path())
}

/// Splits a target in absolute form into its authority and its path with query.
fn absolute(target: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    Some(rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())))
}

/// The target of a head for the classic page whose first line has no version, and its header lines.
pub(super) fn without_version(head: &[u8]) -> Option<(&str, &[u8])> {
    let target = head.strip_prefix(b"GET ").filter(|target| target.starts_with(b"/test/"))?;
    let (line, lines) = target.split_at(memchr(b'\n', target)?);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let is_target = line.iter().all(u8::is_ascii_graphic);
    Some((str::from_utf8(line).ok().filter(|_| is_target)?, &lines[1..]))
}
