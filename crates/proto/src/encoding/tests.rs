//! What a stream says, as outside readers hear it.

use std::convert::Infallible;

use eventsource_stream::EventStream;
use futures::StreamExt;

use super::*;
use crate::chunked;

const MESSAGE: &str = r#"{"next":"0000000000000001","connection":"00000000000000ab","retry":1234}"#;

const IDS: [&str; 3] = ["0000000000000001", "0000000000000002", "0000000000000003"];

fn first() -> FirstMessage<'static> {
    FirstMessage { connection: "00000000000000ab", next: IDS[0], retry_ms: 1234 }
}

/// A stream that begins as `told`, with a keep-alive, a gap and an event.
fn wire(told: PlaceStyle) -> Vec<u8> {
    let (sse, close) = (Format::Sse, Carrier::Close);
    let mut wire = Vec::new();
    sse.push_begin(&mut wire, close, told, first());
    wire.extend_from_slice(sse.keep_alive(close));
    sse.push_gap(&mut wire, close, Some(IDS[1]));
    wire.extend_from_slice(sse::event(IDS[2], "{}").body());
    wire
}

#[test]
fn outside_reader_hears_the_beginning_only_when_it_asks_for_it() {
    for told in [PlaceStyle::InHead, PlaceStyle::InLine, PlaceStyle::InBlock, PlaceStyle::InMessage]
    {
        let wire = wire(told);
        let pieces = futures::stream::iter(wire.chunks(7).map(Ok::<_, Infallible>));
        let events = EventStream::new(pieces).map(|event| event.unwrap());
        let heard: Vec<_> = futures::executor::block_on(events.collect());
        let heard: Vec<_> = heard.iter().map(|e| (&*e.event, &*e.id, &*e.data)).collect();
        let first = ("next", IDS[0], MESSAGE);
        let others = [("gap", IDS[1], "{}"), ("message", IDS[2], "{}")];
        let asked = (told == PlaceStyle::InMessage).then_some(first);
        assert_eq!(heard, asked.into_iter().chain(others).collect::<Vec<_>>(), "{told:?}");
    }
}

/// A reader that makes an event of each blank line, as many do.
#[test]
fn only_an_event_source_gets_a_block_without_data() {
    for told in [PlaceStyle::InHead, PlaceStyle::InLine, PlaceStyle::InMessage] {
        let wire = String::from_utf8(wire(told)).unwrap();
        for block in wire.strip_suffix("\n\n").unwrap().split("\n\n") {
            assert!(block.contains("data: "), "{told:?}: {block:?}");
        }
    }
    let block = String::from_utf8(wire(PlaceStyle::InBlock)).unwrap();
    assert!(block.starts_with("id: 0000000000000001\nretry: 1234\n\n:\nevent: gap\n"));
}

#[test]
fn beginning_is_a_message_where_one_asks() {
    let begin = |format: Format, told| {
        let mut wire = Vec::new();
        let carrier = if format == Format::Text { Carrier::WebSocket } else { Carrier::Close };
        format.push_begin(&mut wire, carrier, told, first());
        wire
    };
    assert_eq!(begin(Format::Ndjson, PlaceStyle::InMessage), format!("{MESSAGE}\n").as_bytes());
    assert_eq!(begin(Format::Text, PlaceStyle::InMessage)[2..], *MESSAGE.as_bytes());
    for format in [Format::Ndjson, Format::Text, Format::Classic] {
        for told in [PlaceStyle::InHead, PlaceStyle::InLine, PlaceStyle::InBlock] {
            assert_eq!(begin(format, told), b"", "{format:?} {told:?}");
        }
    }
}

#[test]
fn notices_are_chunks_of_their_own() {
    let mut wire = Vec::new();
    Format::Ndjson.push_gap(&mut wire, Carrier::Chunked, None);
    Format::Classic.push_gap(&mut wire, Carrier::Chunked, Some(IDS[0]));
    assert_eq!(wire, b"d\r\n{\"gap\":true}\n\r\n");
}

#[test]
fn message_that_is_no_event_leaves_the_place_of_its_client_where_it_is() {
    let mut wire = wire(PlaceStyle::InBlock);
    Format::Sse.push_message(&mut wire, Carrier::Close, r#"{"ok":1}"#);
    let pieces = futures::stream::iter([Ok::<_, Infallible>(wire)]);
    let events = EventStream::new(pieces).map(|event| event.unwrap());
    let heard: Vec<_> = futures::executor::block_on(events.collect());
    let last = heard.last().unwrap();
    assert_eq!((&*last.event, &*last.id, &*last.data), ("message", IDS[2], r#"{"ok":1}"#));
    let said = |format: Format, carrier| {
        let mut wire = Vec::new();
        format.push_message(&mut wire, carrier, "[]");
        wire
    };
    assert_eq!(said(Format::Ndjson, Carrier::Chunked), b"3\r\n[]\n\r\n");
    assert_eq!(said(Format::Text, Carrier::WebSocket), b"\x81\x02[]");
    for format in [Format::Classic, Format::Poll] {
        assert_eq!(said(format, Carrier::Chunked), b"", "{format:?}");
    }
}

#[test]
fn keep_alive_chunk_holds_the_plain_keep_alive() {
    for format in [Format::Sse, Format::Ndjson, Format::Classic] {
        let mut chunk = Vec::new();
        chunked::push(&mut chunk, format.keep_alive(Carrier::Close));
        assert_eq!(format.keep_alive(Carrier::Chunked), chunk, "{format:?}");
    }
}
