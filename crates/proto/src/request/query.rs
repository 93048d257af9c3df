//! The query of a target: more ids, and where and how long to listen.
//!
//! Escapes are decoded after the query is cut into its parts, so an escaped delimiter never cuts
//! (RFC 3986, section 2.4). A query is read as forms write it (WHATWG URL, section 5.1): parts
//! between `&`, and `+` for a space. `id` and `members` may be repeated; of the others the last one
//! counts, so that a client may append to an address that it was given. A parameter that the route
//! does not have is ignored, whatever it says. So is a `token`, an `after` or a `last_event_id` of
//! which nothing but the name is there. A program that knows none sends that. A place goes before
//! `last`: who comes back to an address with both has heard the last ones.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::secret::Secret;
use super::target::{Escaped, Route};
use crate::Problem;

/// The longest wait of a poll. Proxies on the way are said to end silent requests after a minute.
pub const POLL_WAIT_SECONDS_MAX: u8 = 60;
/// The wait of a poll that does not say how long.
pub const POLL_WAIT_SECONDS_DEFAULT: u8 = 25;
const _: () = {
    assert!(POLL_WAIT_SECONDS_DEFAULT <= POLL_WAIT_SECONDS_MAX);
};

/// What stands for the place before all that is remembered.
const EARLIEST: &str = "earliest";

/// The length of an event's id, which is a place.
const EVENT_ID_LEN: usize = 16;
/// The length of a place that says where a gap ends of which its client was told.
pub const MARKED_PLACE_LEN: usize = 27;

/// Where a client wants to go on.
#[derive(Clone, Copy, Default)]
pub(super) enum Place<'b> {
    /// It does not say.
    #[default]
    None,
    /// Behind the event of this id.
    Behind(&'b [u8]),
    /// At the oldest event that is remembered.
    Earliest,
}

/// What the parameters say.
#[derive(Default)]
pub(super) struct Query<'b> {
    /// The path's id, then the query's in their order, decoded.
    pub(super) ids: Vec<Cow<'b, str>>,
    /// `after`, which of a stream is `last_event_id` as well.
    pub(super) after: Place<'b>,
    /// `last`.
    pub(super) last: u32,
    /// `wait` of a poll.
    pub(super) wait_seconds: Option<u8>,
    /// `next` of a stream: whether it says where it begins in a message.
    pub(super) next: bool,
    /// `members`, in their order, decoded: the rooms of which it is told who is there.
    pub(super) members: Vec<Cow<'b, str>>,
    /// `members_after` of a poll: where it stands in what is told of them.
    pub(super) members_after: Option<&'b str>,
    /// `token`.
    pub(super) token: Option<Secret<'b>>,
}

impl<'b> Query<'b> {
    pub(super) fn read(route: Route, escaped: Escaped<'b>) -> Result<Query<'b>, Problem> {
        let mut query = Query::default();
        if !route.has_query() {
            return Ok(query);
        }
        if let Some(id) = escaped.id {
            query.ids.push(unescape(id)?);
        }
        for part in escaped.query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = Cow::from(percent_decode_str(name));
            match (&*name, route) {
                // Its ids are in its body.
                (b"id", Route::Send) => {}
                // Whoever makes the page reads the others.
                (name, Route::Events | Route::Durable) if name != b"token" => {}
                (b"id", _) => query.ids.push(unescape_plus(value)?),
                (b"token", _) => {
                    query.token =
                        Some(unescape(value)?).filter(|token| !token.is_empty()).map(Secret);
                }
                (b"after", Route::Poll | Route::Stream) => query.after = place(value, "after")?,
                (b"last_event_id", Route::Stream) => query.after = place(value, "last_event_id")?,
                // It tells no ids of events.
                (b"after", Route::Classic) if value == EARLIEST => query.after = Place::Earliest,
                (b"last", _) => query.last = last(value)?,
                (b"next", Route::Stream) => query.next = value == "1",
                (b"members", Route::Stream | Route::Classic | Route::Poll) => {
                    query.members.push(unescape_plus(value)?);
                }
                (b"members_after", Route::Poll) => query.members_after = members_place(value)?,
                (b"wait", Route::Poll) => query.wait_seconds = Some(wait_seconds(value)?),
                _ => {}
            }
        }
        Ok(query)
    }
}

/// A program wrote it, so it is told when that cannot be an event's id at any server.
fn place<'b>(value: &'b str, name: &str) -> Result<Place<'b>, Problem> {
    let bytes = value.as_bytes();
    if bytes.is_empty() {
        return Ok(Place::None);
    }
    if value == EARLIEST {
        return Ok(Place::Earliest);
    }
    let is_place = matches!(bytes.len(), EVENT_ID_LEN | MARKED_PLACE_LEN);
    if is_place && bytes.iter().all(u8::is_ascii_alphanumeric) {
        return Ok(Place::Behind(bytes));
    }
    Err(Problem::bad_request(format!(
        "The parameter {name} is not the id of an event, which has 16 letters and digits (27 in \
         Encke-Next), and not {EARLIEST}. Give the id that you heard last, or leave {name} out to \
         hear what comes from now on."
    )))
}

/// How many events of each id come first. More than there can be is all that there are.
fn last(value: &str) -> Result<u32, Problem> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| value.parse().unwrap_or(u32::MAX)).ok_or_else(|| {
        Problem::bad_request(
            "The parameter last is not a whole number of events. Correct it, or leave it out to \
             hear what comes from now on.",
        )
    })
}

fn wait_seconds(value: &str) -> Result<u8, Problem> {
    let digits = value.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = value.parse().ok().filter(|&seconds| digits && seconds <= POLL_WAIT_SECONDS_MAX);
    seconds.ok_or_else(|| {
        Problem::bad_request(
            "The parameter wait is not a whole number of seconds from 0 to 60. Correct it, or \
             leave it out to wait 25 seconds.",
        )
    })
}

/// Places of rooms, one behind the other, some of them perhaps not known. Which of them are good is
/// for others to say: of one that is not the whole list is told.
fn members_place(value: &str) -> Result<Option<&str>, Problem> {
    let is_place = |byte: u8| byte.is_ascii_hexdigit() || byte == b'.';
    if !value.bytes().all(is_place) {
        return Err(Problem::bad_request(
            "The parameter members_after is not what an answer said in Encke-Members. Give it as \
             it stood there, or leave it out to hear whole lists.",
        ));
    }
    Ok(Some(value).filter(|value| !value.is_empty()))
}

/// Decodes an id of a query, in which a plus means a space.
fn unescape_plus(value: &str) -> Result<Cow<'_, str>, Problem> {
    if value.contains('+') {
        return Err(Problem::bad_id(
            "A + in a query stands for a space, which no id may hold. Write a plus as %2B.",
        ));
    }
    unescape(value)
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
