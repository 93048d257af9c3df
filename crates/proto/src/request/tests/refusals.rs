//! Heads that are refused, with what, and those that look odd and are served.

use super::*;

#[test]
fn bad_requests_get_the_status_of_the_rfc() {
    let cases: [(&str, &[&str], u16); 50] = [
        ("GET /index.html", &[], 404),
        ("GET //", &[], 404),
        ("GET /polls", &[], 404),
        ("GET /poll/a/b", &[], 404),
        ("POST /", &[], 405),
        ("POST /poll/a", &[], 405),
        ("GET /send", &[], 405),
        ("HEAD /send", &[], 405),
        ("POST /send/a", &["Content-Length: 2", "Content-Type: application/json"], 404),
        ("POST /send", &["Content-Type: application/json"], 411),
        ("POST /send", &["Content-Type: application/json", "Transfer-Encoding: chunked"], 411),
        ("POST /send", &["Content-Length: 2"], 415),
        ("POST /send", &["Content-Length: 2", "Content-Type: text/plain"], 415),
        ("POST /send", &["Content-Length: 2", "Content-Length: 3"], 400),
        ("POST /send", &["Idempotency-Key: a", "Idempotency-Key: b", "Content-Length: 2"], 400),
        ("GET /streamers", &[], 404),
        ("GET /stream/a/b", &[], 404),
        ("GET /streams/a", &[], 404),
        ("GET stream/a", &[], 404),
        ("POST /nothing", &[], 404),
        ("POST /stream/a", &[], 405),
        ("PUT /test/a", &["Content-Length: 5"], 405),
        ("get /stream/a", &[], 405),
        ("BREW /stream/a", &[], 405),
        ("POST /.well-known/mercure/subscriptions", &["Content-Length: 0"], 405),
        ("QUERY /.well-known/mercure/subscriptions/a", &[], 405),
        ("DELETE /.well-known/mercure", &[], 405),
        ("GET /stream/a%", &[], 400),
        ("GET /stream/a%2", &[], 400),
        ("GET /stream/a%zz", &[], 400),
        ("GET /stream/a%2g", &[], 400),
        ("GET /stream/a?id=%+1", &[], 400),
        ("GET /stream/%ff", &[], 400),
        ("GET /stream/%C3%28", &[], 400),
        ("GET /stream/a?id=b+c", &[], 400),
        ("GET /stream/a", &["Accept: application/json"], 406),
        ("GET /stream/a", &["Content-Length: 1"], 413),
        ("GET /stream/a", &["Transfer-Encoding: chunked"], 413),
        ("GET /stream/a", &["Content-Length: 0", "Transfer-Encoding: identity"], 413),
        ("GET /stream/a", &["Content-Length: 0, 0"], 400),
        ("GET /stream/a", &["Content-Length: +0"], 400),
        ("GET /stream/a", &["Content-Length:"], 400),
        ("GET /stream/a", &["Host: other.example"], 400),
        ("GET /stream/a", &["Origin: http://a", "Origin: http://b"], 400),
        ("GET /stream/a", &["Sec-WebSocket-Key: a", "Sec-WebSocket-Key: a"], 400),
        ("GET /stream/a", &["Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8"], 400),
        ("GET /stream/a", &["Sec-WebSocket-Protocol: \u{e9}"], 400),
        ("GET /stream/a", &["no colon"], 400),
        ("GET /stream/a", &[": no name"], 400),
        ("GET /stream/a", &["Name : space before the colon"], 400),
    ];
    for (start, lines, status) in cases {
        assert_eq!(refused(&head(start, lines)).problem.status, status, "{start} {lines:?}");
    }
}

#[test]
fn heads_that_break_the_grammar_are_refused() {
    let cases: [(&[u8], u16); 26] = [
        (b"GET /stream/a HTTP/1.1\r\nHost: a\r\nOrigin: http://\xc2\x85\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a\r\nOrigin: a\tb\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: user@a\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\n Host: a\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1\rHost: a\r\n\r\n", 400),
        (b"GET /stream/a\0 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /stream/\xff HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET  /stream/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /stream/a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /stream/a HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
        (b"GET /stream/a http/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET /stream/a\r\n\r\n", 400),
        (b"GET /stream/a HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        (b"GET /stream/a HTTP/1.2\r\nHost: a\r\n\r\n", 505),
        (b"GET /stream/a HTTP/0.9\n\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", 400),
        (b"\r\n\r\nGET /stream/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"\rGET /stream/a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ];
    for (buf, status) in cases {
        assert_eq!(refused(buf).problem.status, status, "{}", buf.escape_ascii());
    }
}

#[test]
fn harmless_oddities_are_served() {
    let cases: [&[u8]; 8] = [
        b"\r\nGET /stream/a HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\nGET /stream/a HTTP/1.1\nHost: a\n\n",
        b"GET /stream/a HTTP/1.1\nHost:a\n\r\n",
        b"GET /stream/a HTTP/1.1\r\nHost:\r\n\r\n",
        b"GET /stream/a HTTP/1.1\r\nHost: [::1]:80\r\nX: \xff\r\n\r\n",
        b"GET /stream/a HTTP/1.1\r\nHost: \ta \t\r\nContent-Length: 00\r\n\r\n",
        b"GET /stream/a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
        b"GET /stream/a HTTP/1.1\r\nHost: a\r\nRange: bytes=0-\r\n\r\n",
    ];
    for buf in cases {
        assert_eq!(served(buf).ids, ["a"], "{}", buf.escape_ascii());
        assert_eq!(served(buf).head_len, buf.len());
    }
}

#[test]
fn bytes_after_the_head_are_left_alone() {
    let mut buf = head("GET /stream/a", &[]);
    let head_len = buf.len();
    buf.extend_from_slice(b"GET /stream/b HTTP/1.1\r\n\r\n\0");
    assert_eq!(served(&buf).head_len, head_len);
}

#[test]
fn head_of_8_kib_is_served_and_one_byte_more_is_not() {
    let frame_len = head("GET /stream/a", &["X: "]).len();
    for over in [0, 1] {
        let filler = "x".repeat(HEAD_BYTES_MAX - frame_len + over);
        let buf = head("GET /stream/a", &[&format!("X: {filler}")]);
        assert_eq!(buf.len(), HEAD_BYTES_MAX + over);
        if over == 0 {
            assert_eq!(served(&buf).head_len, HEAD_BYTES_MAX);
        } else {
            assert_eq!(refused(&buf).problem.status, 431);
        }
    }
}

#[test]
fn head_without_an_end_is_refused_at_8_kib() {
    let buf = vec![b'A'; HEAD_BYTES_MAX];
    assert_eq!(parse(&buf[1..], 0), Parsed::NeedMore);
    assert_eq!(refused(&buf).problem.status, 431);
}

#[test]
fn hundred_header_lines_are_served_and_one_more_is_not() {
    let lines = ["A: b"; HEADER_LINES_MAX];
    // One line is the Host.
    assert_eq!(served(&head("GET /stream/a", &lines[1..])).ids, ["a"]);
    assert_eq!(refused(&head("GET /stream/a", &lines)).problem.status, 431);
}

#[test]
fn seen_bytes_are_not_searched_again() {
    let buf = b"GET /stream/a HTTP/1.1\r\nHost: a\r\n\r\nmore";
    assert_eq!(parse(buf, buf.len()), Parsed::NeedMore);
}

#[test]
fn refusal_tells_who_asked_and_whether_a_body_may_follow() {
    let buf = head("HEAD /stream/a/b", &["Origin: http://a.example"]);
    let refusal = refused(&buf);
    assert_eq!(refusal.origin, Some("http://a.example"));
    assert_eq!(refusal.host, Some("encke.example:8000"));
    assert!(refusal.head_only);
    assert!(refused(b"HEAD /stream/a HTTP/1.1\r\nbad line\r\n\r\n").head_only);
    assert!(refused(b"\r\nHEAD /stream/a HTTP/1.1\r\n bad line\r\n\r\n").head_only);
    assert!(!refused(b"GET /HEAD HTTP/1.1\r\n\r\n").head_only);
}

#[test]
fn wrong_method_lists_the_right_ones() {
    assert_eq!(refused(&head("POST /stream/a", &[])).problem.allow, Some("GET, HEAD, OPTIONS"));
}
