//! Heads in forms that are seldom: another target, another version, none.

use super::*;

#[test]
fn absolute_target_names_the_host() {
    // RFC 9112, section 3.2.2: the Host field does not count then, but must be there all the same.
    let buf = head("GET HTTP://other.example/stream/a?id=b", &[]);
    let request = served(&buf);
    assert_eq!((request.ids, request.host), (vec!["a".into(), "b".into()], Some("other.example")));
    let buf = b"GET http://other.example/stream/a HTTP/1.1\r\n\r\n";
    assert_eq!(refused(buf).problem.status, 400);
    assert_eq!(refused(&head("GET http://other.example", &[])).problem.status, 404);
    assert_eq!(refused(&head("GET http://other.example?id=1", &[])).problem.status, 404);
    assert_eq!(refused(&head("GET ftp://other.example/stream/a", &[])).problem.status, 404);
}

#[test]
fn http_1_0_closes_and_needs_no_host() {
    let request = served(b"GET /stream/1 HTTP/1.0\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!((request.carrier, request.host), (Carrier::Close, None));
}

#[test]
fn classic_page_needs_no_version() {
    for head in [
        &b"GET /test/7 HTTP/1.0\r\n\r\n"[..],
        b"GET /test/7\r\n\r\n",
        b"GET /test/7\nX: y\n\n",
        b"\r\nGET /test/7\r\nHost: localhost\r\nAccept: */*\r\n\r\n",
    ] {
        let request = served(head);
        assert_eq!((request.route, request.carrier), (Route::Classic, Carrier::Close));
        assert_eq!((&*request.ids[0], request.keep_alive), ("7", false));
        assert_eq!(request.head_len, head.len());
    }
    assert_eq!(served(b"GET /test/7?id=8\r\nHost: h\r\n\r\n").host, Some("h"));
    for head in [
        &b"GET /stream/7\r\n\r\n"[..],
        b"GET /test/7 \r\n\r\n",
        b"GET /test/\xc3\xa9\r\n\r\n",
        b"POST /test/7\r\n\r\n",
        b"GET /test/7\r\nX : y\r\n\r\n",
    ] {
        assert_eq!(refused(head).problem.status, 400, "{}", head.escape_ascii());
    }
}

#[test]
fn options_needs_a_path_but_no_id() {
    let buf = head("OPTIONS /stream/%", &["Accept: text/html", "Origin: http://a.example"]);
    let request = served(&buf);
    assert_eq!((request.method, request.ids.len()), (Method::Options, 0));
    assert_eq!(request.origin, Some("http://a.example"));
    assert_eq!(refused(&head("OPTIONS *", &[])).problem.status, 404);
}
