//! Requests that send an event.

use super::*;

#[test]
fn event_is_sent_with_a_body_of_a_length() {
    let json = "Content-Type: application/json; charset=utf-8";
    let buf = head("POST /send?token=x&id=a", &["Content-Length: 12", json]);
    let request = served(&buf);
    assert_eq!((request.method, request.route), (Method::Post, Route::Send));
    assert_eq!((request.head_len, request.ids.len()), (buf.len(), 0));
    assert_eq!(request.body, Body { len: 12, key: None, expects: false });
    assert_eq!(request.bearer.token(None, None), Ok(Some("x".into())));
    let lines = ["Idempotency-Key: \"a\"", "Expect: 100-continue", "Content-Length: 99"];
    let buf = head("POST /send", &[&lines[..], &[json]].concat());
    assert_eq!(served(&buf).body, Body { len: 99, key: Some("\"a\""), expects: true });
    let buf = head("POST /send", &["Content-Length: 99999999999999999999999", json]);
    assert_eq!(served(&buf).body.len, usize::MAX);
    assert_eq!(served(&head("OPTIONS /send", &[])).method, Method::Options);
}

#[test]
fn update_of_the_mercure_protocol_has_any_body_and_its_stream_a_place() {
    let form = "Content-Type: application/x-www-form-urlencoded";
    for length in ["Content-Length: 7", "Transfer-Encoding: chunked"] {
        let buf = head("POST /.well-known/mercure", &[length, form]);
        let request = served(&buf);
        assert_eq!((request.method, request.route), (Method::Post, Route::Mercure));
        assert_eq!((request.head_len, request.body), (buf.len(), Body::default()));
    }
    let buf = head("GET /.well-known/mercure?topic=a", &["Last-Event-ID: urn:x:1"]);
    let request = served(&buf);
    assert_eq!((request.format, request.cursor), (Format::Mercure, Some(&b"urn:x:1"[..])));
    assert_eq!((request.query, request.ids.len()), ("topic=a", 0));
}
