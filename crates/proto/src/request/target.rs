//! The request target (RFC 9112, section 3.2): which stream, and which ids.
//!
//! Escapes are decoded after the path and the query are cut into their parts, so an escaped
//! delimiter never cuts (RFC 3986, section 2.4). A query is read as forms write it (WHATWG URL,
//! section 5.1): parts between `&`, and `+` for a space. Parameters other than `id` are ignored.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::Problem;

/// Which stream a path leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// `/stream/{id}`: the transport is the client's choice.
    Stream,
    /// `/test/{id}`: the classic page.
    Classic,
}

/// The parts of a target that hold ids, still escaped.
#[derive(Clone, Copy, Debug)]
pub(super) struct EscapedIds<'b> {
    path: &'b str,
    query: &'b str,
}

const PATHS: &str = "Streams are at /stream/{id}, the classic page is at /test/{id}.";

/// The authority of a target in absolute form, which counts instead of `Host` (section 3.2.2).
pub(super) fn authority(target: &str) -> Option<&str> {
    absolute(target).map(|(authority, _)| authority)
}

/// Finds the stream that `target` leads to.
pub(super) fn route(target: &str) -> Result<(Route, EscapedIds<'_>), Problem> {
    let origin_form = absolute(target).map_or(target, |(_, rest)| rest);
    let (path, query) = origin_form.split_once('?').unwrap_or((origin_form, ""));
    let (route, id) = if let Some(id) = path.strip_prefix("/stream/") {
        (Route::Stream, id)
    } else if let Some(id) = path.strip_prefix("/test/") {
        (Route::Classic, id)
    } else if path.starts_with("/poll/") {
        return Err(Problem::not_found(
            "This version has no long poll. Ask for /stream/{id} with Accept: text/event-stream.",
        ));
    } else {
        return Err(Problem::not_found(PATHS));
    };
    if id.contains('/') {
        return Err(Problem::not_found(PATHS));
    }
    Ok((route, EscapedIds { path: id, query }))
}

/// Splits a target in absolute form into its authority and its path with query.
fn absolute(target: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    Some(rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())))
}

impl<'b> EscapedIds<'b> {
    /// The ids, decoded: the path's, then the query's.
    pub(super) fn ids(self) -> Result<Vec<Cow<'b, str>>, Problem> {
        let mut ids = vec![unescape(self.path)?];
        for part in self.query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !percent_decode_str(name).eq(b"id".iter().copied()) {
                continue;
            }
            if value.contains('+') {
                return Err(Problem::bad_id(
                    "A + in a query stands for a space, which no id may hold. Write a plus as %2B.",
                ));
            }
            ids.push(unescape(value)?);
        }
        Ok(ids)
    }
}

/// Decodes the escapes of an id. What is no escape after all, or decodes to no UTF-8, is refused
/// instead of guessed at.
fn unescape(text: &str) -> Result<Cow<'_, str>, Problem> {
    let is_escape = |piece: &str| match piece.as_bytes() {
        [high, low, ..] => high.is_ascii_hexdigit() && low.is_ascii_hexdigit(),
        _ => false,
    };
    if !text.split('%').skip(1).all(is_escape) {
        return Err(Problem::bad_id(
            "A % is not followed by two hexadecimal digits. Write a percent sign as %25.",
        ));
    }
    percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| Problem::bad_id("An id is not UTF-8 once its % escapes are decoded."))
}
