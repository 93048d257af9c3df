//! Refusals of requests that are no HTTP, with a body.
//!
//! hyper answers those by itself, before any of our code is asked, with a status and no body. The
//! API promises that every error is a problem that says what to do, so on its way out such an
//! answer is exchanged for one with a body. It is known by its length: no answer of ours is an
//! error and empty.

use axum::http::StatusCode;
use bytes::Bytes;

use super::problem::ApiProblem;

/// What stands in the place of `answer`, when that is a refusal without a body.
pub(super) fn with_body(answer: &[u8]) -> Option<Bytes> {
    let status = answer.strip_prefix(b"HTTP/1.1 4")?;
    let digits = [b'4', *status.first()?, *status.get(1)?];
    let head = answer.strip_suffix(b"\r\n\r\n")?;
    let empty = head
        .split(|&byte| byte == b'\n')
        .any(|line| line.trim_ascii().eq_ignore_ascii_case(b"content-length: 0"));
    if !empty {
        return None;
    }
    let status = StatusCode::from_bytes(&digits).ok()?;
    let detail = match status {
        StatusCode::URI_TOO_LONG => "The request's target is too long. Send fewer and shorter ids.",
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            "The request's head is too large. Send fewer and smaller header fields."
        }
        _ => "This is no valid request of HTTP/1.1. Send one as RFC 9112 has it.",
    };
    Some(ApiProblem::new(status, detail).to_http().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_refusal_gets_a_body() {
        let bare = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let answer = with_body(bare).unwrap();
        let text = str::from_utf8(&answer).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        assert!(body.contains("\"status\":400"));
    }

    #[test]
    fn other_answers_are_left_alone() {
        for answer in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n",
            "HTTP/1.1 4",
            "",
        ] {
            assert_eq!(with_body(answer.as_bytes()), None, "{answer}");
        }
    }
}
