//! Request bodies: what kind they are, and reading small ones whole, within bounds of size and
//! time.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::problem::Problem;

/// How long a client may take between two pieces of a body that is read whole.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes past its bound that are still read of a body, so that a client that sends first and reads
/// then hears the answer instead of a reset.
const OVERRUN_BYTES_MAX: usize = 16 << 20;

/// The forms of body that the API takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyKind {
    /// One JSON value.
    Json,
    /// One JSON value a line.
    Ndjson,
}

impl BodyKind {
    /// By the `Content-Type` field; without one it is JSON, and so is what `curl -d` calls a form
    /// unless it is told otherwise. (What a page of another origin may say here does not matter:
    /// see [`super::origin`].)
    pub(crate) fn of(headers: &HeaderMap) -> Result<BodyKind, Problem> {
        let Some(field) = headers.get(header::CONTENT_TYPE) else { return Ok(BodyKind::Json) };
        let text = field.to_str().map_err(|_| Problem::media_type())?;
        // RFC 9110, section 8.3.1: parameters follow a semicolon, names are without case.
        let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match kind.as_str() {
            "application/json" | "application/x-www-form-urlencoded" => Ok(BodyKind::Json),
            "application/x-ndjson" | "application/ndjson" => Ok(BodyKind::Ndjson),
            _ => Err(Problem::media_type()),
        }
    }
}

/// Reads a body of at most `bytes_max` bytes.
pub(crate) async fn read_whole(mut body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let mut first = Bytes::new();
    let mut whole = BytesMut::new();
    let mut overrun = 0;
    while let Some(piece) = next_piece(&mut body).await? {
        let len = first.len() + whole.len() + piece.len();
        if overrun > 0 || len > bytes_max {
            (first, whole) = (Bytes::new(), BytesMut::new());
            overrun += piece.len();
            if overrun > OVERRUN_BYTES_MAX {
                break;
            }
        } else if first.is_empty() && whole.is_empty() {
            // Most bodies come in one piece, which needs no copy.
            first = piece;
        } else {
            whole.extend_from_slice(&std::mem::take(&mut first));
            whole.extend_from_slice(&piece);
        }
    }
    if overrun > 0 {
        let detail = format!("This body may have at most {bytes_max} bytes. Send less at once.");
        return Err(Problem::too_large(detail));
    }
    Ok(if whole.is_empty() { first } else { whole.freeze() })
}

async fn next_piece(body: &mut Body) -> Result<Option<Bytes>, Problem> {
    loop {
        match timeout(PIECE_TIMEOUT, body.frame()).await {
            Err(_) => return Err(Problem::body_timeout()),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => {
                let detail = format!("The body broke off: {error}. Send it again.");
                return Err(Problem::bad_request(detail));
            }
            Ok(Some(Ok(frame))) => {
                // What is no data is trailers, which mean nothing here.
                if let Ok(piece) = frame.into_data() {
                    return Ok(Some(piece));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderValue, StatusCode};
    use futures_util::stream;

    use super::*;

    fn kind(content_type: &'static str) -> Result<BodyKind, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        BodyKind::of(&headers)
    }

    #[test]
    fn body_kind_follows_the_media_type() {
        assert_eq!(kind("application/json"), Ok(BodyKind::Json));
        assert_eq!(kind("Application/JSON; charset=utf-8"), Ok(BodyKind::Json));
        assert_eq!(kind("application/x-ndjson"), Ok(BodyKind::Ndjson));
        assert_eq!(kind("text/plain").unwrap_err().status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(BodyKind::of(&HeaderMap::new()), Ok(BodyKind::Json));
    }

    fn body(pieces: &[&'static str]) -> Body {
        let pieces: Vec<_> = pieces.iter().map(|piece| Ok::<_, axum::Error>(*piece)).collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn body_is_put_together_up_to_its_bound() {
        assert_eq!(read_whole(body(&[]), 6).await.unwrap(), "");
        assert_eq!(read_whole(body(&["abc", "de", "f"]), 6).await.unwrap(), "abcdef");
        let problem = read_whole(body(&["abc", "de", "fg"]), 6).await.unwrap_err();
        assert_eq!(problem.status, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
