//! Server-Sent Events, reading side (WHATWG HTML, section 9.2.6).
//!
//! An event that stands whole in the caller's buffer, with one `data` line, is handed on in place:
//! nothing is copied or kept. Most events are handed on in place. One that is split over reads, or
//! that has several `data` lines, is put together in a buffer, which is given back as soon as the
//! event is out.
//!
//! Two things are left to the caller: the `retry` field, and the last event id as a state of the
//! stream. An event here has an id only where it has an `id` line of its own.

use memchr::memchr2;

use crate::{Event, EventError};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where a reader stands in one event stream.
#[derive(Debug, Default)]
pub struct SseDecoder {
    /// The event that has begun and is not whole in one piece of body.
    partial: Option<Box<Partial>>,
    /// The last byte was the CR of a line end, so an LF that comes first is the rest of it.
    after_cr: bool,
    /// The stream's very first line, which may open with a byte order mark, lies behind.
    past_start: bool,
}

#[derive(Debug, Default)]
struct Partial {
    /// The line that is not ended yet.
    line: Vec<u8>,
    id: Option<Vec<u8>>,
    name: Vec<u8>,
    /// The `data` lines so far, each with LF behind it.
    data: Vec<u8>,
}

impl SseDecoder {
    /// Reads the next piece of the body and hands each event that ends in it to `on_event`.
    ///
    /// # Errors
    /// An event is longer than [`EVENT_BYTES_MAX`](crate::EVENT_BYTES_MAX).
    pub fn feed(
        &mut self,
        body: &[u8],
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<(), EventError> {
        let mut rest = body;
        while !rest.is_empty() {
            if std::mem::take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let len = match &self.partial {
                // A keep-alive: nothing is to be kept of it while the stream is silent.
                None if rest[0] == b':' && memchr2(b'\r', b'\n', rest).is_some() => {
                    self.past_start = true;
                    memchr2(b'\r', b'\n', rest).map(|end| end + 1)
                }
                None if self.past_start || rest[0] != BYTE_ORDER_MARK[0] => {
                    self.past_start = true;
                    whole_event(rest, on_event)
                }
                _ => None,
            };
            let len = match len {
                Some(len) => len,
                None => self.feed_partial(rest, on_event)?,
            };
            self.after_cr = rest[len - 1] == b'\r';
            rest = &rest[len..];
        }
        Ok(())
    }

    /// Takes `rest` up to the end of a line, or all of it, into the partial event. Returns how many
    /// bytes that were, at least one.
    fn feed_partial(
        &mut self,
        rest: &[u8],
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<usize, EventError> {
        let partial = self.partial.get_or_insert_default();
        let end = memchr2(b'\r', b'\n', rest);
        partial.line.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
        if partial.line.len() + partial.data.len() > crate::EVENT_BYTES_MAX {
            return Err(EventError::TooLong);
        }
        let Some(end) = end else {
            return Ok(rest.len());
        };
        let mut line = &partial.line[..];
        if !std::mem::replace(&mut self.past_start, true) {
            line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
        }
        if line.is_empty() {
            partial.dispatch(on_event);
            self.partial = None;
            return Ok(end + 1);
        }
        match field(line) {
            Field::Data(value) => {
                partial.data.extend_from_slice(value);
                partial.data.push(b'\n');
            }
            Field::Id(value) => partial.id = Some(value.to_vec()),
            Field::Name(value) => partial.name = value.to_vec(),
            Field::Other => {}
        }
        partial.line.clear();
        Ok(end + 1)
    }
}

impl Partial {
    fn dispatch(&self, on_event: &mut impl FnMut(Event<'_>)) {
        let data = self.data.split_last().map(|(_last_line_feed, data)| data);
        dispatch(self.id.as_deref(), &self.name, data, on_event);
    }
}

/// Hands on the event that `rest` starts with and returns its length with the blank line; `None`
/// when it does not end in `rest` or has several `data` lines.
fn whole_event(rest: &[u8], on_event: &mut impl FnMut(Event<'_>)) -> Option<usize> {
    let (mut id, mut name, mut data) = (None, &b""[..], None);
    let mut at = 0;
    loop {
        let end = at + memchr2(b'\r', b'\n', &rest[at..])?;
        let line = &rest[at..end];
        at = end + 1;
        if rest[end] == b'\r' && rest.get(at) == Some(&b'\n') {
            at += 1;
        }
        if line.is_empty() {
            break;
        }
        match field(line) {
            Field::Data(_) if data.is_some() => return None,
            Field::Data(value) => data = Some(value),
            Field::Id(value) => id = Some(value),
            Field::Name(value) => name = value,
            Field::Other => {}
        }
    }
    dispatch(id, name, data, on_event);
    Some(at)
}

/// Hands on an event, or what a block without data says of the stream: the id from which it can be
/// resumed. Such a block is no event to the standard (the blank line, first step), which still
/// takes note of its id.
fn dispatch(
    id: Option<&[u8]>,
    name: &[u8],
    data: Option<&[u8]>,
    on_event: &mut impl FnMut(Event<'_>),
) {
    match (data, id) {
        (Some(data), _) => on_event(Event { id, name, data }),
        (None, Some(_)) => on_event(Event { id, name: b"", data: b"" }),
        (None, None) => {}
    }
}

enum Field<'b> {
    Data(&'b [u8]),
    Id(&'b [u8]),
    Name(&'b [u8]),
    /// A comment, `retry`, or a field that the standard tells clients to ignore.
    Other,
}

fn field(line: &[u8]) -> Field<'_> {
    let (name, value) = match memchr::memchr(b':', line) {
        Some(colon) => (&line[..colon], &line[colon + 1..]),
        None => (line, &b""[..]),
    };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    match name {
        b"data" => Field::Data(value),
        b"id" if !value.contains(&0) => Field::Id(value),
        b"event" => Field::Name(value),
        _ => Field::Other,
    }
}
