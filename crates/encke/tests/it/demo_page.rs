//! The demo page at `/` of the public port, and what a page from there may ask of the API.

use crate::harness::{Head, Server, Wire, read_answer};

const DEMO: &str = "--demo-page={\"users\":100,\"events_per_second\":10}";

/// One request to the public port, and its answer as it came.
fn ask(server: &Server, method: &str, fields: &str) -> (Head, Vec<u8>) {
    let mut wire = Wire::connect(server.listen());
    wire.send(format!("{method} / HTTP/1.1\r\nHost: push.test:8000\r\n{fields}\r\n"));
    let head = wire.head();
    (head, wire.rest())
}

/// One request to the API in the name of a page.
fn call(server: &Server, request: &str, origin: &str, fields: &str) -> Head {
    let mut wire = Wire::connect(server.api.address());
    let body = "{\"about\":1,\"data\":1}";
    let len = if request.starts_with("POST") { body.len() } else { 0 };
    wire.send(format!(
        "{request} HTTP/1.1\r\nHost: push.test:1\r\nOrigin: {origin}\r\n{fields}\
         Content-Length: {len}\r\n\r\n{}",
        &body[..len]
    ));
    // A preflight's answer has no body, as that to a `HEAD`.
    let method = if request.starts_with("OPTIONS") { "HEAD" } else { "GET" };
    read_answer(&mut wire, method).unwrap().head
}

/// The origin of the page under the name by which [`call`] speaks to the API.
fn page_origin(server: &Server) -> String {
    format!("http://push.test:{}", server.listen().port())
}

#[test]
fn page_is_one_document_that_knows_where_the_api_is() {
    let server = Server::start(&[DEMO]);
    let (head, body) = ask(&server, "GET", "");
    assert_eq!(head.status, 200, "{head:?}");
    assert_eq!(head.field("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(head.field("content-encoding"), None);
    assert_eq!(head.field("content-length"), Some(body.len().to_string().as_str()));
    let html = String::from_utf8(body).unwrap();
    let port = server.api.address().port();
    assert!(html.contains(&format!("{{\"api_port\":{port},\"users\":100,")), "{html:.500}");
    for link in ["src=\"http", "href=\"http", "src=\"/", "href=\"/", "url(http", "url(/"] {
        assert!(!html.contains(link), "a request for more: {link}");
    }
    let policy = head.field("content-security-policy").unwrap();
    let connect = format!("connect-src 'self' ws://push.test:* http://push.test:{port};");
    assert!(policy.contains(&connect), "{policy}");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");

    let (head, packed) = ask(&server, "GET", "Accept-Encoding: br, gzip\r\n");
    assert_eq!(head.field("content-encoding"), Some("gzip"));
    assert!(packed.starts_with(b"\x1f\x8b") && packed.len() < html.len());
    server.wait_closed("answered", 2);
}

#[test]
fn page_that_a_browser_has_is_not_sent_again() {
    let server = Server::start(&[DEMO]);
    let tag = ask(&server, "GET", "").0.field("etag").unwrap().to_owned();
    let (head, body) = ask(&server, "GET", &format!("If-None-Match: {tag}\r\n"));
    assert_eq!((head.status, body.as_slice(), head.field("etag")), (304, &b""[..], Some(&*tag)));
    let (head, body) = ask(&server, "HEAD", "If-None-Match: \"other\"\r\n");
    assert_eq!((head.status, body.as_slice()), (200, &b""[..]));
    assert_ne!(head.field("content-length"), Some("0"));
}

#[test]
fn without_a_demo_there_is_no_page_and_the_api_lets_no_other_page_in() {
    let server = Server::start(&[]);
    for method in ["GET", "HEAD", "OPTIONS"] {
        assert_eq!(ask(&server, method, "").0.status, 404, "{method}");
    }
    let origin = page_origin(&server);
    for request in ["GET /connections/1", "POST /send"] {
        assert_eq!(call(&server, request, &origin, "").status, 403, "{request}");
    }
    let asked = "Access-Control-Request-Method: POST\r\n";
    assert_eq!(call(&server, "OPTIONS /send", &origin, asked).status, 403);
    assert_eq!(server.api.stats()["events"], 0);
}

#[test]
fn demo_page_may_look_up_and_send() {
    let server = Server::start(&[DEMO]);
    let origin = page_origin(&server);
    for request in
        ["GET /connections/1", "GET /subscribers/1?limit=5", "GET /subscriptions/1", "POST /send"]
    {
        let head = call(&server, request, &origin, "Content-Type: application/json\r\n");
        assert_eq!(head.status, 200, "{request}: {head:?}");
        assert_eq!(head.field("access-control-allow-origin"), Some(&*origin), "{request}");
        assert_eq!(head.field("vary"), Some("Origin"), "{request}");
    }
    assert_eq!(server.api.stats()["events"], 1);
    // It may read what went wrong as well.
    let head = call(&server, "GET /subscribers/1?limit=x", &origin, "");
    assert_eq!(head.status, 400, "{head:?}");
    assert_eq!(head.field("access-control-allow-origin"), Some(&*origin));
}

#[test]
fn preflight_of_the_demo_page_names_what_it_may_do() {
    let server = Server::start(&[DEMO]);
    let origin = page_origin(&server);
    let asked = "Access-Control-Request-Method: POST\r\n\
                 Access-Control-Request-Headers: content-type\r\n";
    let head = call(&server, "OPTIONS /send", &origin, asked);
    assert_eq!(head.status, 204, "{head:?}");
    assert_eq!(head.field("access-control-allow-origin"), Some(&*origin));
    assert_eq!(head.field("access-control-allow-methods"), Some("POST"));
    assert_eq!(head.field("access-control-allow-headers"), Some("Content-Type"));
    for (path, method) in [
        ("/logout/1", "POST"),
        ("/subscriptions/add", "POST"),
        ("/subscriptions/remove", "POST"),
        ("/stats", "GET"),
        ("/send", "DELETE"),
        ("/send", "\u{7f}"),
    ] {
        let asked = format!("Access-Control-Request-Method: {method}\r\n");
        let head = call(&server, &format!("OPTIONS {path}"), &origin, &asked);
        assert!(head.status >= 400, "{path} {method}: {head:?}");
        assert_eq!(head.field("access-control-allow-origin"), None, "{path} {method}");
    }
}

#[test]
fn demo_page_may_do_nothing_else_and_other_pages_nothing_at_all() {
    let server = Server::start(&[DEMO]);
    let (own, port) = (page_origin(&server), server.listen().port());
    for request in [
        "POST /subscriptions/add",
        "POST /subscriptions/remove",
        "POST /logout/1",
        "GET /stats",
        "GET /metrics",
        "GET /openapi.json",
        "GET /",
        "OPTIONS /send",
    ] {
        let head = call(&server, request, &own, "");
        assert_eq!(head.status, 403, "{request}: {head:?}");
        assert_eq!(head.field("access-control-allow-origin"), None, "{request}");
    }
    for origin in [
        "http://push.test".to_owned(),
        format!("http://push.test:{}", port - 1),
        format!("http://evil.test:{port}"),
        format!("http://push.test.evil.test:{port}"),
        format!("http://evil.test:{port}@push.test:{port}"),
        format!("file://push.test:{port}"),
        "null".to_owned(),
    ] {
        for request in ["POST /send", "GET /connections/1"] {
            let head = call(&server, request, &origin, "");
            assert_eq!(head.status, 403, "{origin} {request}");
            assert_eq!(head.field("access-control-allow-origin"), None, "{origin}");
        }
    }
    assert_eq!(server.api.stats()["events"], 0);
}
