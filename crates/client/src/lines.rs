//! Lines, reading side: NDJSON, the classic comet page, and the answers to polls.
//!
//! A line that stands whole in the caller's buffer is handed on in place. Only one that is split
//! over reads is put together in a buffer, which is given back as soon as the line is out.

use memchr::memchr;

use crate::{EVENT_BYTES_MAX, Event, EventError};

/// Where a reader stands in one stream of lines.
#[derive(Debug, Default)]
pub struct LineDecoder {
    /// The line that has begun and is not whole in one piece of body.
    #[expect(clippy::box_collection, reason = "8 bytes a connection instead of 24; it is rare")]
    partial: Option<Box<Vec<u8>>>,
}

impl LineDecoder {
    /// Reads the next piece of the body and hands each line that ends in it to `on_line`, without
    /// its line end (LF or CRLF).
    ///
    /// # Errors
    /// A line is longer than [`EVENT_BYTES_MAX`].
    pub fn feed(&mut self, body: &[u8], on_line: &mut impl FnMut(&[u8])) -> Result<(), EventError> {
        let mut rest = body;
        while let Some(end) = memchr(b'\n', rest) {
            match self.partial.take() {
                None => on_line(without_cr(&rest[..end])),
                Some(mut line) => {
                    line.extend_from_slice(&rest[..end]);
                    on_line(without_cr(&line));
                }
            }
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            let line = self.partial.get_or_insert_default();
            line.extend_from_slice(rest);
            if line.len() > EVENT_BYTES_MAX {
                return Err(EventError::TooLong);
            }
        }
        Ok(())
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The event that a line of NDJSON is; an empty line is none.
pub(super) fn ndjson_event(line: &[u8]) -> Option<Event<'_>> {
    let data = line.trim_ascii();
    (!data.is_empty()).then_some(Event { id: None, name: b"", data })
}

/// The event that a line of a poll's answer is: an array of one event a line.
pub(super) fn poll_event(line: &[u8]) -> Option<Event<'_>> {
    let data = line.strip_prefix(b"[").unwrap_or(line);
    let data = data.strip_suffix(b",").or_else(|| data.strip_suffix(b"]")).unwrap_or(data);
    ndjson_event(data)
}

/// The event that a line of the comet page is: what stands between its quotes, HTML-escaped as it
/// came. The greeting and comments are none.
pub(super) fn classic_event(line: &[u8]) -> Option<Event<'_>> {
    let rest = line.strip_prefix(b"Recvd msg #")?;
    let quote = memchr(b'\'', rest)?;
    let data = rest[quote + 1..].strip_suffix(b"'<br/>")?;
    Some(Event { id: None, name: b"", data })
}
