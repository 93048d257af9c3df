//! The head of a response (RFC 9112, sections 2 to 6), reading side.

use crate::BodyLength;

/// The longest head that is read. Servers of streams send a few hundred bytes.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What was an error about a head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeadError {
    /// Not a status line and header fields (RFC 9112, sections 4 and 5).
    Malformed,
    /// No blank line within [`HEAD_BYTES_MAX`].
    TooLong,
    /// A transfer coding other than chunked, or a length that is no number (RFC 9112, section 6.3).
    UnknownLength,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            HeadError::Malformed => "the answer is not HTTP/1.1",
            HeadError::TooLong => "the answer's head is over 16 KiB",
            HeadError::UnknownLength => "the answer's length cannot be told",
        })
    }
}

impl std::error::Error for HeadError {}

/// The head of one response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseHead<'b> {
    /// The status code, 100 to 999. After a 1xx another head follows (RFC 9110, section 15.2).
    pub status: u16,
    /// How the end of the body is known.
    pub body: BodyLength,
    /// The media type with its parameters.
    pub content_type: Option<&'b str>,
    /// What a server of WebSockets makes of the key ([`accepts`](crate::accepts)).
    pub websocket_accept: Option<&'b str>,
    /// `Encke-Next`: the place for the next poll, or from which a stream goes on that is cut off
    /// before it has told another one.
    pub next: Option<&'b str>,
    /// `Encke-Gap`: something was missed. A stream says so itself, too, and who has not heard that
    /// keeps the place of before.
    pub gap: bool,
    /// Whether the connection carries no further request (RFC 9112, section 9.3).
    pub closes: bool,
    /// Bytes of the head in the buffer; the body starts there.
    pub head_len: usize,
}

/// Reads the head that `buffer` starts with; `None` when it is not all there yet, and then the
/// call is made again with more bytes behind the same ones.
pub fn response_head(buffer: &[u8]) -> Result<Option<ResponseHead<'_>>, HeadError> {
    let mut fields = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut fields);
    let head_len = match response.parse(buffer) {
        Ok(httparse::Status::Complete(len)) => len,
        Ok(httparse::Status::Partial) if buffer.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) => return Err(HeadError::TooLong),
        Err(_) => return Err(HeadError::Malformed),
    };
    let status = response.code.ok_or(HeadError::Malformed)?;
    let field = |name: &str| response.headers.iter().find(|f| f.name.eq_ignore_ascii_case(name));
    let body = if matches!(status, 100..=199 | 204 | 304) {
        BodyLength::Known(0)
    } else if let Some(coding) = field("transfer-encoding") {
        let chunked = coding.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
        if chunked { BodyLength::Chunked } else { return Err(HeadError::UnknownLength) }
    } else if let Some(length) = field("content-length") {
        let length =
            std::str::from_utf8(length.value).ok().and_then(|text| text.trim().parse().ok());
        BodyLength::Known(length.ok_or(HeadError::UnknownLength)?)
    } else {
        BodyLength::UntilClose
    };
    let text = |name| field(name).and_then(|field| std::str::from_utf8(field.value).ok());
    let is_close = |option: &str| option.trim_ascii().eq_ignore_ascii_case("close");
    Ok(Some(ResponseHead {
        status,
        body,
        content_type: text("content-type"),
        websocket_accept: text("sec-websocket-accept"),
        next: text("encke-next"),
        gap: text("encke-gap") == Some("true"),
        closes: response.version == Some(0)
            || text("connection").is_some_and(|options| options.split(',').any(is_close)),
        head_len,
    }))
}

#[cfg(test)]
mod tests;
