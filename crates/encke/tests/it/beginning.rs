//! Where a stream begins: each client can know it before the first event, so that a cut before that
//! loses nothing, and no client takes it for an event.

use serde_json::{Value, json};

use crate::harness::{Server, Socket, Wire, get};

const SSE: &str = "Accept: text/event-stream";
const NDJSON: &str = "Accept: application/x-ndjson";
/// What a browser's `EventSource` says beside.
const EVENT_SOURCE: [&str; 3] = [SSE, "Cache-Control: no-cache", "Sec-Fetch-Mode: cors"];

/// The place that the head of an answer names, and the connection behind it.
fn open(server: &Server, path: &str, fields: &[&str]) -> (Option<String>, Wire) {
    let mut wire = server.ask(get(path, fields));
    let head = wire.head();
    assert!([200, 101].contains(&head.status), "{}", head.text);
    assert_eq!(head.field("encke-gap"), None, "{}", head.text);
    (head.field("encke-next").map(str::to_owned), wire)
}

fn chunk(wire: &mut Wire) -> String {
    String::from_utf8(wire.chunk().unwrap()).unwrap()
}

#[test]
fn stream_that_is_cut_before_its_first_event_goes_on_where_its_head_says() {
    let server = Server::start(&[]);
    for (number, fields) in [&[SSE][..], &[NDJSON], &Socket::FIELDS].into_iter().enumerate() {
        let path = format!("/stream/{number}");
        let (place, wire) = open(&server, &path, fields);
        let place = place.expect("a place in the head");
        wire.reset();
        server.wait_online(&number.to_string(), 0);
        server.api.send(&number.to_string(), "missed");
        let field = format!("Last-Event-ID: {place}");
        let (again, mut wire) = open(&server, &path, &[NDJSON, &field]);
        // Who is cut off now, too, still comes from there.
        assert_eq!(again.as_ref(), Some(&place));
        assert!(chunk(&mut wire).contains("missed"), "{fields:?}");
    }
    let (place, _) = open(&server, "/test/1", &[]);
    assert_eq!(place, None, "the classic page does not resume");
    // Who only asks for a place is not logged in.
    let mut wire = server.ask("HEAD /stream/9 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(wire.head().field("encke-next").map(str::len), Some(16));
    assert_eq!(server.api.connections("9"), 0);
}

#[test]
fn only_who_asks_for_it_hears_the_beginning_as_a_message() {
    let server = Server::start(&[]);
    let path = "/stream/1?next=1";
    // What the message says, and the connection behind it.
    let opened = |fields: &[&str]| {
        let mut wire = server.ask(get(path, fields));
        let head = wire.head();
        let field = |name| head.field(name).unwrap().to_owned();
        let (place, connection) = (field("encke-next"), field("encke-connection"));
        (json!({ "next": place, "connection": connection, "retry": null }), place, wire)
    };
    // How long it is to stay away depends on how many there are.
    let without_retry = |mut message: Value| {
        let retry_ms = message["retry"].take().as_u64().unwrap();
        assert!((1_000..3_000).contains(&retry_ms), "{retry_ms}");
        message
    };
    let (told, place, mut ndjson) = opened(&[NDJSON]);
    let line = chunk(&mut ndjson);
    assert!(line.ends_with("}\n"), "{line}");
    assert_eq!(without_retry(serde_json::from_str(&line).unwrap()), told);
    let mut socket = Socket::open(server.listen(), path);
    let mut message = without_retry(socket.json());
    assert!(message["connection"].take().is_string(), "{message}");
    assert_eq!(message, json!({ "next": place, "connection": null, "retry": null }));
    for fields in [&[SSE][..], &EVENT_SOURCE] {
        let (told, place, mut sse) = opened(fields);
        let block = chunk(&mut sse);
        let rest = block.strip_prefix(&format!("event: next\nid: {place}\nretry: ")).unwrap();
        let (retry, data) = rest.split_once("\ndata: ").unwrap();
        assert!(data.ends_with(&format!(",\"retry\":{retry}}}\n\n")), "{block}");
        assert_eq!(without_retry(serde_json::from_str(data).unwrap()), told);
    }
    let (_, mut plain) = open(&server, "/stream/1", &[NDJSON]);
    assert!(server.api.send("1", "first") > 0);
    assert!(chunk(&mut plain).contains("first"));
}

#[test]
fn beginning_is_told_to_each_client_of_sse_as_it_can_read_it() {
    let server = Server::start(&[]);
    let cases: [(&[&str], Option<&str>); 5] = [
        (&EVENT_SOURCE, Some("\n\n")),
        (&[SSE, "User-Agent: Mozilla/5.0 (old)", "Cache-Control: no-cache"], Some("\n\n")),
        // A page's `fetch`, of which a library makes an event at each blank line.
        (&[SSE, "Sec-Fetch-Mode: cors"], Some("\n")),
        // Libraries elsewhere, of which some make an event of what an end cuts off.
        (&[SSE, "Cache-Control: no-cache", "User-Agent: Go-http-client/1.1"], None),
        (&[SSE, "Cache-Control: no-store", "User-Agent: python-httpx/0.28.1"], None),
    ];
    for (fields, end) in cases {
        let (place, mut wire) = open(&server, "/stream/1", fields);
        if let Some(end) = end {
            let told = chunk(&mut wire);
            let rest = told.strip_prefix(&format!("id: {}\nretry: ", place.unwrap())).expect(&told);
            let retry: u32 = rest.strip_suffix(end).expect(&told).parse().expect(&told);
            assert!((1_000..3_000).contains(&retry), "{told}");
        }
        assert!(server.api.send("1", "first") > 0);
        let event = chunk(&mut wire);
        assert!(event.starts_with("id: ") && event.contains("first"), "{event}");
    }
}

#[test]
fn gap_at_the_beginning_stands_in_the_head_too() {
    let server = Server::start(&[]);
    for fields in [&[SSE][..], &[NDJSON], &Socket::FIELDS] {
        let lost = [fields, &["Last-Event-ID: 0000000000000000"]].concat();
        let head = server.ask(get("/stream/1", &lost)).head();
        assert_eq!(head.field("encke-gap"), Some("true"), "{}", head.text);
        assert_eq!(head.field("encke-next").map(str::len), Some(16), "{}", head.text);
    }
}
