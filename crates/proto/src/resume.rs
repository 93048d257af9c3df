//! What a stream says of the place where it stands, beside its events: where it begins, that
//! something was missed, and up to where all is heard.
//!
//! A client that comes back gives the id of the last event that it has heard (`Last-Event-ID`,
//! WHATWG HTML, section 9.2.4). Where it has heard none it needs to know where its stream began.
//! Every answer's head says that ([`Begins`]). Who cannot read the head is told in the stream
//! ([`Told`]), as far as that makes an event of it for nobody: docs/decisions/0033.

use crate::cors::Cors;
pub use crate::told::Told;
use crate::{Framing, Transport, append, chunked, response, websocket};

/// Where a stream begins, as its head says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begins<'i> {
    /// The id from which a client goes on that has heard nothing more.
    pub next: &'i str,
    /// Whether events were missed up to there; the stream says it, too.
    pub gap: bool,
}

/// Ends the head of a stream, which says where it begins.
pub fn end_head(out: &mut Vec<u8>, begins: Option<Begins<'_>>, cors: Option<Cors<'_>>) {
    if let Some(Begins { next, gap }) = begins {
        debug_assert!(is_plain(next));
        append::push(out, &["Encke-Next: ", next, "\r\n"]);
        if gap {
            append::push(out, &["Encke-Gap: true\r\n"]);
        }
        if cors.is_some() {
            append::push(out, &[response::CORS_EXPOSED]);
        }
    }
    append::push(out, &["\r\n"]);
}

/// Appends the notice that events were missed which nobody remembers; `next` is where the stream
/// stands behind it, if that is known, which only SSE has a field for. The classic page has no word
/// for a gap, and a poll says it in its answer's head.
pub fn push_gap(out: &mut Vec<u8>, transport: Transport, framing: Framing, next: Option<&str>) {
    debug_assert!(next.is_none_or(is_plain));
    match (transport, next) {
        (Transport::Sse, None) => push(out, framing, b"event: gap\ndata: {}\n\n"),
        (Transport::Sse, Some(id)) => {
            push(out, framing, format!("event: gap\nid: {id}\ndata: {{}}\n\n").as_bytes());
        }
        (Transport::Ndjson, _) => push(out, framing, b"{\"gap\":true}\n"),
        (Transport::WebSocket, _) => websocket::push_text(out, "{\"gap\":true}"),
        // A poll's answer says it in its head.
        (Transport::Classic | Transport::Poll, _) => {}
    }
}

/// Appends where a stream begins, `told` as its client can read it. An SSE client is told, too, how
/// long to wait before it comes back.
pub fn push_begin(
    out: &mut Vec<u8>,
    transport: Transport,
    framing: Framing,
    told: Told,
    id: &str,
    retry_ms: u32,
) {
    debug_assert!(is_plain(id));
    match (told, transport) {
        (Told::InLine, Transport::Sse) => {
            push(out, framing, format!("id: {id}\nretry: {retry_ms}\n").as_bytes());
        }
        (Told::InBlock, Transport::Sse) => {
            push(out, framing, format!("id: {id}\nretry: {retry_ms}\n\n").as_bytes());
        }
        (Told::InMessage, Transport::Sse) => {
            let block = format!(
                "event: next\nid: {id}\nretry: {retry_ms}\ndata: {{\"next\":\"{id}\"}}\n\n"
            );
            push(out, framing, block.as_bytes());
        }
        (Told::InMessage, Transport::Ndjson) => {
            push(out, framing, format!("{{\"next\":\"{id}\"}}\n").as_bytes());
        }
        (Told::InMessage, Transport::WebSocket) => {
            websocket::push_text(out, &format!("{{\"next\":\"{id}\"}}"));
        }
        _ => {}
    }
}

/// Appends the notice that everything up to the event `id` is heard, for an `EventSource`.
pub fn push_cursor(out: &mut Vec<u8>, framing: Framing, id: &str) {
    debug_assert!(is_plain(id));
    push(out, framing, format!("id: {id}\n\n").as_bytes());
}

/// Whether an event's id stands in a head, in a line and in JSON as it is.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
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

    const IDS: [&str; 3] = ["0000000000000001", "0000000000000002", "0000000000000003"];

    /// A stream that begins as `told`, with a keep-alive, a gap and an event.
    fn wire(told: Told) -> Vec<u8> {
        let (sse, close) = (Transport::Sse, Framing::Close);
        let mut wire = Vec::new();
        push_begin(&mut wire, sse, close, told, IDS[0], 1234);
        wire.extend_from_slice(sse.keep_alive(close));
        push_gap(&mut wire, sse, close, Some(IDS[1]));
        wire.extend_from_slice(crate::sse::event(IDS[2], "{}").body());
        wire
    }

    #[test]
    fn outside_reader_hears_the_beginning_only_when_it_asks_for_it() {
        for told in [Told::InHead, Told::InLine, Told::InBlock, Told::InMessage] {
            let wire = wire(told);
            let pieces = futures::stream::iter(wire.chunks(7).map(Ok::<_, Infallible>));
            let events = EventStream::new(pieces).map(|event| event.unwrap());
            let heard: Vec<_> = futures::executor::block_on(events.collect());
            let heard: Vec<_> = heard.iter().map(|e| (&*e.event, &*e.id, &*e.data)).collect();
            let first = ("next", IDS[0], r#"{"next":"0000000000000001"}"#);
            let others = [("gap", IDS[1], "{}"), ("message", IDS[2], "{}")];
            let asked = (told == Told::InMessage).then_some(first);
            assert_eq!(heard, asked.into_iter().chain(others).collect::<Vec<_>>(), "{told:?}");
        }
    }

    /// A reader that makes an event of each blank line, as many do.
    #[test]
    fn only_an_event_source_gets_a_block_without_data() {
        for told in [Told::InHead, Told::InLine, Told::InMessage] {
            let wire = String::from_utf8(wire(told)).unwrap();
            for block in wire.strip_suffix("\n\n").unwrap().split("\n\n") {
                assert!(block.contains("data: "), "{told:?}: {block:?}");
            }
        }
        let block = String::from_utf8(wire(Told::InBlock)).unwrap();
        assert!(block.starts_with("id: 0000000000000001\nretry: 1234\n\n:\nevent: gap\n"));
    }

    #[test]
    fn beginning_is_a_message_where_one_asks() {
        let begin = |transport, told| {
            let mut wire = Vec::new();
            push_begin(&mut wire, transport, Framing::Close, told, IDS[0], 1234);
            wire
        };
        let text = "{\"next\":\"0000000000000001\"}";
        assert_eq!(begin(Transport::Ndjson, Told::InMessage), format!("{text}\n").as_bytes());
        assert_eq!(begin(Transport::WebSocket, Told::InMessage)[2..], *text.as_bytes());
        for transport in [Transport::Ndjson, Transport::WebSocket, Transport::Classic] {
            for told in [Told::InHead, Told::InLine, Told::InBlock] {
                assert_eq!(begin(transport, told), b"", "{transport:?} {told:?}");
            }
        }
    }

    #[test]
    fn head_says_where_the_stream_begins_and_pages_may_read_it() {
        let ended = |begins, cors| {
            let mut head = Vec::new();
            end_head(&mut head, begins, cors);
            String::from_utf8(head).unwrap()
        };
        assert_eq!(ended(None, Some(Cors::ANY)), "\r\n");
        let begins = |gap| Some(Begins { next: IDS[0], gap });
        assert_eq!(ended(begins(false), None), "Encke-Next: 0000000000000001\r\n\r\n");
        assert_eq!(
            ended(begins(true), Some(Cors::ANY)),
            "Encke-Next: 0000000000000001\r\nEncke-Gap: true\r\n\
             Access-Control-Expose-Headers: Encke-Next, Encke-Gap\r\n\r\n"
        );
    }

    #[test]
    fn notices_are_chunks_of_their_own() {
        let mut wire = Vec::new();
        push_gap(&mut wire, Transport::Ndjson, Framing::Chunked, None);
        push_gap(&mut wire, Transport::Classic, Framing::Chunked, Some(IDS[0]));
        assert_eq!(wire, b"d\r\n{\"gap\":true}\n\r\n");
    }
}
