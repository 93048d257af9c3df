//! What the head of a request says.

use std::borrow::Cow;

use axum::extract::Query;
use axum::http::{HeaderMap, Uri};
use httpd::problem::ApiProblem;
use hub::PATH_BYTES_MAX;
use proto::request::durable_path;
use streams::{Lifetime, Producer, Start, parse_date};

/// The longest value of a field, which is stored with what it is about.
pub(super) const FIELD_BYTES_MAX: usize = 1_024;

/// The greatest number that JavaScript has exactly.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The path of the stream in the path of a URL.
pub(in crate::api) fn path(of_url: &str) -> Result<String, ApiProblem> {
    let path = durable_path(of_url).filter(|path| path.len() <= PATH_BYTES_MAX);
    path.map(Cow::into_owned).ok_or_else(|| {
        let detail = format!(
            "The path of a stream has 1 to {PATH_BYTES_MAX} bytes of UTF-8, percent-encoded."
        );
        ApiProblem::bad_request(detail)
    })
}

/// The path of the stream in a field that has the path of its URL.
pub(super) fn path_field(
    headers: &HeaderMap,
    name: &'static str,
) -> Result<Option<String>, ApiProblem> {
    let mut all = headers.get_all(name).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let of_url = first.to_str().ok().filter(|_| all.next().is_none());
    let path = of_url.and_then(|of_url| path(of_url.trim()).ok());
    path.map(Some).ok_or_else(|| {
        let detail = format!("{name} is one path of this server, such as /v1/stream/run/7.");
        ApiProblem::bad_request(detail)
    })
}

/// The one field of this name.
pub(super) fn text<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h str>, ApiProblem> {
    let mut all = headers.get_all(name).iter();
    let Some(first) = all.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|_| all.next().is_none());
    let text = text.map(str::trim).filter(|text| text.len() <= FIELD_BYTES_MAX);
    text.map(Some).ok_or_else(|| {
        let detail =
            format!("{name} is one field of at most {FIELD_BYTES_MAX} visible characters.");
        ApiProblem::bad_request(detail)
    })
}

/// Whether the stream is to be closed.
pub(super) fn closes(headers: &HeaderMap) -> bool {
    let field = headers.get("stream-closed").and_then(|field| field.to_str().ok());
    field.is_some_and(says_yes)
}

/// Whether the value of a field says yes.
pub(super) fn says_yes(text: &str) -> bool {
    text.trim().eq_ignore_ascii_case("true")
}

/// The life that a stream is created with.
pub(super) fn lifetime(headers: &HeaderMap) -> Result<Lifetime, ApiProblem> {
    let date = text(headers, "stream-expires-at")?;
    match (text(headers, "stream-ttl")?, date) {
        (None, None) => Ok(Lifetime::Unbounded),
        (Some(_), Some(_)) => {
            let detail = "Stream-TTL and Stream-Expires-At exclude each other. Send one of them.";
            Err(ApiProblem::bad_request(detail))
        }
        (Some(ttl), None) => {
            Lifetime::parse_ttl(ttl).map_err(|fault| ApiProblem::bad_request(format!("{fault}.")))
        }
        (None, Some(date)) => parse_date(date).map(Lifetime::ExpiresAt).ok_or_else(|| {
            let detail = "Stream-Expires-At is no date and time of RFC 3339, such as \
                          2030-01-31T12:00:00Z.";
            ApiProblem::bad_request(detail)
        }),
    }
}

/// The writer that may repeat itself.
pub(super) fn producer(headers: &HeaderMap) -> Result<Option<Producer<'_>>, ApiProblem> {
    let id = text(headers, "producer-id")?;
    let (epoch, sequence) = (text(headers, "producer-epoch")?, text(headers, "producer-seq")?);
    producer_of(id, epoch, sequence)
}

/// The writer that these fields name.
pub(super) fn producer_of<'h>(
    id: Option<&'h str>,
    epoch: Option<&str>,
    sequence: Option<&str>,
) -> Result<Option<Producer<'h>>, ApiProblem> {
    let wrong = || {
        let detail = "Producer-Id, Producer-Epoch and Producer-Seq come together: a name, and two \
                      numbers from 0 to 9007199254740991.";
        ApiProblem::bad_request(detail)
    };
    let (id, epoch, sequence) = match (id, epoch, sequence) {
        (None, None, None) => return Ok(None),
        (Some(id), Some(epoch), Some(sequence)) if !id.is_empty() => (id, epoch, sequence),
        _ => return Err(wrong()),
    };
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_plain.then(|| text.parse().ok()).flatten();
        number.filter(|number| *number <= NUMBER_MAX).ok_or_else(wrong)
    };
    Ok(Some(Producer { id, epoch: number(epoch)?, sequence: number(sequence)? }))
}

/// How a reader wants to be served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LiveMode {
    /// What is there.
    CatchUp,
    /// What is there, or what comes next.
    LongPoll,
    /// What is there and all that comes, as events.
    Sse,
}

/// What a reader asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ReadQuery {
    pub(super) start: Start,
    pub(super) live: LiveMode,
    /// The cursor that it was given last.
    pub(super) cursor: Option<String>,
}

impl ReadQuery {
    /// Reads the query, of which parameters that mean nothing here are passed over.
    pub(super) fn parse(uri: &Uri, headers: &HeaderMap) -> Result<ReadQuery, ApiProblem> {
        let (mut offset, mut live, mut cursor) = (None, LiveMode::CatchUp, None);
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri)?;
        for (name, value) in pairs {
            match name.as_str() {
                "offset" if offset.is_some() => {
                    return Err(ApiProblem::bad_request("Send offset= once."));
                }
                "offset" => offset = Some(value),
                "cursor" => cursor = Some(value),
                "live" => {
                    live = match value.as_str() {
                        "long-poll" => LiveMode::LongPoll,
                        "sse" => LiveMode::Sse,
                        _ => {
                            let detail = "live= is long-poll or sse; leave it out to catch up.";
                            return Err(ApiProblem::bad_request(detail));
                        }
                    }
                }
                _ => {}
            }
        }
        // An `EventSource` repeats its address when it comes back, and says so where it is.
        if live == LiveMode::Sse
            && let Some(last) = text(headers, "last-event-id")?.filter(|last| !last.is_empty())
        {
            offset = Some(last.to_owned());
        }
        if live != LiveMode::CatchUp && offset.is_none() {
            let detail = "A live read needs offset=: -1, now, or the last Stream-Next-Offset.";
            return Err(ApiProblem::bad_request(detail));
        }
        let parse = |offset: String| Start::parse(&offset);
        let start = offset.map_or(Ok(Start::Beginning), parse);
        let start = start.map_err(|fault| ApiProblem::bad_request(format!("{fault}.")))?;
        Ok(ReadQuery { start, live, cursor })
    }
}
