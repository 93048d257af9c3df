//! Request bodies: what kind they are, and reading small ones whole, within bounds of size and
//! time.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use bytes::{Buf, Bytes, BytesMut};
use http_body_util::BodyExt;
use proto::request::NDJSON_SUBTYPES;
use tokio::time::Instant;

use super::permits::IdleLimit;
use super::problem::ApiProblem;

/// What some programs put before a text to say that it is UTF-8. JSON has none, and who reads it
/// may pass over one (RFC 8259, section 8.1).
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// How long a client may take between two pieces of a body that is read whole.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long between two of a stream. Both are shorter while permits are scarce.
const STREAM_TIMEOUT: Duration = Duration::from_secs(300);

/// Bytes past its bound that are still read of a body, so that a client that sends first and reads
/// then hears the answer instead of a reset.
const OVERRUN_BYTES_MAX: usize = 16 << 20;

/// The forms of body that the API takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyKind {
    /// One JSON value.
    Json,
    /// One JSON value a line.
    Ndjson,
}

impl BodyKind {
    /// By the `Content-Type` field; without one it is JSON, and so is what `curl -d` calls a form
    /// and `fetch` calls plain text, unless they are told otherwise. (What a page of another origin
    /// may say here does not matter: see [`super::origin`].)
    ///
    /// # Errors
    /// It is none of these, or compressed.
    pub fn of(headers: &HeaderMap) -> Result<BodyKind, ApiProblem> {
        let coding = headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
        if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case(b"identity")) {
            return Err(ApiProblem::coding(&coding.escape_ascii().to_string()));
        }
        let Some(field) = headers.get(header::CONTENT_TYPE) else { return Ok(BodyKind::Json) };
        let text = field.to_str().map_err(|_| ApiProblem::media_type())?;
        BodyKind::of_text(text).ok_or_else(ApiProblem::media_type)
    }

    /// By what the field says.
    pub fn of_text(text: &str) -> Option<BodyKind> {
        // RFC 9110, section 8.3.1: parameters follow a semicolon, names are without case.
        let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" | "application/x-www-form-urlencoded" | "text/plain" => {
                Some(BodyKind::Json)
            }
            other => {
                let subtype = other.strip_prefix("application/")?;
                NDJSON_SUBTYPES.contains(&subtype).then_some(BodyKind::Ndjson)
            }
        }
    }
}

/// Reads a body of at most `bytes_max` bytes.
pub async fn read_whole(
    body: Body,
    bytes_max: usize,
    idle_limit: &IdleLimit,
) -> Result<Bytes, ApiProblem> {
    let pieces = Pieces::of_whole(body, idle_limit);
    let mut whole = read_bytes(pieces, bytes_max, |_| Ok(())).await?;
    if whole.starts_with(BYTE_ORDER_MARK) {
        whole.advance(BYTE_ORDER_MARK.len());
    }
    Ok(whole)
}

/// Reads all `pieces`, of at most `bytes_max` bytes together, as they are. `keep` hears the length
/// of each one before it is kept, and may refuse that.
pub async fn read_bytes(
    mut pieces: Pieces,
    bytes_max: usize,
    mut keep: impl FnMut(usize) -> Result<(), ApiProblem>,
) -> Result<Bytes, ApiProblem> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut overrun = 0;
    while let Some(piece) = pieces.next().await? {
        let len = first.len() + whole.len() + piece.len();
        if overrun > 0 || len > bytes_max {
            (first, whole) = (Bytes::new(), BytesMut::new());
            overrun += piece.len();
            if overrun > OVERRUN_BYTES_MAX {
                break;
            }
            continue;
        }
        keep(piece.len())?;
        if first.is_empty() && whole.is_empty() {
            // Most bodies come in one piece, which needs no copy.
            first = piece;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&piece);
        }
    }
    if overrun > 0 {
        let detail = format!("This body may have at most {bytes_max} bytes. Send less at once.");
        return Err(ApiProblem::too_large(detail));
    }
    debug_assert!(first.is_empty() || whole.is_empty(), "one of the two has it all");
    debug_assert!(first.len() + whole.len() <= bytes_max);
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

/// The body of a request, piece by piece, as long as its client goes on with it.
pub struct Pieces {
    body: Body,
    timeout: Duration,
    idle_limit: IdleLimit,
    /// Since when we have waited for the next piece.
    silent_since: Option<Instant>,
}

impl Pieces {
    /// A body that is read while its client writes it, and may take its time.
    pub fn of_stream(body: Body, idle_limit: &IdleLimit) -> Pieces {
        Pieces::new(body, STREAM_TIMEOUT, idle_limit)
    }

    /// A body that is read to its end before anything is done with it.
    pub fn of_whole(body: Body, idle_limit: &IdleLimit) -> Pieces {
        Pieces::new(body, WHOLE_TIMEOUT, idle_limit)
    }

    fn new(body: Body, timeout: Duration, idle_limit: &IdleLimit) -> Pieces {
        Pieces { body, timeout, idle_limit: idle_limit.clone(), silent_since: None }
    }

    /// The next piece; `None` at the end. It may be dropped before it is done, and asked again.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ApiProblem> {
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        let piece = tokio::select! {
            biased;
            piece = next_piece(&mut self.body) => piece,
            _ = self.idle_limit.expired(since, self.timeout) => {
                Err(ApiProblem::body_timeout())
            }
        };
        self.silent_since = None;
        piece
    }

    /// What has not been read, for somebody else.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// The client is not waited for at present, so its silence does not count.
    pub fn pause(&mut self) {
        self.silent_since = None;
    }
}

async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, ApiProblem> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => {
                let detail = format!("The body broke off: {error}. Send it again.");
                return Err(ApiProblem::bad_request(detail));
            }
            // What is no data is trailers, which mean nothing here.
            Some(Ok(frame)) => {
                // Nor is a piece of nothing a word of its client (HTTP/2 has such frames).
                if let Some(piece) = frame.into_data().ok().filter(|piece| !piece.is_empty()) {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future;

    use axum::http::{HeaderValue, StatusCode};
    use futures_util::stream;

    use super::*;
    use crate::permits::ConnectionPermits;

    fn kind(content_type: &str) -> Result<BodyKind, ApiProblem> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        BodyKind::of(&headers)
    }

    #[test]
    fn body_kind_follows_the_media_type() {
        assert_eq!(kind("application/json"), Ok(BodyKind::Json));
        assert_eq!(kind("Application/JSON; charset=utf-8"), Ok(BodyKind::Json));
        for name in ["x-ndjson", "ndjson", "JSONL", "x-jsonlines; charset=utf-8"] {
            assert_eq!(kind(&format!("application/{name}")), Ok(BodyKind::Ndjson), "{name}");
        }
        assert_eq!(kind("text/plain;charset=UTF-8"), Ok(BodyKind::Json));
        assert_eq!(kind("text/html").unwrap_err().status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(BodyKind::of(&HeaderMap::new()), Ok(BodyKind::Json));
        let coded = |coding| {
            let field = (header::CONTENT_ENCODING, HeaderValue::from_static(coding));
            BodyKind::of(&HeaderMap::from_iter([field]))
        };
        assert_eq!(coded("Identity"), Ok(BodyKind::Json));
        let refused = coded("gzip").unwrap_err();
        assert_eq!(refused.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert!(refused.detail().contains("gzip"), "{}", refused.detail());
    }

    fn body(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, axum::Error>(*piece)).collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_says_nothing_is_not_waited_for_for_ever() {
        let permits = ConnectionPermits::new();
        let idle_limit = permits.idle_limit();
        let silent = || Body::from_stream(stream::pending::<Result<Bytes, axum::Error>>());
        let start = Instant::now();
        let problem = read_whole(silent(), 6, &idle_limit).await.unwrap_err();
        assert_eq!(
            (problem.status(), start.elapsed()),
            (ApiProblem::body_timeout().status(), WHOLE_TIMEOUT)
        );
        let mut pieces = Pieces::of_stream(silent(), &idle_limit);
        // The time in which nobody asked is not the client's.
        tokio::time::advance(STREAM_TIMEOUT).await;
        let start = Instant::now();
        assert_eq!(pieces.next().await, Err(ApiProblem::body_timeout()));
        assert_eq!(start.elapsed(), STREAM_TIMEOUT);
        let empty = stream::unfold((), |()| async {
            let _ = tokio::time::timeout(STREAM_TIMEOUT / 7, future::pending::<()>()).await;
            Some((Ok::<_, axum::Error>(Bytes::new()), ()))
        });
        let mut pieces = Pieces::of_stream(Body::from_stream(empty), &idle_limit);
        let start = Instant::now();
        assert_eq!(pieces.next().await, Err(ApiProblem::body_timeout()));
        assert_eq!(start.elapsed(), STREAM_TIMEOUT);
    }

    #[tokio::test]
    async fn body_is_put_together_up_to_its_bound() {
        let idle_limit = ConnectionPermits::new().idle_limit();
        assert_eq!(read_whole(body(&[]), 6, &idle_limit).await.unwrap(), "");
        let marked = body(&["\u{feff}ab", "c"]);
        assert_eq!(read_whole(marked, 6, &idle_limit).await.unwrap(), "abc");
        assert_eq!(read_whole(body(&["abc", "de", "f"]), 6, &idle_limit).await.unwrap(), "abcdef");
        let problem = read_whole(body(&["abc", "de", "fg"]), 6, &idle_limit).await.unwrap_err();
        assert_eq!(problem.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
