//! What clients of each transport hear, byte by byte.

use serde_json::{Value, json};

use crate::harness::{End, Server, get};

/// Sends one event and returns its id.
fn send(server: &Server, about: &str, data: &Value) -> String {
    let answer = server.api.post("/send", &json!({ "about": about, "data": data })).ok();
    assert_eq!(answer["delivered"], 1);
    answer["id"].as_str().unwrap().to_owned()
}

#[test]
fn sse_event_is_an_id_line_a_data_line_and_a_blank_line_in_one_chunk() {
    let server = Server::start(&[]);
    let mut stream = server.stream("/stream/123", "text/event-stream");
    assert_eq!(stream.head.field("content-type"), Some("text/event-stream"));
    assert_eq!(stream.head.field("transfer-encoding"), Some("chunked"));
    assert_eq!(stream.head.field("content-length"), None);
    assert!(stream.head.field("cache-control").unwrap().contains("no-cache"));
    let id = send(&server, "123", &json!({ "text": "hé\n" }));
    let event = format!(
        "id: {id}\ndata: {{\"id\":\"{id}\",\"about\":\"123\",\"data\":{{\"text\":\"hé\\n\"}}}}\n\n"
    );
    let chunk = format!("{:x}\r\n{event}\r\n", event.len());
    assert_eq!(stream.wire.take(chunk.len()).unwrap(), chunk.as_bytes());
    assert_eq!(server.api.logout("123"), 1);
    assert_eq!(stream.wire.rest(), b"0\r\n\r\n");
}

#[test]
fn ndjson_event_is_one_line_in_one_chunk() {
    let server = Server::start(&[]);
    let mut stream = server.stream("/stream/alice", "application/x-ndjson");
    assert_eq!(stream.head.field("content-type"), Some("application/x-ndjson"));
    let id = send(&server, "alice", &json!([1, "two", null]));
    let line = format!("{{\"id\":\"{id}\",\"about\":\"alice\",\"data\":[1,\"two\",null]}}\n");
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    assert_eq!(stream.wire.take(chunk.len()).unwrap(), chunk.as_bytes());
    assert_eq!(server.api.logout("alice"), 1);
    assert_eq!(stream.wire.rest(), b"0\r\n\r\n");
}

#[test]
fn classic_page_greets_and_counts_its_messages() {
    let server = Server::start(&[]);
    let mut first = server.stream("/test/123", "text/html,application/xhtml+xml,*/*;q=0.8");
    assert_eq!(first.head.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(first.wire.take(27).unwrap(), b"15\r\nWelcome, id 123<br/>\n\r\n");
    assert_eq!(server.api.send("123", "one"), 1);
    assert_eq!(first.chunk(), "Recvd msg #1: 'one'<br/>\n");
    let mut second = server.stream("/test/123", "*/*");
    assert_eq!(second.chunk(), "Welcome, id 123<br/>\n");
    assert_eq!(server.api.send("123", "<b>'t & \"o\"</b>"), 2);
    let escaped = "&lt;b&gt;&#39;t &amp; &quot;o&quot;&lt;/b&gt;";
    assert_eq!(first.chunk(), format!("Recvd msg #2: '{escaped}'<br/>\n"));
    assert_eq!(second.chunk(), format!("Recvd msg #1: '{escaped}'<br/>\n"));
    assert_eq!(server.api.send("123", json!({ "n": 1 })), 2);
    assert_eq!(second.chunk(), "Recvd msg #2: '{&quot;n&quot;:1}'<br/>\n");
}

#[test]
fn classic_page_counts_on_through_a_burst() {
    let server = Server::start(&[]);
    let mut page = server.stream("/test/7", "*/*");
    assert_eq!(page.chunk(), "Welcome, id 7<br/>\n");
    let lines: String = (1..=500).map(|n| format!("{{\"about\":7,\"data\":{n}}}\n")).collect();
    let answers = server.api.post_lines("/send", &lines);
    assert_eq!(answers.body.lines().count(), 500);
    for n in 1..=500 {
        assert_eq!(page.chunk(), format!("Recvd msg #{n}: '{n}'<br/>\n"));
    }
}

#[test]
fn every_transport_hears_the_same_event() {
    let server = Server::start(&[]);
    let mut sse = server.stream("/stream/rj", "text/event-stream");
    let mut ndjson = server.stream("/stream/rj", "*/*");
    let mut classic = server.stream("/test/rj", "*/*");
    classic.chunk();
    assert_eq!(server.api.send("rj", "hello"), 3);
    let event = ndjson.event();
    assert_eq!((&event["about"], &event["data"]), (&json!("rj"), &json!("hello")));
    let id = event["id"].as_str().unwrap();
    let sse = sse.chunk();
    let data = sse.strip_prefix(&format!("id: {id}\ndata: ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), event);
    assert_eq!(classic.chunk(), "Recvd msg #1: 'hello'<br/>\n");
}

#[test]
fn http_1_0_client_gets_no_chunks_and_an_end_by_close() {
    let server = Server::start(&[]);
    for (path, accept) in
        [("/stream/old", "text/event-stream"), ("/stream/old", "*/*"), ("/test/old", "*/*")]
    {
        let mut wire = server.ask(format!("GET {path} HTTP/1.0\r\nAccept: {accept}\r\n\r\n"));
        let head = wire.head();
        assert_eq!((head.status, head.field("transfer-encoding")), (200, None));
        let id = send(&server, "old", &json!("x"));
        assert_eq!(server.api.logout("old"), 1);
        let json = format!("{{\"id\":\"{id}\",\"about\":\"old\",\"data\":\"x\"}}\n");
        let expected = match (path, accept) {
            ("/test/old", _) => "Welcome, id old<br/>\nRecvd msg #1: 'x'<br/>\n".to_owned(),
            (_, "*/*") => json,
            _ => format!("id: {id}\ndata: {json}\n"),
        };
        assert_eq!(String::from_utf8(wire.rest()).unwrap(), expected);
    }
}

#[test]
fn transport_is_what_accept_asks_for() {
    let server = Server::start(&[]);
    for (accept, content_type) in [
        ("text/event-stream", "text/event-stream"),
        ("text/event-stream, */*;q=0.1", "text/event-stream"),
        ("TEXT/Event-Stream", "text/event-stream"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("*/*", "application/x-ndjson"),
        ("text/event-stream;q=0.2, application/x-ndjson;q=0.9", "application/x-ndjson"),
    ] {
        let stream = server.stream("/stream/1", accept);
        assert_eq!(stream.head.field("content-type"), Some(content_type), "Accept: {accept}");
    }
    let mut wire = server.ask(get("/stream/1", &[]));
    assert_eq!(wire.head().field("content-type"), Some("application/x-ndjson"), "no Accept");
    let mut wire = server.ask(get("/stream/1", &["Accept: application/pdf"]));
    assert_eq!(wire.head().status, 406);
}

#[test]
fn event_ids_are_unique_and_grow() {
    let server = Server::start(&[]);
    let mut stream = server.listener("1");
    let mut last = String::new();
    for n in 0..200 {
        let id = send(&server, "1", &json!(n));
        assert_eq!(stream.event()["id"], id);
        assert!(id > last, "{id} after {last}");
        last = id;
    }
}

#[test]
fn event_stays_one_line_whatever_its_sender_wrote() {
    let server = Server::start(&[]);
    let (mut sse, mut ndjson) =
        (server.stream("/stream/1", "text/event-stream"), server.listener("1"));
    let body = "{\"about\": 1,\r\n\"data\": {\r\n  \"a\":\n [1,\n2],\n \"b\": \"\\r\\n\\u2028\"}}";
    let answer = server.api.request("POST", "/send", Some("application/json"), body.as_bytes());
    assert_eq!(answer.unwrap().ok()["delivered"], 2);
    assert_eq!(ndjson.data(), json!({ "a": [1, 2], "b": "\r\n\u{2028}" }));
    let chunk = sse.chunk();
    assert_eq!(chunk.matches('\n').count(), 3, "{chunk:?}");
    assert!(!chunk.contains('\r') && chunk.starts_with("id: ") && chunk.ends_with("}\n\n"));
}

#[test]
fn head_answers_the_stream_s_head_and_logs_nobody_in() {
    let server = Server::start(&[]);
    let stream = server.stream("/stream/1", "text/event-stream");
    let request = "HEAD /stream/1 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n";
    let mut wire = server.ask(request);
    // It opens no stream, so there is no connection to be called anything.
    let connection = stream.head.field("encke-connection").unwrap();
    let field = format!("Encke-Connection: {connection}\r\n");
    assert_eq!(wire.head().text, stream.head.text.replace(&field, ""));
    assert_eq!(wire.rest(), b"");
    assert_eq!(server.api.connections("1"), 1);
    let mut wire = server.ask("HEAD /nowhere HTTP/1.1\r\nHost: x\r\n\r\n");
    let head = wire.head();
    assert_eq!(head.status, 404);
    assert_ne!(head.field("content-length"), Some("0"));
    assert_eq!(wire.rest(), b"");
}

#[test]
fn stream_that_is_logged_out_ends_with_the_last_chunk() {
    let server = Server::start(&[]);
    let mut streams: Vec<_> = (0..3).map(|_| server.listener("1")).collect();
    assert_eq!(server.api.send("1", "last words"), 3);
    assert_eq!(server.api.logout("1"), 3);
    assert_eq!(server.api.send("1", "too late"), 0);
    for stream in &mut streams {
        assert_eq!(stream.data(), "last words");
        assert_eq!(stream.chunk(), "");
        assert_eq!(stream.end(), End::Fin);
    }
    server.wait_closed("logged_out", 0);
    drop(streams);
    server.wait_closed("logged_out", 3);
}
