//! Server-sent events of a live read (WHATWG HTML, section 9.2).

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Offset;
use crate::json::array;
use crate::state::{is_json, same_type};

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
    let mut rest = data;
    loop {
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let line = &rest[..end.unwrap_or(rest.len())];
        out.extend(b"data:");
        // Readers drop one space behind the colon, so a line that begins with one has two.
        if line.first() == Some(&b' ') {
            out.push(b' ');
        }
        out.extend_from_slice(line);
        out.push(b'\n');
        let Some(end) = end else { return };
        let is_pair = rest[end..].starts_with(b"\r\n");
        rest = &rest[end + if is_pair { 2 } else { 1 }..];
    }
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
}
