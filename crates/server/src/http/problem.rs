//! Answers that say what went wrong and what to do about it (RFC 9457).
//!
//! Every error of the API is one of these, as the body of an answer or as one line of an NDJSON
//! stream. Every problem is of type `about:blank`, so its title is the phrase of its status code
//! (section 4.2.1); what a person needs stands in the detail.

use std::borrow::Cow;

use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use graph::{ReadError, WriteError};
use hub::{FollowersError, IdError};
use serde::Serialize;

use crate::posting::Unposted;

/// The media type of a problem's body.
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

/// Seconds after which a request that met a full mailbox may be tried again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Why a request, or one line of it, is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[serde(serialize_with = "serialize_status")]
    pub(crate) status: StatusCode,
    pub(crate) detail: Cow<'static, str>,
    /// The line of an NDJSON body that is meant, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// How many subscriptions of the request were new and are stored all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    /// How many subscriptions of the request were there and are removed all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
    #[serde(skip)]
    retry_after: Option<u32>,
}

fn serialize_status<S: serde::Serializer>(
    status: &StatusCode,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    /// A problem with nothing but its status and what to do.
    pub(crate) fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem {
            kind: "about:blank",
            title: title(status),
            status,
            detail: detail.into(),
            line: None,
            added: None,
            removed: None,
            retry_after: None,
        }
    }

    /// 400.
    pub(crate) fn bad_request(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 400: JSON that cannot be read, or that says something else than was asked for.
    pub(crate) fn bad_json(error: &serde_json::Error) -> Problem {
        // The message ends with its position.
        Problem::bad_request(format!("The body cannot be read: {error}."))
    }

    /// 400: as [`Problem::bad_json`], for line `line` of a stream, in which the error's own line
    /// is always the first.
    pub(crate) fn bad_line(error: &serde_json::Error, line: u64) -> Problem {
        let text = error.to_string();
        let end = text.rfind(" at line ").unwrap_or(text.len());
        let column = error.column();
        let detail = format!("Line {line} cannot be read: {} at column {column}.", &text[..end]);
        Problem::bad_request(detail).on_line(line)
    }

    /// 403: a page of another origin.
    pub(crate) fn foreign_origin() -> Problem {
        let detail = "Pages of other origins may not use the API. Let your own server call it.";
        Problem::new(StatusCode::FORBIDDEN, detail)
    }

    /// 404: a path that leads nowhere.
    pub(crate) fn not_found() -> Problem {
        let detail = "There is nothing at this path. GET /openapi.json describes those that are.";
        Problem::new(StatusCode::NOT_FOUND, detail)
    }

    /// 405. The router adds the `Allow` field.
    pub(crate) fn method_not_allowed() -> Problem {
        let detail = "This path has other methods: see the Allow field of this answer.";
        Problem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// 408: a body that does not come.
    pub(crate) fn body_timeout() -> Problem {
        let detail = "Nothing of the body came for too long. Send it at once; a stream that has \
                      nothing to say sends an empty line now and then.";
        Problem::new(StatusCode::REQUEST_TIMEOUT, detail)
    }

    /// 413.
    pub(crate) fn too_large(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    /// 415.
    pub(crate) fn media_type() -> Problem {
        let detail = "Send Content-Type: application/json, or application/x-ndjson for one JSON \
                      object a line.";
        Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// 421: a name that is not the API's.
    pub(crate) fn misdirected() -> Problem {
        let detail = "The API is not called by that name. Use its address, or tell it its name: \
                      encke serve --api-host NAME.";
        Problem::new(StatusCode::MISDIRECTED_REQUEST, detail)
    }

    /// 503: a worker's mailbox stayed full.
    pub(crate) fn mailbox_full() -> Problem {
        let detail = "The workers have more events to deliver than they can. Nothing of this one \
                      is promised; send more slowly, and this one again.";
        Problem::unavailable(detail)
    }

    /// 503: all places of the API are taken.
    pub(crate) fn no_place() -> Problem {
        Problem::unavailable("The API has no place for another connection. Use fewer at a time.")
    }

    /// 503: the server is on its way out.
    pub(crate) fn stopping() -> Problem {
        Problem::unavailable("The server is stopping. Try again when it is back.")
    }

    /// 503: the workers are being started or stopped.
    pub(crate) fn starting_or_stopping() -> Problem {
        Problem::unavailable("The server is starting or stopping. Try again in a moment.")
    }

    /// 503 with `Retry-After`.
    pub(crate) fn unavailable(detail: impl Into<Cow<'static, str>>) -> Problem {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
        Problem { retry_after: Some(RETRY_AFTER_SECONDS), ..problem }
    }

    /// The same, about one line of an NDJSON body, counted from 1.
    pub(crate) fn on_line(self, line: u64) -> Problem {
        Problem { line: Some(line), ..self }
    }

    /// The same, when part of the request is done.
    pub(crate) fn after_adding(self, added: u64) -> Problem {
        Problem { added: Some(added), ..self }
    }

    /// The same, when part of the request is done.
    pub(crate) fn after_removing(self, removed: u64) -> Problem {
        Problem { removed: Some(removed), ..self }
    }

    /// A whole answer of HTTP/1.1, after which the connection is closed.
    pub(crate) fn to_http(&self) -> String {
        let (status, body) = (self.status.as_u16(), self.to_json());
        format!(
            "HTTP/1.1 {status} {}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.title,
            body.len()
        )
    }

    /// The body: one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let mut json = serde_json::to_string(self).expect("all members are plain values");
        json.push('\n');
        json
    }
}

/// The phrase of a status code (RFC 9110, section 15), which for 413 is newer than the library's.
fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::PAYLOAD_TOO_LARGE => "Content Too Large",
        status => status.canonical_reason().unwrap_or("Error"),
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
        let mut response = (self.status, content_type, self.to_json()).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Problem {
        Problem::bad_request(format!("{}.", rejection.body_text()))
    }
}

impl From<IdError> for Problem {
    fn from(error: IdError) -> Problem {
        Problem::bad_request(sentence(&error.to_string()))
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Problem {
        Problem::unavailable(sentence(&error.to_string()))
    }
}

impl From<FollowersError> for Problem {
    fn from(error: FollowersError) -> Problem {
        Problem::unavailable(sentence(&error.to_string()))
    }
}

impl From<Unposted> for Problem {
    fn from(unposted: Unposted) -> Problem {
        match unposted {
            Unposted::MailboxFull => Problem::mailbox_full(),
            Unposted::Followers(error) => error.into(),
        }
    }
}

impl From<WriteError> for Problem {
    fn from(error: WriteError) -> Problem {
        let detail = sentence(&error.to_string());
        match error {
            WriteError::DiskFull(_) | WriteError::SizeLimit(_) => {
                Problem::new(StatusCode::INSUFFICIENT_STORAGE, detail)
            }
            WriteError::Stopped | WriteError::Store(_) => Problem::unavailable(detail),
        }
    }
}

/// An error's text as a sentence.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).chain(['.']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_has_the_members_of_the_rfc() {
        let problem = Problem::from(IdError::Empty).on_line(7);
        assert_eq!(
            problem.to_json(),
            "{\"type\":\"about:blank\",\"title\":\"Bad Request\",\"status\":400,\
             \"detail\":\"An id must not be empty.\",\"line\":7}\n"
        );
    }

    #[test]
    fn bad_json_tells_where() {
        let error = serde_json::from_str::<u32>("{\n  x").unwrap_err();
        let detail = Problem::bad_json(&error).detail;
        assert!(detail.contains("line 1 column 0") || detail.contains("line 2"), "{detail}");
        let error = serde_json::from_str::<serde_json::Value>("[1,]").unwrap_err();
        let detail = Problem::bad_line(&error, 12).detail;
        assert_eq!(detail, "Line 12 cannot be read: trailing comma at column 4.");
    }

    #[test]
    fn full_disk_is_insufficient_storage_and_full_mailbox_asks_to_retry() {
        let full = Problem::from(WriteError::DiskFull("no space".into()));
        assert_eq!(full.status, StatusCode::INSUFFICIENT_STORAGE);
        let response = Problem::mailbox_full().into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "1");
        assert_eq!(response.headers()[header::CONTENT_TYPE], CONTENT_TYPE);
    }
}
