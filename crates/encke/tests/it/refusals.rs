//! What the public port answers to requests that open no stream, and who may open one.

use serde_json::Value;

use crate::harness::{End, Head, Server, Wire, check_problem, get, wait_for};

/// Reads a whole refusal from `wire` and checks that it is one in good order.
fn refusal(wire: &mut Wire, status: u16) -> (Head, Value) {
    let head = wire.head();
    assert_eq!(head.status, status, "{}", head.text);
    assert_eq!(head.field("content-type"), Some("application/problem+json"));
    assert_eq!(head.field("connection"), Some("close"));
    let body = wire.take(head.field("content-length").unwrap().parse().unwrap()).unwrap();
    let problem: Value = serde_json::from_slice(&body).unwrap();
    check_problem(&problem, status);
    assert_eq!(wire.end(), End::Fin, "the answer must arrive, not be reset away");
    (head, problem)
}

/// Asks and checks the refusal.
pub(crate) fn refused(server: &Server, request: impl AsRef<[u8]>, status: u16) -> (Head, Value) {
    refusal(&mut server.ask(request), status)
}

#[test]
fn wrong_paths_are_404() {
    let server = Server::start(&[]);
    for path in [
        "/",
        "/stream",
        "/streams/1",
        "/stream/1/2",
        "/test",
        "/sends",
        "/STREAM/1",
        "/poll",
        "/poll/1/2",
    ] {
        let (_, problem) = refused(&server, get(path, &[]), 404);
        assert!(problem["detail"].as_str().unwrap().contains("/stream/"), "{path}: {problem}");
    }
}

#[test]
fn wrong_methods_are_405_with_allow() {
    let server = Server::start(&[]);
    for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
        let request = format!("{method} /stream/1 HTTP/1.1\r\nHost: x\r\n\r\n");
        let (head, _) = refused(&server, request, 405);
        assert_eq!(head.field("allow"), Some("GET, HEAD, OPTIONS"), "{method}");
    }
    let body = "POST /stream/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello";
    refused(&server, body, 405);
}

#[test]
fn bad_ids_are_400_and_say_why() {
    let server = Server::start(&[]);
    let too_long = format!("/stream/{}", "x".repeat(256));
    for path in [
        "/stream/",
        "/test/",
        "/stream/1?id=",
        "/stream/a%20b",
        "/stream/a%2Fb",
        "/stream/a%3fb",
        "/stream/a%23b",
        "/stream/a%00b",
        "/stream/a%0d%0aX-Evil:%201",
        "/stream/%e2%80%a8",
        "/stream/%ff",
        "/stream/%zz",
        "/stream/%4",
        "/stream/1?id=a+b",
        too_long.as_str(),
    ] {
        let (head, problem) = refused(&server, get(path, &[]), 400);
        assert!(!head.text.contains("Evil"), "{}", head.text);
        assert!(problem["detail"].as_str().unwrap().len() > 20, "{path}: {problem}");
    }
    let stats = server.wait_open(0);
    assert_eq!(
        (&stats["connections_closed"]["bad_request"], &stats["ids_online"]),
        (&15.into(), &0.into())
    );
}

#[test]
fn head_over_8_kib_is_431_and_one_of_8_kib_is_served() {
    let server = Server::start(&[]);
    let bare = get("/stream/1", &["X-Pad: "]).len();
    let padded = |len: usize| get("/stream/1", &[&format!("X-Pad: {}", "x".repeat(len - bare))]);
    let mut wire = server.ask(padded(8192));
    assert_eq!(wire.head().status, 200);
    refused(&server, padded(8193), 431);
    refused(&server, padded(60_000), 431);
    let unfinished = &padded(9000)[..8500];
    refused(&server, unfinished, 431);
    let lines = vec!["X: y"; 200];
    refused(&server, get("/stream/1", &lines), 431);
}

#[test]
fn head_that_does_not_come_is_408() {
    let server = Server::start(&["--head-timeout=0.2"]);
    for start in ["G", "GET /stream/1 HT", "GET /stream/1 HTTP/1.1\r\nHost: x\r\n"] {
        let mut wire = server.ask(start);
        refusal(&mut wire, 408);
    }
    let mut silent = server.connect();
    refusal(&mut silent, 408);
    drop(silent);
    let stats = server.wait_open(0);
    assert_eq!(stats["connections_closed"]["head_timeout"], 4);
    // A good one is served. Its head is there when the server comes to look, so that it is not late
    // where the machine stands still.
    server.signal("STOP");
    let mut good = server.ask(get("/stream/1", &[]));
    server.signal("CONT");
    assert_eq!(good.head().status, 200);
}

#[test]
fn what_is_not_http_1_is_refused_as_such() {
    let server = Server::start(&[]);
    for (request, status) in [
        ("GET /stream/1 HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        ("GET /stream/1 HTTP/0.9\r\nHost: x\r\n\r\n", 505),
        ("GET /stream/1 HTTP/1.1\r\n\r\n", 400),
        ("GET /stream/1 HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        ("GET /stream/1\r\n\r\n", 400),
        ("GET  /stream/1 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        ("GET /stream/1 HTTP/1.1\r\nHost : x\r\n\r\n", 400),
        ("GET /stream/1 HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n", 400),
        ("GET /stream/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 413),
        ("GET /stream/1 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 413),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ] {
        refused(&server, request, status);
    }
}

#[test]
fn own_origin_may_connect_and_read() {
    let server = Server::start(&[]);
    for origin in ["http://localhost", "https://localhost"] {
        let field = format!("Origin: {origin}");
        let head = server.ask(get("/stream/1", &[&field])).head();
        assert_eq!((head.status, head.field("access-control-allow-origin")), (200, Some(origin)));
        assert_eq!(head.field("vary"), Some("Origin"));
    }
    let head = server.ask(get("/stream/1", &[])).head();
    assert_eq!(head.field("access-control-allow-origin"), None);
}

#[test]
fn listed_origin_may_connect_and_others_may_not() {
    let server =
        Server::start(&["--allow-origin=https://app.test", "--allow-origin=http://localhost:3000"]);
    for origin in ["https://app.test", "http://localhost:3000"] {
        let head = server.ask(get("/test/1", &[&format!("Origin: {origin}")])).head();
        assert_eq!((head.status, head.field("access-control-allow-origin")), (200, Some(origin)));
    }
    for origin in ["https://evil.test", "http://app.test", "https://app.test.evil.test", "null"] {
        let request = get("/stream/1", &[&format!("Origin: {origin}")]);
        let (head, problem) = refused(&server, request, 403);
        // The page may read why.
        assert_eq!(head.field("access-control-allow-origin"), Some(origin));
        assert_eq!(head.field("access-control-allow-credentials"), None);
        let listed = if origin == "null" { "'*'" } else { origin };
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("--allow-origin {listed},")), "{detail}");
    }
    server.wait_online("1", 0);
}

#[test]
fn refused_origin_is_told_once_with_what_lets_it_in() {
    let server = Server::start(&[]);
    let ask = |origin: &str| {
        refused(&server, get("/stream/1", &[&format!("Origin: {origin}")]), 403);
    };
    (0..20).for_each(|_| ask("https://app.test"));
    ask("https://other.test");
    let told = |origin: &str| server.stderr().matches(&format!("--allow-origin {origin}")).count();
    wait_for("both are told", || told("https://app.test") > 0 && told("https://other.test") > 0);
    ask("https://app.test");
    ask("https://last.test");
    wait_for("the last one is told", || told("https://last.test") > 0);
    assert_eq!((told("https://app.test"), told("https://other.test")), (1, 1));
}

#[test]
fn every_origin_may_connect_when_all_are_allowed() {
    let server = Server::start(&["--allow-origin=*"]);
    let head = server.ask(get("/stream/1", &["Origin: https://any.test"])).head();
    let allowed = head.field("access-control-allow-origin");
    assert!(matches!(allowed, Some("*" | "https://any.test")), "{allowed:?}");
}

#[test]
fn page_may_read_the_problem_it_caused() {
    let server = Server::start(&["--allow-origin=https://app.test"]);
    let (head, _) = refused(&server, get("/stream/a%20b", &["Origin: https://app.test"]), 400);
    assert_eq!(head.field("access-control-allow-origin"), Some("https://app.test"));
}

#[test]
fn options_answers_a_preflight() {
    let server = Server::start(&["--allow-origin=https://app.test"]);
    let preflight = |origin: &str| {
        let fields =
            "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: last-event-id";
        let request = format!(
            "OPTIONS /stream/1 HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\n{fields}\r\n\r\n"
        );
        let mut wire = server.ask(request);
        let head = wire.head();
        assert_eq!(wire.rest(), b"");
        head
    };
    let head = preflight("https://app.test");
    assert_eq!(head.status, 204);
    assert_eq!(head.field("access-control-allow-origin"), Some("https://app.test"));
    assert!(head.field("access-control-allow-methods").unwrap().contains("GET"));
    let headers = head.field("access-control-allow-headers").unwrap().to_ascii_lowercase();
    assert!(headers.contains("last-event-id"));
    // Or its page could not read why it is refused.
    let head = preflight("https://evil.test");
    assert_eq!(head.field("access-control-allow-origin"), Some("https://evil.test"));
    let mut wire = server.ask("OPTIONS /stream/1 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(wire.head().field("allow"), Some("GET, HEAD, OPTIONS"));
    server.wait_online("1", 0);
}
