//! What a stream says of the place where it stands, beside its events: that something was missed,
//! and up to where all is heard.
//!
//! A client that comes back gives the id of the last event that it has heard (`Last-Event-ID`,
//! WHATWG HTML, section 9.2.4). An SSE stream also tells it an id while there is no event yet, with
//! a block that has an `id` line and no data: a reader takes note of the id and hears nothing
//! (section 9.2.6, at the blank line).

use crate::{Framing, Transport, chunked, websocket};

/// Appends the notice that events were missed which nobody remembers. The classic page has no word
/// for it, and a poll says it in its answer's head.
pub fn push_gap(out: &mut Vec<u8>, transport: Transport, framing: Framing) {
    match transport {
        Transport::Sse => push(out, framing, b"event: gap\ndata: {}\n\n"),
        Transport::Ndjson => push(out, framing, b"{\"gap\":true}\n"),
        Transport::WebSocket => websocket::push_text(out, "{\"gap\":true}"),
        // A poll's answer says it in its head.
        Transport::Classic | Transport::Poll => {}
    }
}

/// Appends the notice that everything up to the event `id` is heard, where the transport has one.
pub fn push_cursor(out: &mut Vec<u8>, transport: Transport, framing: Framing, id: &str) {
    match transport {
        Transport::Sse => push(out, framing, format!("id: {id}\n\n").as_bytes()),
        // A WebSocket's client asks with a ping, a poll's answer has it in its head.
        Transport::Ndjson | Transport::WebSocket | Transport::Classic | Transport::Poll => {}
    }
}

fn push(out: &mut Vec<u8>, framing: Framing, body: &[u8]) {
    match framing {
        Framing::Chunked => chunked::push(out, body),
        Framing::Close => out.extend_from_slice(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eventsource_stream::EventStream;
    use futures::StreamExt;
    use std::convert::Infallible;

    #[test]
    fn outside_reader_hears_a_gap_and_no_cursor() {
        let mut wire = Vec::new();
        push_cursor(&mut wire, Transport::Sse, Framing::Close, "0000000000000001");
        push_gap(&mut wire, Transport::Sse, Framing::Close);
        push_cursor(&mut wire, Transport::Sse, Framing::Close, "0000000000000002");
        wire.extend_from_slice(crate::sse::event("0000000000000003", "{}").body());
        let pieces = futures::stream::iter(wire.chunks(7).map(Ok::<_, Infallible>));
        let events = EventStream::new(pieces).map(|event| event.unwrap());
        let heard: Vec<_> = futures::executor::block_on(events.collect());
        let heard: Vec<_> = heard.iter().map(|e| (&*e.event, &*e.id, &*e.data)).collect();
        assert_eq!(
            heard,
            [("gap", "0000000000000001", "{}"), ("message", "0000000000000003", "{}")]
        );
    }

    #[test]
    fn notices_are_chunks_of_their_own() {
        let mut wire = Vec::new();
        push_gap(&mut wire, Transport::Ndjson, Framing::Chunked);
        push_gap(&mut wire, Transport::Classic, Framing::Chunked);
        assert_eq!(wire, b"d\r\n{\"gap\":true}\n\r\n");
    }
}
