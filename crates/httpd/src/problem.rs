//! Answers that say what went wrong and what to do about it (RFC 9457).
//!
//! Every error of the API is one of these, as the body of an answer or as one line of an NDJSON
//! stream. It is what the public port says too ([`Problem`]), with what a request of many parts
//! adds. Programs look at the type ([`ProblemKind`]); what a person needs stands in the detail.

use std::borrow::Cow;

use axum::extract::rejection::QueryRejection;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use graph::{ReadError, Unusable, WriteError};
use hub::{EventError, FollowersError, IdError};
use proto::problem::CONTENT_TYPE;
use proto::{Problem, ProblemKind};
use serde::Serialize;

use crate::json::without_place;

/// Seconds after which a request that met a full mailbox may be tried again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Why a request, or one line of it, is refused.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ApiProblem {
    #[serde(flatten)]
    problem: Problem,
    /// The line of an NDJSON body that is meant, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// How many subscriptions of the request were new and are stored all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    /// How many subscriptions of the request were there and are removed all the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
}

impl From<Problem> for ApiProblem {
    fn from(problem: Problem) -> ApiProblem {
        ApiProblem { problem, line: None, added: None, removed: None }
    }
}

/// What the public port says of it too.
impl From<ApiProblem> for Problem {
    fn from(problem: ApiProblem) -> Problem {
        problem.problem
    }
}

impl ApiProblem {
    /// A problem with nothing but its status and what to do.
    pub fn new(status: StatusCode, detail: impl Into<Cow<'static, str>>) -> ApiProblem {
        Problem::new(status.as_u16(), detail).into()
    }

    /// A problem of this kind, with nothing but what to do.
    pub fn of(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> ApiProblem {
        Problem::of(kind, detail).into()
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.problem.status).expect("it was made of one")
    }

    /// Says which part of the request it is about, with which its detail begins.
    pub fn about(mut self, part: &str) -> ApiProblem {
        self.problem.detail = format!("{part}: {}", self.problem.detail).into();
        self
    }

    /// 400.
    pub fn bad_request(detail: impl Into<Cow<'static, str>>) -> ApiProblem {
        ApiProblem::new(StatusCode::BAD_REQUEST, detail)
    }

    /// 400: JSON that cannot be read, or that says something else than was asked for.
    pub fn bad_json(error: &serde_json::Error) -> ApiProblem {
        let (what, line, column) = (shortened(error), error.line(), error.column());
        let mut detail = format!("The body cannot be read: {what} at line {line} column {column}.");
        if detail.contains(": trailing characters") {
            detail += " Lines are sent with Content-Type: application/x-ndjson.";
        }
        ApiProblem::of(ProblemKind::BadJson, detail)
    }

    /// 400: as [`ApiProblem::bad_json`], for line `line` of a stream, in which the error's own line
    /// is always the first.
    pub fn bad_line(error: &serde_json::Error, line: u64) -> ApiProblem {
        let (what, column) = (shortened(error), error.column());
        let detail = format!("Line {line} cannot be read: {what} at column {column}.");
        ApiProblem::of(ProblemKind::BadJson, detail).on_line(line)
    }

    /// 403: a page of another origin.
    pub fn foreign_origin() -> ApiProblem {
        let detail = "Pages of other origins may not use the API. Let your own server call it.";
        ApiProblem::of(ProblemKind::OriginNotAllowed, detail)
    }

    /// 404: a path that leads nowhere.
    pub fn not_found() -> ApiProblem {
        let detail = "There is nothing at this path. GET /openapi.json describes those that are; \
                      clients' streams are at the public port, which is 8000 unless --listen \
                      says otherwise.";
        ApiProblem::new(StatusCode::NOT_FOUND, detail)
    }

    /// 405. The router adds the `Allow` field.
    pub fn method_not_allowed() -> ApiProblem {
        let detail = "This path has other methods: see the Allow field of this answer.";
        ApiProblem::new(StatusCode::METHOD_NOT_ALLOWED, detail)
    }

    /// 400: plain HTTP where TLS is spoken.
    pub fn plain_on_tls() -> ApiProblem {
        let detail = "This port speaks TLS. Call it as https:// instead of http://.";
        ApiProblem::bad_request(detail)
    }

    /// 408: a body that does not come.
    pub fn body_timeout() -> ApiProblem {
        let detail = "Nothing of the body came for too long. Send it at once; a stream that has \
                      nothing to say sends an empty line now and then.";
        ApiProblem::new(StatusCode::REQUEST_TIMEOUT, detail)
    }

    /// 400: one key for the many events of a stream.
    pub fn key_of_stream() -> ApiProblem {
        let detail = "Each event of a stream has a key of its own: write \"key\" into its line \
                      instead of sending Idempotency-Key.";
        ApiProblem::bad_request(detail)
    }

    /// 400: two keys for one event.
    pub fn two_keys() -> ApiProblem {
        let detail = "The Idempotency-Key of this request and the \"key\" in its body differ. Send \
                      one of them.";
        ApiProblem::bad_request(detail)
    }

    /// 409: the first send with a key takes too long.
    pub fn key_under_way() -> ApiProblem {
        let detail = "The first send with this idempotency key is still under way. Send this again \
                      with the same key, and it is answered the same.";
        ApiProblem::of(ProblemKind::IdempotencyKeyInUse, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    /// 413.
    pub fn too_large(detail: impl Into<Cow<'static, str>>) -> ApiProblem {
        ApiProblem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
    }

    /// 415.
    pub fn media_type() -> ApiProblem {
        let detail = "Send Content-Type: application/json, or application/x-ndjson for one JSON \
                      object a line.";
        ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// 415: a body that is compressed, as `coding` says.
    pub fn coding(coding: &str) -> ApiProblem {
        let detail = format!("The body is compressed ({coding}). Send it as it is.");
        ApiProblem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    /// 421: a name that is not the API's.
    pub fn misdirected() -> ApiProblem {
        let detail = "The API is not called by that name. Use its address, or tell it its name: \
                      encke serve --api-host NAME.";
        ApiProblem::new(StatusCode::MISDIRECTED_REQUEST, detail)
    }

    /// 422: a key that was used for something else.
    pub fn other_body() -> ApiProblem {
        let detail = "Something else was sent with this idempotency key within the last five \
                      minutes. A repeat has the same subject and the same data, to the byte; what \
                      is no repeat needs a key of its own.";
        ApiProblem::of(ProblemKind::IdempotencyKeyReused, detail)
    }

    /// 503: no place for another idempotency key before so many seconds.
    pub fn keys_full(retry_after: u32) -> ApiProblem {
        let detail = "The server remembers as many idempotency keys as it can, and forgets each \
                      after five minutes. Nothing of this event is sent; send it again later, or \
                      without a key.";
        ApiProblem::of(ProblemKind::IdempotencyKeysFull, detail).retry_after(retry_after)
    }

    /// 429: a client has as many idempotency keys as one may, none of which is over before so many
    /// seconds.
    pub fn key_share(keys: usize, retry_after: u32) -> ApiProblem {
        let detail = format!(
            "The server remembers {keys} idempotency keys of a client, each for five minutes, and \
             this client has used as many. Nothing of this event is sent; send it again later, or \
             without a key."
        );
        ApiProblem::of(ProblemKind::TooMany, detail).retry_after(retry_after)
    }

    /// 503: a worker's mailbox stayed full.
    pub fn mailbox_full() -> ApiProblem {
        let detail = "The workers have more events to deliver than they can. Nothing of this one \
                      is promised; send more slowly, and this one again.";
        ApiProblem::of(ProblemKind::Busy, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    /// 503: all places of the API are taken.
    pub fn no_place() -> ApiProblem {
        let detail = "The API has no place for another connection. Use fewer at a time.";
        ApiProblem::of(ProblemKind::Full, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    /// 503: the server is on its way out.
    pub fn stopping() -> ApiProblem {
        ApiProblem::unavailable("The server is stopping. Try again when it is back.")
    }

    /// 503: the workers are being started or stopped.
    pub fn starting_or_stopping() -> ApiProblem {
        ApiProblem::unavailable("The server is starting or stopping. Try again in a moment.")
    }

    /// 503 with `Retry-After`.
    pub fn unavailable(detail: impl Into<Cow<'static, str>>) -> ApiProblem {
        ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, detail).retry_after(RETRY_AFTER_SECONDS)
    }

    /// Says that it may be tried again after so many seconds.
    pub fn retry_after(mut self, seconds: u32) -> ApiProblem {
        self.problem.retry_after = Some(seconds);
        self
    }

    /// What happened and what to do.
    pub fn detail(&self) -> &str {
        &self.problem.detail
    }

    /// Says which line of an NDJSON body it is about, counted from 1.
    pub fn on_line(self, line: u64) -> ApiProblem {
        ApiProblem { line: Some(line), ..self }
    }

    /// Says how many subscriptions were added nevertheless.
    pub fn after_adding(self, added: u64) -> ApiProblem {
        ApiProblem { added: Some(added), ..self }
    }

    /// Says how many subscriptions were removed nevertheless.
    pub fn after_removing(self, removed: u64) -> ApiProblem {
        ApiProblem { removed: Some(removed), ..self }
    }

    /// A whole answer of HTTP/1.1, after which the connection is closed.
    pub fn to_http(&self) -> String {
        let (status, body) = (self.problem.status, self.to_json());
        format!(
            "HTTP/1.1 {status} {}\r\ncontent-type: {CONTENT_TYPE}\r\ncontent-length: {}\r\n\
             connection: close\r\n\r\n{body}",
            self.problem.title(),
            body.len()
        )
    }

    /// The body: one line of JSON.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string(self).expect("all members are plain values");
        json.push('\n');
        json
    }
}

impl IntoResponse for ApiProblem {
    fn into_response(self) -> Response {
        let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
        let mut response = (self.status(), content_type, self.to_json()).into_response();
        if let Some(seconds) = self.problem.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // RFC 9110, section 15.5.2: who is to bring something is told what.
        let challenge = self.problem.challenge.and_then(|text| HeaderValue::try_from(&*text).ok());
        let bearer = || HeaderValue::from_static("Bearer");
        let is_needed = response.status() == StatusCode::UNAUTHORIZED;
        if let Some(challenge) = challenge.or_else(|| is_needed.then(bearer)) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl From<QueryRejection> for ApiProblem {
    fn from(rejection: QueryRejection) -> ApiProblem {
        ApiProblem::bad_request(format!("{}.", rejection.body_text()))
    }
}

impl From<IdError> for ApiProblem {
    fn from(error: IdError) -> ApiProblem {
        ApiProblem::of(ProblemKind::BadId, sentence(&error.to_string()))
    }
}

impl From<EventError> for ApiProblem {
    fn from(error: EventError) -> ApiProblem {
        let kind = match error {
            EventError::Id(_) => ProblemKind::BadId,
            _ => ProblemKind::BadRequest,
        };
        ApiProblem::of(kind, sentence(&error.to_string()))
    }
}

impl From<ReadError> for ApiProblem {
    fn from(error: ReadError) -> ApiProblem {
        ApiProblem::unavailable(sentence(&error.to_string()))
    }
}

impl From<Unusable> for ApiProblem {
    fn from(error: Unusable) -> ApiProblem {
        ApiProblem::new(StatusCode::SERVICE_UNAVAILABLE, sentence(&error.to_string()))
    }
}

impl From<FollowersError> for ApiProblem {
    fn from(error: FollowersError) -> ApiProblem {
        ApiProblem::unavailable(sentence(&error.to_string()))
    }
}

impl From<WriteError> for ApiProblem {
    fn from(error: WriteError) -> ApiProblem {
        let detail = sentence(&error.to_string());
        let status = match error {
            WriteError::DiskFull(_) | WriteError::SizeLimit(_) => StatusCode::INSUFFICIENT_STORAGE,
            WriteError::Stopped | WriteError::HandedOver | WriteError::Store(_) => {
                return ApiProblem::unavailable(detail);
            }
            WriteError::IsReplica => StatusCode::CONFLICT,
            // Trying again does not help: somebody has to see to it.
            WriteError::Unusable(_) | WriteError::Unknown(_) => StatusCode::SERVICE_UNAVAILABLE,
        };
        ApiProblem::new(status, detail)
    }
}

/// An error's text as a sentence.
pub fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).chain(['.']).collect()
}

/// What is wrong with some JSON. It may name what was found, of which a beginning is enough:
/// answers of a stream's lines wait for each other.
fn shortened(error: &serde_json::Error) -> String {
    const CHARACTERS_MAX: usize = 300;
    let mut what = without_place(error);
    if let Some((end, _)) = what.char_indices().nth(CHARACTERS_MAX) {
        what.truncate(end);
        what.push('…');
    }
    what
}

#[cfg(test)]
mod tests;
