//! What is wrong with a head that is none of HTTP/1.1.

use crate::Problem;

/// What a client is told that speaks something else.
pub(super) fn not_http() -> Problem {
    Problem::bad_request("This is not an HTTP/1.1 request. The port speaks plain HTTP, no TLS.")
}

/// What is wrong with a head that cannot be parsed.
pub(super) fn syntax_problem(error: httparse::Error, head: &[u8]) -> Problem {
    use httparse::Error;
    match error {
        Error::TooManyHeaders => Problem::head_too_large(),
        Error::Version if names_a_version(head) => Problem::http_version(),
        Error::HeaderName => Problem::bad_request(
            "A header line has a bad name. Names hold no space, lines are not folded, and a colon \
             follows at once (RFC 9112, section 5).",
        ),
        Error::HeaderValue => Problem::bad_request(
            "A header value holds a control character (RFC 9110, section 5.5).",
        ),
        Error::NewLine => Problem::bad_request(
            "A line ends in a bare CR. Lines end in CRLF (RFC 9112, section 2.2).",
        ),
        Error::Token | Error::Version | Error::Status => Problem::bad_request(
            "The first line is not METHOD TARGET VERSION with one space between them (RFC 9112, \
             section 3).",
        ),
    }
}

/// Whether the first line ends in a well-formed version (RFC 9112, section 2.3), if only in one
/// that this port does not speak.
fn names_a_version(head: &[u8]) -> bool {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    match line.splitn(3, |&byte| byte == b' ').nth(2) {
        Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]) => {
            major.is_ascii_digit() && minor.is_ascii_digit()
        }
        _ => false,
    }
}
