//! What goes out: frames of events, chunks, lines of the classic page; all read back by outside
//! readers.

use std::convert::Infallible;
use std::io::Read;

use arbitrary::Unstructured;
use eventsource_stream::EventStream;
use futures::StreamExt;
use hub::{Event, IdText};
use proto::{Carrier, Format, chunked, classic, ndjson, sse};
use serde_json::Value;

/// One event on every transport: a first line with its subject, then its payload as JSON.
pub fn event_frames(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let (about, payload) = text.split_once('\n').unwrap_or(("a", text));
    let Ok(value) = serde_json::from_str::<Value>(payload) else { return };
    let event: Option<Event<()>> = Event::new(data.len() as u64, about, payload);
    assert_eq!(event.is_some(), IdText::parse(about).is_ok());
    let Some(event) = event else { return };
    assert_eq!(
        (&*event.about(), Event::<()>::of_line(event.json().into()).is_some()),
        (about, true)
    );
    assert!(!event.json().contains(['\n', '\r']));
    let read: Value = serde_json::from_str(event.json()).unwrap();
    assert_eq!(read, serde_json::json!({"id": event.id(), "about": about, "data": value}));

    let line = unchunk(ndjson::event(event.json()).for_carrier(Carrier::Chunked));
    assert_eq!(line, format!("{}\n", event.json()).as_bytes());

    let frame = sse::event(event.id(), event.json());
    let body = unchunk(frame.for_carrier(Carrier::Chunked));
    assert_eq!(body, frame.for_carrier(Carrier::Close));
    let keep_alive = Format::Sse.keep_alive(Carrier::Close);
    let wire = [keep_alive, &body, keep_alive, &body].concat();
    let sent = (event.id().to_owned(), event.json().to_owned());
    assert_eq!(hear(&wire, 1 + data.len() % 7), [sent.clone(), sent]);

    check_classic_line(payload, value.as_str().unwrap_or(event.data()));
}

/// The ids and data that an outside reader of SSE hears when the bytes come in pieces.
fn hear(wire: &[u8], piece_len: usize) -> Vec<(String, String)> {
    let pieces = futures::stream::iter(wire.chunks(piece_len).map(Ok::<_, Infallible>));
    let events = EventStream::new(pieces).map(|event| event.unwrap());
    futures::executor::block_on(events.map(|event| (event.id, event.data)).collect())
}

fn check_classic_line(payload: &str, text: &str) {
    let one_line: String = payload.split(['\n', '\r']).collect();
    let tail = classic::message(&one_line);
    let prefix = classic::Prefix::new(1, &tail, Carrier::Close);
    let line = [prefix.as_bytes(), tail.for_carrier(Carrier::Close)].concat();
    let line = String::from_utf8(line).unwrap();
    let shown = line.strip_prefix("Recvd msg #1: '").unwrap().strip_suffix("'<br/>\n").unwrap();
    assert!(!shown.contains(['\'', '"', '<', '>', '\n', '\r']), "{shown}");
    let replaced = |c: char| c.is_control() && !"\n\r\t".contains(c);
    let expected = text.replace(replaced, "\u{fffd}");
    assert_eq!(html_escape::decode_html_entities(shown), expected);
}

/// A body cut into chunks at places that the bytes choose.
pub fn chunks(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let (mut wire, mut body) = (Vec::new(), Vec::new());
    while !input.is_empty() {
        let len = input.arbitrary::<u8>().map_or(0, usize::from);
        let chunk = input.bytes(len.min(input.len())).unwrap();
        chunked::push(&mut wire, chunk);
        body.extend_from_slice(chunk);
    }
    assert_eq!(unchunk(&wire), body);
}

/// What an outside decoder makes of chunks that the end of the stream follows.
fn unchunk(chunks: &[u8]) -> Vec<u8> {
    let wire = [chunks, Carrier::Chunked.end()].concat();
    let mut body = Vec::new();
    chunked_transfer::Decoder::new(&wire[..]).read_to_end(&mut body).unwrap();
    body
}

/// Any text as a payload, valid JSON or not, under any number and as the name in the greeting:
/// a page keeps its lines, and both carriers have the same body.
pub fn classic_message(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let number = input.arbitrary::<u64>().unwrap_or_default();
    let text = String::from_utf8_lossy(input.take_rest());
    let tail = classic::message(&text);
    let [chunk, body] = [Carrier::Chunked, Carrier::Close].map(|carrier| {
        let prefix = classic::Prefix::new(number, &tail, carrier);
        let mut wire = Vec::new();
        classic::welcome(&text, carrier, &mut wire);
        [&wire, prefix.as_bytes(), tail.for_carrier(carrier)].concat()
    });
    assert_eq!(unchunk(&chunk), body);
    let page = String::from_utf8(body).unwrap();
    let lines: Vec<&str> = page.split_inclusive('\n').collect();
    let [welcome, message] = lines[..] else { panic!("{lines:?}") };
    assert!(welcome.starts_with("Welcome, id ") && welcome.ends_with("<br/>\n"));
    let start = format!("Recvd msg #{number}: '");
    assert!(message.starts_with(&start) && message.ends_with("'<br/>\n"));
    assert_eq!(page.matches('<').count(), 2);
    assert_eq!(page.matches('\'').count(), 2);
}
