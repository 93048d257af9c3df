//! Server-Sent Events (WHATWG HTML, section 9.2), writing side.
//!
//! Each event has an `id` line, so that a browser that reconnects says which it heard last, and
//! exactly one `data` line, since an event's JSON is one line.

use crate::{Carrier, Frame};

/// A comment, without a blank line behind it: at a blank line several readers hand an empty event
/// to their application, whether or not anything stands before it (docs/decisions/0033).
pub(crate) const KEEP_ALIVE: &[u8] = b":\n";
pub(crate) const KEEP_ALIVE_CHUNK: &[u8] = b"2\r\n:\n\r\n";

/// The event `id` whose JSON is `json`. Neither may hold a line break, which would tear the event
/// in two; the hub makes both such that they do not.
pub fn event(id: &str, json: &str) -> Frame {
    Frame::chunk(&parts(id, json))
}

/// Appends the bytes of that event to `out`, for whoever is the only one to send them.
pub fn push_event(id: &str, json: &str, carrier: Carrier, out: &mut Vec<u8>) {
    Frame::push_chunk(&parts(id, json), carrier, out);
}

fn parts<'e>(id: &'e str, json: &'e str) -> [&'e [u8]; 5] {
    [b"id: ", id.as_bytes(), b"\ndata: ", json.as_bytes(), b"\n\n"]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, testing};
    use eventsource_stream::{Event, EventStream};
    use futures::StreamExt;
    use std::convert::Infallible;

    /// What an outside reader of SSE hears, however the bytes are cut.
    fn heard(wire: &[u8], piece_len: usize) -> Vec<Event> {
        let pieces = futures::stream::iter(wire.chunks(piece_len).map(Ok::<_, Infallible>));
        let events = EventStream::new(pieces).map(|event| event.unwrap());
        futures::executor::block_on(events.collect())
    }

    #[test]
    fn event_is_an_id_line_and_a_data_line() {
        let frame = event("01", r#"{"data":1}"#);
        assert_eq!(frame.for_carrier(Carrier::Close), b"id: 01\ndata: {\"data\":1}\n\n");
        assert_eq!(
            frame.for_carrier(Carrier::Chunked),
            b"19\r\nid: 01\ndata: {\"data\":1}\n\n\r\n"
        );
    }

    #[test]
    fn event_for_one_has_the_bytes_of_the_event_for_many() {
        for carrier in [Carrier::Chunked, Carrier::Close] {
            let mut bytes = b"before".to_vec();
            push_event("01", r#"{"data":1}"#, carrier, &mut bytes);
            let frame = event("01", r#"{"data":1}"#);
            assert_eq!(bytes, [b"before", frame.for_carrier(carrier)].concat());
        }
    }

    #[test]
    fn outside_reader_hears_each_event_and_no_keep_alive() {
        testing::seeded(200, |rng| {
            let mut wire = Vec::new();
            let mut sent = Vec::new();
            for number in 0..rng.u64(1..8) {
                let id = format!("{number:016x}");
                let json = serde_json::to_string(&testing::text(rng, 40)).unwrap();
                wire.extend_from_slice(Format::Sse.keep_alive(Carrier::Close));
                wire.extend_from_slice(event(&id, &json).body());
                sent.push((id, json));
            }
            let heard = heard(&wire, rng.usize(1..20));
            let heard: Vec<_> = heard.into_iter().map(|event| (event.id, event.data)).collect();
            assert_eq!(heard, sent);
        });
    }
}
