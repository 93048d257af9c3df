//! What each format looks like: events, signs of life, gaps, where a stream begins. One `match` for
//! each, so that a further format is a row of each table.
//!
//! How the bytes travel is the [`Carrier`]'s.

use crate::place_style::PlaceStyle;
use crate::resume::FirstMessage;
use crate::{Carrier, Format, Frame, chunked, classic, ndjson, poll, resume, sse, websocket};

impl Format {
    /// An event: its `id`, its whole `json` line, and the payload `data` in that. Of
    /// [`Format::Pusher`] and [`Format::Mercure`] `json` is the text that the event is there, which
    /// is not made here.
    pub fn event(self, id: &str, json: &str, data: &str) -> Frame {
        match self {
            Format::Sse => sse::event(id, json),
            Format::Ndjson => ndjson::event(json),
            Format::Classic => classic::message(data),
            Format::Text | Format::Pusher => websocket::event(json),
            Format::Poll => poll::event(json),
            Format::Mercure => Frame::chunk(&[json.as_bytes()]),
        }
    }

    /// What a silent stream sends so that everybody on the way knows that it is alive: bytes that
    /// a client must ignore, or answer as a WebSocket's ping. A poll has none: its answer is the
    /// sign.
    pub const fn keep_alive(self, carrier: Carrier) -> &'static [u8] {
        match (self, carrier) {
            (Format::Sse | Format::Mercure, Carrier::Close) => sse::KEEP_ALIVE,
            (Format::Sse | Format::Mercure, Carrier::Chunked) => sse::KEEP_ALIVE_CHUNK,
            (Format::Ndjson, Carrier::Close) => ndjson::KEEP_ALIVE,
            (Format::Ndjson, Carrier::Chunked) => ndjson::KEEP_ALIVE_CHUNK,
            (Format::Classic, Carrier::Close) => classic::KEEP_ALIVE,
            (Format::Classic, Carrier::Chunked) => classic::KEEP_ALIVE_CHUNK,
            (Format::Poll, _) => b"",
            (Format::Pusher, _) => PUSHER_KEEP_ALIVE,
            (Format::Text, _) | (_, Carrier::WebSocket) => websocket::KEEP_ALIVE,
        }
    }

    /// Appends the notice that events were missed which nobody remembers; `next` is where the
    /// stream stands behind it, if that is known, which only SSE has a field for. The classic page
    /// has no word for a gap, nor has the Pusher protocol, and a poll says it in its answer's head.
    pub fn push_gap(self, out: &mut Vec<u8>, carrier: Carrier, next: Option<&str>) {
        debug_assert!(next.is_none_or(resume::is_plain));
        match (self, next) {
            (Format::Sse, None) => push(out, carrier, "event: gap\ndata: {}\n\n"),
            (Format::Sse, Some(id)) => {
                push(out, carrier, &format!("event: gap\nid: {id}\ndata: {{}}\n\n"));
            }
            (Format::Mercure, None) => push(out, carrier, "event: gap\ndata: {}\n\n"),
            // Encke's own ids begin so there.
            (Format::Mercure, Some(id)) => {
                push(out, carrier, &format!("event: gap\nid: #{id}\ndata: {{}}\n\n"));
            }
            (Format::Ndjson, _) => push(out, carrier, "{\"gap\":true}\n"),
            (Format::Text, _) => push(out, carrier, "{\"gap\":true}"),
            (Format::Classic | Format::Poll | Format::Pusher, _) => {}
        }
    }

    /// Appends a message that is no event: `json`, one JSON text on one line. In SSE it is data
    /// without an id, so that a client's place stays where it is. The classic page and polls have
    /// no word for it.
    pub fn push_message(self, out: &mut Vec<u8>, carrier: Carrier, json: &str) {
        debug_assert!(!json.is_empty() && !json.contains(['\r', '\n']));
        match self {
            Format::Sse | Format::Mercure => {
                push(out, carrier, &["data: ", json, "\n\n"].concat());
            }
            Format::Ndjson => push(out, carrier, &[json, "\n"].concat()),
            Format::Text | Format::Pusher => push(out, carrier, json),
            Format::Classic | Format::Poll => {}
        }
    }

    /// Appends where a stream begins, `told` as its client can read it, and how long to wait before
    /// coming back. A message also says what the connection is called.
    pub fn push_begin(
        self,
        out: &mut Vec<u8>,
        carrier: Carrier,
        told: PlaceStyle,
        first: FirstMessage<'_>,
    ) {
        let FirstMessage { connection, next: id, retry_ms } = first;
        debug_assert!(resume::is_plain(id) && resume::is_plain(connection));
        let message = || {
            format!("{{\"next\":\"{id}\",\"connection\":\"{connection}\",\"retry\":{retry_ms}}}")
        };
        let text = match (self, told) {
            (Format::Sse, PlaceStyle::InLine) => format!("id: {id}\nretry: {retry_ms}\n"),
            (Format::Sse, PlaceStyle::InBlock) => format!("id: {id}\nretry: {retry_ms}\n\n"),
            (Format::Sse, PlaceStyle::InMessage) => {
                format!("event: next\nid: {id}\nretry: {retry_ms}\ndata: {}\n\n", message())
            }
            (Format::Ndjson, PlaceStyle::InMessage) => message() + "\n",
            (Format::Text, PlaceStyle::InMessage) => message(),
            (Format::Sse | Format::Ndjson | Format::Text, _) => return,
            (Format::Classic | Format::Poll | Format::Pusher | Format::Mercure, _) => return,
        };
        push(out, carrier, &text);
    }

    /// Appends the notice that everything up to the event `id` is heard, where the format has one:
    /// a block of an id alone, which an `EventSource` keeps and no page hears.
    pub fn push_cursor(self, out: &mut Vec<u8>, carrier: Carrier, id: &str) {
        debug_assert!(resume::is_plain(id));
        match self {
            Format::Sse => push(out, carrier, &format!("id: {id}\n\n")),
            Format::Mercure => push(out, carrier, &format!("id: #{id}\n\n")),
            _ => {}
        }
    }
}

/// A message `pusher:pong`, which a client of that protocol takes for life: pings of WebSockets its
/// page does not see.
const PUSHER_KEEP_ALIVE: &[u8] = b"\x81\x23{\"event\":\"pusher:pong\",\"data\":\"{}\"}";

/// Appends `piece`, which must not be empty, as it travels; of a WebSocket it is a message.
fn push(out: &mut Vec<u8>, carrier: Carrier, piece: &str) {
    match carrier {
        Carrier::Chunked => chunked::push(out, piece.as_bytes()),
        Carrier::Close => out.extend_from_slice(piece.as_bytes()),
        Carrier::WebSocket => websocket::push_text(out, piece),
    }
}

#[cfg(test)]
mod tests;
