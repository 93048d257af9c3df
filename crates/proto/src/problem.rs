//! Answers that say what went wrong and what to do about it (RFC 9457).
//!
//! A program looks at the type, which is one of [`ProblemKind`]; the title is the phrase of the
//! status code; what a person needs stands in the detail. A detail never repeats bytes of the
//! request, save what the caller of [`Problem::bad_id`] puts in.

mod grants;
mod kind;

use std::borrow::Cow;
use std::fmt::Display;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

pub use self::kind::{PAGE, ProblemKind};
use crate::json;

/// The media type of a problem's body.
pub const CONTENT_TYPE: &str = "application/problem+json";

/// Why a request is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The HTTP status code.
    pub status: u16,
    /// What kind of problem it is.
    pub kind: ProblemKind,
    /// What to do about it, for a person to read.
    pub detail: Cow<'static, str>,
    /// The `Allow` field, when the method was the problem.
    pub allow: Option<&'static str>,
    /// The `Retry-After` field: seconds until another try may do better.
    pub retry_after: Option<u32>,
    /// The `WWW-Authenticate` field, when a token was the problem.
    pub challenge: Option<Box<str>>,
}

impl Problem {
    /// A problem of which nothing more is known than its status, with neither `Allow` nor
    /// `Retry-After`.
    pub fn new(status: u16, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { status, ..Problem::of(ProblemKind::of_status(status), detail) }
    }

    /// A problem of this kind, with neither `Allow` nor `Retry-After`.
    pub fn of(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Problem {
        let (status, detail) = (kind.status(), detail.into());
        Problem { status, kind, detail, allow: None, retry_after: None, challenge: None }
    }

    /// 400: the head breaks the rules of HTTP.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(400, detail)
    }

    /// 400: a name in the path or the query that no id may have.
    pub fn bad_id(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::of(ProblemKind::BadId, detail)
    }

    /// 401: a stream without a token, where one is needed (RFC 6750, section 3).
    pub fn token_missing() -> Problem {
        let detail = "Streams need a token here. Send a JWT in Authorization: Bearer, in the \
                      parameter token, as the sub-protocol encke.bearer.<token> beside encke, or \
                      in the server's cookie.";
        Problem {
            challenge: Some("Bearer".into()),
            ..Problem::of(ProblemKind::TokenMissing, detail)
        }
    }

    /// 401: a token that is refused, for what `why` says.
    pub fn token_refused(why: impl Display) -> Problem {
        Problem {
            challenge: Some("Bearer error=\"invalid_token\"".into()),
            ..Problem::of(ProblemKind::TokenRefused, format!("The token is refused: {why}."))
        }
    }

    /// 503: no room or no time for a page of events; `retry_after` is in seconds.
    pub fn history_busy(retry_after: u32) -> Problem {
        let detail = "Too many clients read what was sent before. Try again later.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Busy, detail) }
    }

    /// 404: a server that does not keep who is in a room.
    pub fn members_off() -> Problem {
        Problem::of(
            ProblemKind::MembersOff,
            "This server does not keep who is in a room. Start it with --members-max above 0.",
        )
    }

    /// 503: too many ask at one time; `retry_after` is in seconds.
    pub fn members_busy(retry_after: u32) -> Problem {
        let detail = "Too many clients ask who is in a room now. Try again later.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Busy, detail) }
    }

    /// 403: a browser page of `origin`, which is not on the server's list.
    pub fn forbidden_origin(origin: &str) -> Problem {
        // A page without an address, as a file's, has the origin null, which stands for many.
        let listed = if origin == "null" { "'*'" } else { origin };
        Problem::of(
            ProblemKind::OriginNotAllowed,
            format!(
                "Pages of {origin} may not connect. Start the server with --allow-origin \
                 {listed}, or serve the page from the server's own origin."
            ),
        )
    }

    /// 404: a path that leads nowhere.
    pub fn no_such_path() -> Problem {
        Problem::new(
            404,
            "Streams are at /stream/{id}, long polls at /poll/{id}, the classic page is at \
             /test/{id}. For Pusher Channels start the server with --pusher-apps, for Mercure with \
             --mercure-key, for Durable Streams with --streams; their backends may want the API's \
             port (8001).",
        )
    }

    /// 405: a method that the path does not have; `allow` lists those that it has.
    pub fn method_not_allowed(allow: &'static str) -> Problem {
        let use_what = match allow {
            allow if allow.starts_with("POST") => "Events are sent with POST",
            allow if allow.contains("QUERY") => {
                "Updates are heard with GET and published with POST"
            }
            allow if allow.contains("POST") => "Here streams are read and appended to",
            _ => "What is here is read with GET",
        };
        let detail = format!("{use_what}. The methods here are {allow}.");
        Problem { allow: Some(allow), ..Problem::new(405, detail) }
    }

    /// 406: the `Accept` field admits no transport that the server has.
    pub fn not_acceptable() -> Problem {
        Problem::new(
            406,
            "Streams come as text/event-stream or application/x-ndjson. Ask for one of them in \
             Accept, or leave Accept out to get application/x-ndjson.",
        )
    }

    /// 408: the body was not complete in time.
    pub fn body_timeout() -> Problem {
        Problem::new(408, "The request body was not complete in time. Send it at once.")
    }

    /// 411: a body of which nobody says how long it is.
    pub fn length_required() -> Problem {
        Problem::new(
            411,
            "A body is sent here with a Content-Length. Send it whole, not in chunks.",
        )
    }

    /// 413: a body that is longer than may be.
    pub fn body_too_large(bytes_max: usize) -> Problem {
        Problem::new(413, format!("A body here has at most {bytes_max} bytes. Send a smaller one."))
    }

    /// 415: a body of another type.
    pub fn not_json() -> Problem {
        Problem::new(415, "An event is sent with Content-Type: application/json.")
    }

    /// 415: a body that is no form, where one is to be.
    pub fn not_form() -> Problem {
        let detail = "A QUERY has a form: Content-Type: application/x-www-form-urlencoded.";
        Problem::new(415, detail)
    }

    /// 503: no room or no time for what a client sends; `retry_after` is in seconds.
    pub fn sends_busy(retry_after: u32) -> Problem {
        let detail = "The server has more to send than it can. Nothing was sent; send this again.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Busy, detail) }
    }

    /// 503: no room for one more who asks for a durable stream, or publishes; `retry_after` is in
    /// seconds.
    pub fn streams_busy(retry_after: u32) -> Problem {
        let detail =
            "Too many clients ask for streams or publish at once. Nothing was done; try again.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Busy, detail) }
    }

    /// 503: nobody has said in time what became of it.
    pub fn send_unanswered() -> Problem {
        Problem::of(
            ProblemKind::OutcomeUnknown,
            "The server has not finished this in time. It may still be sent: send it again with \
             the same Idempotency-Key, and it is sent once.",
        )
    }

    /// 408: the head was not complete in time.
    pub fn head_timeout() -> Problem {
        Problem::new(
            408,
            "The request head was not complete in time. Send it at once, up to its blank line.",
        )
    }

    /// 413: a body where none belongs.
    pub fn body_refused() -> Problem {
        Problem::new(413, "A request for a stream has no body. Leave it out.")
    }

    /// 421: a name that is not the server's, as a page has it whose own name was made to lead here.
    pub fn misdirected() -> Problem {
        Problem::new(
            421,
            "This server is not called by that name. Use its address, or tell it its name: \
             encke serve --public-host NAME.",
        )
    }

    /// 426: a WebSocket of another version than RFC 6455's.
    pub fn websocket_version() -> Problem {
        Problem::new(
            426,
            "WebSockets here are of version 13 (RFC 6455). Send Sec-WebSocket-Version: 13.",
        )
    }

    /// 429: a client that has or does too much; `detail` says what, `retry_after` is in seconds.
    pub fn too_many(detail: impl Into<Cow<'static, str>>, retry_after: u32) -> Problem {
        Problem { retry_after: Some(retry_after), ..Problem::new(429, detail) }
    }

    /// 431: a head that is too long or has too many lines.
    pub fn head_too_large() -> Problem {
        Problem::new(
            431,
            "A request head has at most 8192 bytes and 100 header lines here. Send fewer ids or \
             smaller header fields, such as cookies.",
        )
    }

    /// 431: a poll behind whose answer the next one would have a head that is too long.
    pub fn places_too_long() -> Problem {
        Problem::new(
            431,
            "The next poll names where it stands, with 17 bytes for each room, and a request head \
             has at most 8192 bytes here. Ask for fewer rooms in a poll, send fewer ids, or \
             smaller header fields, such as cookies.",
        )
    }

    /// 503: no time to look at a token; `retry_after` is in seconds.
    pub fn tokens_busy(retry_after: u32) -> Problem {
        let detail = "The server cannot check the token now. Try again later.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Busy, detail) }
    }

    /// 503: no place for another connection; `retry_after` is in seconds.
    pub fn unavailable(retry_after: u32) -> Problem {
        let detail = "The server has no place for another connection. Try again later.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Full, detail) }
    }

    /// 503: this node of a cluster ends, and others go on; `retry_after` is in seconds.
    pub fn moving(retry_after: u32) -> Problem {
        let detail = "This node is ending, and others of its cluster go on. Try again: a balancer \
                      leads there.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::NodeLeaving, detail) }
    }

    /// 503: no room for further ids; `retry_after` is in seconds.
    pub fn ids_full(retry_after: u32) -> Problem {
        let detail = "The ids of all connections together are at their maximum. Ask for one id, or \
                      try again later.";
        Problem { retry_after: Some(retry_after), ..Problem::of(ProblemKind::Full, detail) }
    }

    /// 505: a version of HTTP other than 1.0 and 1.1.
    pub fn http_version() -> Problem {
        Problem::new(505, "This port speaks HTTP/1.1 and HTTP/1.0 only.")
    }

    /// The phrase of the status code (RFC 9110, section 15; RFC 4918; RFC 6585).
    pub fn title(&self) -> &'static str {
        match self.status {
            400 => "Bad Request",
            401 => "Unauthorized",
            403 => "Forbidden",
            404 => "Not Found",
            405 => "Method Not Allowed",
            406 => "Not Acceptable",
            408 => "Request Timeout",
            409 => "Conflict",
            410 => "Gone",
            411 => "Length Required",
            413 => "Content Too Large",
            414 => "URI Too Long",
            415 => "Unsupported Media Type",
            421 => "Misdirected Request",
            422 => "Unprocessable Content",
            426 => "Upgrade Required",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            503 => "Service Unavailable",
            505 => "HTTP Version Not Supported",
            507 => "Insufficient Storage",
            _ => "Error",
        }
    }

    /// The body: one JSON object and a line end.
    pub fn to_json(&self) -> String {
        let mut out = String::with_capacity(96 + self.detail.len());
        out.push_str(&format!("{{\"type\":\"{}\",\"title\":", self.kind.reference()));
        json::push_string(&mut out, self.title());
        out.push_str(&format!(",\"status\":{},\"detail\":", self.status));
        json::push_string(&mut out, &self.detail);
        out.push_str("}\n");
        out
    }
}

/// The members of the body, for whoever adds some of its own.
impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_struct("Problem", 4)?;
        members.serialize_field("type", self.kind.reference())?;
        members.serialize_field("title", self.title())?;
        members.serialize_field("status", &self.status)?;
        members.serialize_field("detail", &self.detail)?;
        members.end()
    }
}

#[cfg(test)]
mod tests;
