//! The classic comet page, writing side: HTML that never ends, one line per event.
//!
//! Every connection numbers its own messages, so a message is two slices for one `writev`. One is a
//! [`Prefix`] made on the stack for each delivery, the other the [`message`] tail that all share.

use crate::chunked::SIZE_LINE_MAX;
use crate::decimal::{DIGITS_MAX, decimal};
use crate::{Carrier, Frame, chunked, json};

/// A comment between two lines of the page.
pub(crate) const KEEP_ALIVE: &[u8] = b"<!-- -->\n";
pub(crate) const KEEP_ALIVE_CHUNK: &[u8] = b"9\r\n<!-- -->\n\r\n";

const BEFORE_NUMBER: &[u8] = b"Recvd msg #";
const AFTER_NUMBER: &[u8] = b": '";
const AFTER_TEXT: &[u8] = b"'<br/>\n";

const PREFIX_MAX: usize = SIZE_LINE_MAX + BEFORE_NUMBER.len() + DIGITS_MAX + AFTER_NUMBER.len();

/// Appends the first chunk of a page: the greeting to `id`.
pub fn welcome(id: &str, carrier: Carrier, out: &mut Vec<u8>) {
    let mut line = String::with_capacity(32 + id.len());
    line.push_str("Welcome, id ");
    id.chars().for_each(|c| push_escaped(&mut line, c));
    line.push_str("<br/>\n");
    match carrier {
        Carrier::Chunked => chunked::push(out, line.as_bytes()),
        Carrier::Close | Carrier::WebSocket => out.extend_from_slice(line.as_bytes()),
    }
}

/// The part of a message that all connections share: the payload's text as HTML, and what closes
/// the line. A [`Prefix`] goes before it.
///
/// The text of a JSON string is its value; every other payload's text is its JSON.
pub fn message(data: &str) -> Frame {
    let mut text = String::with_capacity(data.len() + data.len() / 8);
    match json::string_chars(data) {
        Some(chars) => chars.for_each(|c| push_escaped(&mut text, c)),
        None => data.chars().for_each(|c| push_escaped(&mut text, c)),
    }
    Frame::chunk_tail(&[text.as_bytes(), AFTER_TEXT])
}

/// A line that is no event and has no number: `json`, one JSON text, as HTML.
pub(crate) fn said(json: &str) -> String {
    let mut line = String::with_capacity(16 + json.len() + json.len() / 2);
    line.push_str("Said: '");
    json.chars().for_each(|c| push_escaped(&mut line, c));
    line.push_str("'<br/>\n");
    line
}

/// Appends `c` such that HTML shows it as a character of a text, and such that a line of the page
/// stays one line and a quote in it stays inside the quotes.
fn push_escaped(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        '\n' => out.push_str("&#10;"),
        '\r' => out.push_str("&#13;"),
        '\t' => out.push(c),
        // HTML has no way at all to write the other control characters (section 13.2.3.5).
        _ if c.is_control() => out.push(char::REPLACEMENT_CHARACTER),
        _ => out.push(c),
    }
}

/// The start of one connection's message, up to the opening quote, with the size line of the chunk
/// it opens. It lives on the stack: a delivery allocates nothing.
pub struct Prefix {
    bytes: [u8; PREFIX_MAX],
    len: usize,
}

impl Prefix {
    /// The prefix of the connection's message `number` (the first is 1) whose rest is `tail`.
    pub fn new(number: u64, tail: &Frame, carrier: Carrier) -> Prefix {
        let mut digits = [0; DIGITS_MAX];
        let digits = decimal(number, &mut digits);
        let mut prefix = Prefix { bytes: [0; PREFIX_MAX], len: 0 };
        if carrier == Carrier::Chunked {
            let start_len = BEFORE_NUMBER.len() + digits.len() + AFTER_NUMBER.len();
            prefix.push(chunked::SizeLine::new(start_len + tail.body().len()).as_bytes());
        }
        prefix.push(BEFORE_NUMBER);
        prefix.push(digits);
        prefix.push(AFTER_NUMBER);
        prefix
    }

    /// The bytes to write before the tail's.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, part: &[u8]) {
        let end = self.len + part.len();
        debug_assert!(end <= PREFIX_MAX);
        self.bytes[self.len..end].copy_from_slice(part);
        self.len = end;
    }
}

#[cfg(test)]
mod tests;
