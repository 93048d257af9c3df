//! Server-sent events of a live read (WHATWG HTML, section 9.2).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Offset;
use crate::json::array;
use crate::state::{is_json, same_type};

/// Bytes of the events of a piece beside its data, at most: their names, the offsets, and where the
/// reader is.
const REST_BYTES: usize = 192;

/// What tells a reader nothing (section 9.2.6 there).
pub const COMMENT: &[u8] = b":\n\n";

/// How the bytes of a stream stand in events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// As they are, a line of the event for each of theirs.
    Text,
    /// As an array of JSON.
    Json,
    /// In base64.
    Base64,
}

impl Encoding {
    /// The encoding of a stream of this type.
    pub fn of(content_type: &str) -> Encoding {
        let is_text = content_type.trim_start().get(..5);
        if is_json(content_type) {
            Encoding::Json
        } else if is_text.is_some_and(|start| same_type(start, "text/")) {
            Encoding::Text
        } else {
            Encoding::Base64
        }
    }

    /// How many bytes the events of a piece with this data have at most.
    pub fn bytes_max(self, data: &[u8]) -> usize {
        let bytes = match self {
            Encoding::Text => lines_bytes(data),
            Encoding::Json => lines_bytes(data) + "[]".len(),
            Encoding::Base64 => "data:\n".len() + 4 * data.len().div_ceil(3),
        };
        REST_BYTES + bytes
    }

    /// Appends the event of `data`, which ends at `next`.
    pub fn push_data(self, out: &mut Vec<u8>, next: Offset, data: &[u8]) {
        out.extend(b"event: data\n");
        match self {
            Encoding::Text => push_lines(out, data),
            Encoding::Json => push_lines(out, &array(data)),
            Encoding::Base64 => push_lines(out, STANDARD.encode(data).as_bytes()),
        }
        out.extend(format!("id: {next}\n\n").into_bytes());
    }
}

/// Appends `data:` lines; each line end of the text, of whatever form, begins a new one, so that no
/// payload forges a field.
fn push_lines(out: &mut Vec<u8>, data: &[u8]) {
    for line in lines(data) {
        out.extend(b"data:");
        // Readers drop one space behind the colon, so a line that begins with one has two.
        if line.first() == Some(&b' ') {
            out.push(b' ');
        }
        out.extend_from_slice(line);
        out.push(b'\n');
    }
}

/// Bytes of the `data:` lines of a text at most.
fn lines_bytes(data: &[u8]) -> usize {
    lines(data).map(|line| "data: \n".len() + line.len()).sum()
}

/// The lines of a text; one that has no end, too.
fn lines(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        rest = end.map(|end| {
            let is_pair = text[end..].starts_with(b"\r\n");
            &text[end + if is_pair { 2 } else { 1 }..]
        });
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// Appends the event that says where the reader is.
pub fn push_control(out: &mut Vec<u8>, next: Offset, cursor: u64, up_to_date: bool) {
    let mut text = format!("event: control\ndata:{{\"streamNextOffset\":\"{next}\"");
    let _ = write!(text, ",\"streamCursor\":\"{cursor}\"");
    if up_to_date {
        text.push_str(",\"upToDate\":true");
    }
    text.push_str("}\n\n");
    out.extend(text.into_bytes());
}

/// Appends the event that says that the stream ends here.
pub fn push_end(out: &mut Vec<u8>, next: Offset) {
    let data = format!("{{\"streamNextOffset\":\"{next}\",\"streamClosed\":true}}");
    out.extend(format!("event: control\ndata:{data}\n\n").into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Offset = Offset { id: 1, position: 2 };

    fn data(content_type: &str, data: &[u8]) -> String {
        let mut out = Vec::new();
        Encoding::of(content_type).push_data(&mut out, NEXT, data);
        String::from_utf8(out).unwrap().replace(&format!("id: {NEXT}\n\n"), "")
    }

    #[test]
    fn payloads_forge_no_events() {
        assert_eq!(
            data("text/plain", b"a\r\nevent: control\ndata: x"),
            "event: data\ndata:a\ndata:event: control\ndata:data: x\n"
        );
        assert_eq!(data("text/plain", b"a\r\rb\n"), "event: data\ndata:a\ndata:\ndata:b\ndata:\n");
        assert_eq!(data("TEXT/html; charset=utf-8", b" a"), "event: data\ndata:  a\n");
        assert_eq!(
            data("application/octet-stream", &[1, 2, 3, 4, 5, 6, 7, 8]),
            "event: data\ndata:AQIDBAUGBwg=\n"
        );
        assert_eq!(data("application/json", b"1,\n2"), "event: data\ndata:[1,\ndata:2]\n");
    }

    #[test]
    fn events_have_no_more_bytes_than_are_counted_before_they_are_made() {
        let (lines, spaces) = (b"\n".repeat(1_000), b" \r\n".repeat(1_000));
        for text in [&*lines, &spaces, b"", b"1", b"12", b"123", &[b'x'; 1_000]] {
            for encoding in [Encoding::Text, Encoding::Json, Encoding::Base64] {
                let (mut out, next) = (Vec::new(), Offset { id: (1 << 44) - 1, position: 1 << 51 });
                encoding.push_data(&mut out, next, text);
                push_control(&mut out, next, u64::MAX, true);
                let most = encoding.bytes_max(text);
                assert!(out.len() <= most, "{encoding:?} of {}", text.len());
                // And few less, or a client would be refused for what it does not hold.
                assert!(most <= out.len() + REST_BYTES + text.len(), "{encoding:?}");
            }
        }
    }
}
