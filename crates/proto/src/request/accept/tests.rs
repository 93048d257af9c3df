//! The lists of RFC 9110.

use super::*;

const SSE: Option<Format> = Some(Format::Sse);
const NDJSON: Option<Format> = Some(Format::Ndjson);

fn best(lines: &[&str]) -> Option<Format> {
    let mut accept = Accept::default();
    lines.iter().for_each(|line| accept.read_line(line.as_bytes()));
    accept.best()
}

#[test]
fn transport_follows_the_accept_field() {
    let cases = [
        ("text/event-stream", SSE),
        ("TEXT/Event-Stream", SSE),
        ("application/x-ndjson", NDJSON),
        ("*/*", NDJSON),
        ("text/*", SSE),
        ("application/*", NDJSON),
        ("", NDJSON),
        (" , ,", NDJSON),
        ("application/json, text/plain, */*", NDJSON),
        ("application/json, text/event-stream", SSE),
        ("text/event-stream, */*", SSE),
        ("*/*, text/event-stream", SSE),
        ("text/event-stream, application/x-ndjson", NDJSON),
        ("text/event-stream;q=0.5, application/x-ndjson;q=0.4", SSE),
        ("text/event-stream;q=0.5, application/x-ndjson;q=0.501", NDJSON),
        ("text/event-stream;q=0.5, */*;q=0.8", NDJSON),
        ("text/*;q=0.9, text/event-stream;q=0, */*;q=0.1", NDJSON),
        ("*/*, application/x-ndjson;q=0", SSE),
        ("*/*;q=0", None),
        ("text/event-stream;q=0", None),
        ("text/event-stream ; charset=utf-8 ; Q=0.5, application/*;q=0.4", SSE),
        ("text/event-stream;x=\"a,b;q=0\\\";q=0\"", SSE),
        ("text/event-stream;q=\"1\"", NDJSON),
        ("text/event-stream;q=1.5", NDJSON),
        ("text/event-stream;q=1.5, text/event-stream;q=1", SSE),
        ("text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", NDJSON),
        ("text/html, text/event-stream; q=.3, *; q=.2", SSE),
        ("application/ndjson", NDJSON),
        ("application/jsonl, text/event-stream;q=0.9", NDJSON),
        ("Application/X-JsonLines", NDJSON),
        ("text/event-stream;q=0.1234, application/x-ndjson;q=0.001", NDJSON),
        ("application/json", None),
        ("text/html", None),
        ("*/event-stream", NDJSON),
        ("*", NDJSON),
        ("*;q=0", None),
        ("text", NDJSON),
        ("/", NDJSON),
        ("text/", NDJSON),
        (";q=1", NDJSON),
        ("nonsense, text/html", None),
    ];
    for (line, transport) in cases {
        assert_eq!(best(&[line]), transport, "Accept: {line}");
    }
}

#[test]
fn several_lines_are_one_list() {
    assert_eq!(best(&[]), NDJSON);
    assert_eq!(best(&["text/html", "text/event-stream"]), SSE);
    assert_eq!(best(&["text/event-stream;q=0.2", "*/*;q=0.3"]), NDJSON);
}

#[test]
fn weights_are_read_as_the_rfc_writes_them() {
    let cases: [(&str, Option<Weight>); 16] = [
        ("0", Some(0)),
        ("0.", Some(0)),
        ("0.5", Some(500)),
        ("0.05", Some(50)),
        ("0.001", Some(1)),
        ("1", Some(1000)),
        ("1.", Some(1000)),
        ("1.000", Some(1000)),
        ("1.001", None),
        ("2", None),
        ("0.0001", None),
        ("", None),
        (".5", Some(500)),
        (".", None),
        ("-1", None),
        ("0,5", None),
    ];
    for (text, weight) in cases {
        assert_eq!(parse_weight(text.as_bytes()), weight, "q={text}");
    }
}
