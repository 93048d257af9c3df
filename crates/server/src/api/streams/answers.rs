//! Answers: their fields, and what is said to who is refused.

use std::io::ErrorKind;

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use figures::run::utc;
use httpd::problem::{ApiProblem, sentence};
use proto::ProblemKind;
use streams::{Appended, Head, Lifetime, Offset, Refusal};

pub(super) const ID: HeaderName = HeaderName::from_static("encke-id");
pub(super) const NEXT_OFFSET: HeaderName = HeaderName::from_static("stream-next-offset");
pub(super) const CLOSED: HeaderName = HeaderName::from_static("stream-closed");
pub(super) const UP_TO_DATE: HeaderName = HeaderName::from_static("stream-up-to-date");
pub(super) const CURSOR: HeaderName = HeaderName::from_static("stream-cursor");
pub(super) const PRODUCER_EPOCH: HeaderName = HeaderName::from_static("producer-epoch");
pub(super) const PRODUCER_SEQ: HeaderName = HeaderName::from_static("producer-seq");
const EXPECTED_SEQ: HeaderName = HeaderName::from_static("producer-expected-seq");
const RECEIVED_SEQ: HeaderName = HeaderName::from_static("producer-received-seq");
const TTL: HeaderName = HeaderName::from_static("stream-ttl");
const EXPIRES_AT: HeaderName = HeaderName::from_static("stream-expires-at");

/// After how many seconds something may be tried again: to append to a stream whose last append is
/// not sent yet, or to read a long one.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The value of a field that says yes.
pub(super) const TRUE: HeaderValue = HeaderValue::from_static("true");

/// A value of a field that we have made ourselves, or read out of one.
pub(super) fn value(text: impl ToString) -> HeaderValue {
    HeaderValue::try_from(text.to_string()).expect("it is visible ASCII")
}

/// Says where a reader goes on, and whether the stream is closed.
pub(super) fn push_tail(fields: &mut HeaderMap, next: Offset, closed: bool) {
    fields.insert(NEXT_OFFSET, value(next));
    if closed {
        fields.insert(CLOSED, TRUE);
    }
}

/// Says what the stream is.
pub(super) fn push_head(fields: &mut HeaderMap, head: &Head) {
    fields.insert(header::CONTENT_TYPE, value(&head.content_type));
    push_tail(fields, head.next, head.closed);
    match head.lifetime {
        Lifetime::Unbounded => {}
        Lifetime::Ttl(seconds) => drop(fields.insert(TTL, value(seconds))),
        Lifetime::ExpiresAt(ms) => drop(fields.insert(EXPIRES_AT, value(utc::format_ms(ms)))),
    }
}

/// 400: the body is empty, and closes nothing.
pub(super) fn nothing_to_append() -> ApiProblem {
    let detail = "There is nothing to append. Send a body, or Stream-Closed: true to close.";
    ApiProblem::bad_request(detail)
}

/// The answer to who is refused, of the stream `path`.
pub(super) fn refused(refusal: &Refusal, path: &str) -> Response {
    if let Refusal::Disk(_) | Refusal::Unsure(_) | Refusal::Damaged(_) = refusal {
        tracing::error!("the durable stream {path:?}: {refusal}");
    }
    let status = match refusal {
        Refusal::Unknown => StatusCode::NOT_FOUND,
        Refusal::OldOffset | Refusal::Gone => StatusCode::GONE,
        Refusal::Exists
        | Refusal::Needed
        | Refusal::Closed(_)
        | Refusal::OtherType(_)
        | Refusal::Sequence
        | Refusal::Gap { .. } => StatusCode::CONFLICT,
        Refusal::StaleEpoch(_) => StatusCode::FORBIDDEN,
        Refusal::EpochStart | Refusal::BadOffset | Refusal::SubOffset => StatusCode::BAD_REQUEST,
        Refusal::Producers(_) | Refusal::Ancestors(_) | Refusal::Forks => {
            StatusCode::TOO_MANY_REQUESTS
        }
        Refusal::Prefix(_) => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
        Refusal::Damaged(_) => StatusCode::INTERNAL_SERVER_ERROR,
        Refusal::Disk(error) if error.kind() == ErrorKind::StorageFull => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        Refusal::Disk(_) | Refusal::Unsure(_) | Refusal::Pending | Refusal::Long => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    };
    let detail = sentence(&refusal.to_string());
    let problem = match refusal {
        Refusal::Unsure(_) => ApiProblem::of(ProblemKind::OutcomeUnknown, detail),
        _ => ApiProblem::new(status, detail),
    };
    let problem = match refusal {
        Refusal::Pending | Refusal::Long => problem.retry_after(RETRY_AFTER_SECONDS),
        _ => problem,
    };
    let mut response = problem.into_response();
    let fields = response.headers_mut();
    match *refusal {
        Refusal::Closed(next) => push_tail(fields, next, true),
        Refusal::StaleEpoch(epoch) => drop(fields.insert(PRODUCER_EPOCH, value(epoch))),
        Refusal::Gap { expected, received } => {
            fields.insert(EXPECTED_SEQ, value(expected));
            fields.insert(RECEIVED_SEQ, value(received));
        }
        _ => {}
    }
    // What is refused now need not be the next time.
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The answer to what was taken; who appends as a producer is told whether it was by this request.
pub(super) fn appended_answer(appended: &Appended, tells: bool) -> Response {
    let is_new = tells && !appended.repeated;
    let status = if is_new { StatusCode::OK } else { StatusCode::NO_CONTENT };
    let mut response = status.into_response();
    let answer = response.headers_mut();
    push_tail(answer, appended.next, false);
    if appended.closed {
        answer.insert(CLOSED, TRUE);
    }
    if let Some((epoch, sequence)) = appended.producer {
        answer.insert(PRODUCER_EPOCH, value(epoch));
        answer.insert(PRODUCER_SEQ, value(sequence));
    }
    response
}
