//! The API's answers, good and bad, to clients of HTTP/1.1.

use std::thread;

use serde_json::json;

use crate::harness::{Server, Wire, read_answer};

const JSON: Option<&str> = Some("application/json");

/// The problem that a request meets.
#[track_caller]
fn problem(server: &Server, request: (&str, &str), kind: Option<&str>, body: &[u8], status: u16) {
    let answer = server.api.request(request.0, request.1, kind, body).unwrap();
    let problem = answer.problem(status);
    assert_eq!(answer.head.field("allow").is_some(), status == 405, "{request:?}: {problem}");
}

#[test]
fn paths_and_methods_that_are_not_there_are_404_and_405() {
    let server = Server::start(&[]);
    for path in ["/nowhere", "/send/1", "/stream/1", "/connections", "/subscribers/a/b", "/Stats"] {
        problem(&server, ("GET", path), None, b"", 404);
        problem(&server, ("POST", path), JSON, b"{}", 404);
    }
    for (method, path) in [
        ("GET", "/send"),
        ("GET", "/logout/1"),
        ("POST", "/stats"),
        ("POST", "/connections/1"),
        ("PUT", "/subscriptions/add"),
        ("DELETE", "/subscribers/1"),
        ("BREW", "/healthz"),
    ] {
        problem(&server, (method, path), None, b"", 405);
    }
}

#[test]
fn bodies_that_say_something_else_are_400() {
    let server = Server::start(&[]);
    let bad_events: [&[u8]; 17] = [
        b"",
        b"{",
        b"[]",
        b"[1,2]",
        b"1",
        b"{\"about\":1}",
        b"{\"data\":1}",
        b"{\"about\":1,\"data\":1,\"to\":2}",
        b"{\"about\":1.5,\"data\":1}",
        b"{\"about\":null,\"data\":1}",
        b"{\"about\":\"\",\"data\":1}",
        b"{\"about\":\"a b\",\"data\":1}",
        b"{\"about\":\"a\\nb\",\"data\":1}",
        b"{\"about\":1,\"data\":01}",
        b"{\"about\":1,\"data\":1} trailing",
        b"{\"about\":1,\"about\":2,\"data\":1}",
        b"{\"about\":1,\"data\":\"\xff\"}",
    ];
    for body in bad_events {
        problem(&server, ("POST", "/send"), JSON, body, 400);
    }
    for path in ["/subscriptions/add", "/subscriptions/remove"] {
        for body in [&b""[..], b"{}", b"[1]", b"[{}]", b"[[\"a\",\"b\"]]", b"null"] {
            problem(&server, ("POST", path), JSON, body, 400);
        }
    }
    for path in ["/connections/a%20b", "/connections/%FF", "/connections/%2F"] {
        problem(&server, ("GET", path), None, b"", 400);
    }
    problem(&server, ("POST", "/logout/a%0Ab"), None, b"", 400);
    let stats = server.api.stats();
    assert_eq!((&stats["events"], &stats["subscriptions"]), (&json!(0), &json!(0)));
}

#[test]
fn other_media_types_are_415_and_parameters_do_not_matter() {
    let server = Server::start(&[]);
    let event = b"{\"about\":1,\"data\":1}";
    for kind in ["text/html", "application/xml", "multipart/form-data", "json", ""] {
        for path in ["/send", "/subscriptions/add", "/subscriptions/remove"] {
            problem(&server, ("POST", path), Some(kind), event, 415);
        }
    }
    for kind in ["application/json; charset=utf-8", "Application/JSON", "application/x-ndjson;x=y"]
    {
        server.api.request("POST", "/send", Some(kind), event).unwrap().ok();
    }
    server.api.request("POST", "/send", None, event).unwrap().ok();
    // What `curl -d` says of itself, and `fetch` with a string.
    for kind in ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8"] {
        server.api.request("POST", "/send", Some(kind), event).unwrap().ok();
        let two = [&event[..], b"\n", event].concat();
        let refused = server.api.request("POST", "/send", Some(kind), &two).unwrap();
        assert!(refused.body.contains("application/x-ndjson"), "{refused:?}");
        refused.problem(400);
    }
}

#[test]
fn page_of_another_origin_is_refused_and_nothing_is_sent() {
    let server = Server::start(&[]);
    let body = "{\"about\":1,\"data\":1}";
    let post_as = |kind: &str, origin: &str| {
        let mut wire = Wire::connect(server.api.address());
        wire.send(
            format!(
                "POST /send HTTP/1.1\r\nHost: push.test\r\nOrigin: {origin}\r\n\
                 Connection: close\r\nContent-Type: {kind}\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .as_bytes(),
        );
        let answer = String::from_utf8(wire.rest()).unwrap();
        answer[9..12].to_owned()
    };
    // What a page may send without asking before.
    for kind in ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8"] {
        let post = |origin: &str| post_as(kind, origin);
        for origin in ["https://evil.test", "null", "http://push.test.evil.test", "\u{e9}"] {
            assert_eq!(post(origin), "403", "{origin}");
        }
    }
    assert_eq!(server.api.stats()["events"], 0);
    assert_eq!(post_as("text/plain", "http://push.test"), "200");
}

#[test]
fn bodies_past_their_bound_are_413_and_the_connection_lives() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    let event = |len: usize| json!({ "about": 1, "data": "x".repeat(len) });
    for len in [65_536, 900_000, 1_100_000, 4_000_000] {
        server.api.post("/send", &event(len)).problem(413);
    }
    assert_eq!(server.api.post("/send", &event(65_000)).ok()["delivered"], 1);
    assert_eq!(listener.data().as_str().unwrap().len(), 65_000);
    let pair = json!({ "subscriber": "x".repeat(200), "subscribee": "y" });
    let pairs = json!(vec![pair; 50_000]);
    server.api.post("/subscriptions/add", &pairs).problem(413);
    assert_eq!(server.api.stats()["subscriptions"], 0);
}

#[test]
fn payload_is_handed_on_as_it_was_written() {
    let server = Server::start(&[]);
    let mut listener = server.listener("1");
    for data in [
        "null",
        "true",
        "0",
        "-1.50e+300",
        "123456789012345678901234567890",
        "\"\"",
        "\"\\u0041\\ud83d\\ude00\\/\"",
        "\"\u{1f600}\u{2028}\"",
        "{}",
        "[[],[ ] ,{\"a\" : 1,\"a\":2}]",
    ] {
        let body = format!("{{\"data\":{data} ,\"about\":1}}");
        server.api.request("POST", "/send", JSON, body.as_bytes()).unwrap().ok();
        let line = listener.chunk();
        assert!(line.ends_with(&format!(",\"data\":{data}}}\n")), "{line} for {data}");
    }
}

#[test]
fn health_and_head_are_answered() {
    let server = Server::start(&[]);
    for path in ["/healthz", "/readyz"] {
        server.api.get(path).ok();
    }
    let head = server.api.request("HEAD", "/stats", None, b"").unwrap();
    assert_eq!((head.status(), head.body.as_str()), (200, ""));
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let server = Server::start(&[]);
    let mut wire = Wire::connect(server.api.address());
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n");
    wire.send(get("/healthz") + &get("/nowhere") + &get("/connections/1") + &get("/readyz"));
    let statuses: Vec<_> =
        (0..4).map(|_| read_answer(&mut wire, "GET").unwrap().status()).collect();
    assert_eq!(statuses, [200, 404, 200, 200]);
}

#[test]
fn body_may_be_chunked_and_wait_for_100_continue() {
    let server = Server::start(&[]);
    let mut wire = Wire::connect(server.api.address());
    wire.send("POST /send HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    wire.send("8\r\n{\"about\"\r\n1\r\n:\r\nb\r\n1,\"data\":2}\r\n0\r\n\r\n");
    assert_eq!(read_answer(&mut wire, "POST").unwrap().ok()["delivered"], 0);
    let body = "{\"about\":1,\"data\":2}";
    let length = body.len();
    wire.send(format!(
        "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nExpect: 100-continue\r\n\r\n"
    ));
    assert_eq!(wire.head().status, 100);
    wire.send(body);
    assert_eq!(read_answer(&mut wire, "POST").unwrap().ok()["delivered"], 0);
}

#[test]
fn broken_clients_of_the_api_harm_nobody() {
    let server = Server::start(&[]);
    let mut stream = server.listener("1");
    let head = "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n";
    for n in 0..50 {
        for bytes in [
            "",
            "\x16\x03\x01\x02\x00\x01",
            "GET",
            "GARBAGE\r\n\r\n",
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nnonsense that is no frame",
            head,
            "POST /send HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        ] {
            let mut wire = Wire::connect(server.api.address());
            wire.send(bytes);
            if n % 2 == 0 {
                wire.reset();
            }
        }
    }
    let mut wire = Wire::connect(server.api.address());
    wire.send("GET /stats HTTP/1.1\r\nHost: x\r\n");
    wire.send_until_cut_off("X-Pad: yes\r\n".repeat(1000));
    assert_eq!(server.api.send("1", "well"), 1);
    assert_eq!(stream.data(), "well");
}

#[test]
fn hundreds_of_applications_at_one_time_are_served() {
    let server = Server::start(&["--max-backlog=16MiB"]);
    let mut stream = server.listener("1");
    let address = server.api.address();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(move || {
                let mut wires: Vec<_> = (0..40).map(|_| Wire::connect(address)).collect();
                let event = "{\"about\":1,\"data\":\"x\"}";
                for round in 0..5 {
                    for wire in &mut wires {
                        wire.send(format!(
                            "POST /send HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{event}",
                            event.len()
                        ));
                    }
                    for wire in &mut wires {
                        let answer = read_answer(wire, "POST").unwrap().ok();
                        assert_eq!(answer["delivered"], 1, "round {round}");
                    }
                }
            });
        }
    });
    for _ in 0..8 * 40 * 5 {
        assert_eq!(stream.data(), "x");
    }
}

#[test]
fn strange_payloads_harm_nobody() {
    let server = Server::start(&["--max-backlog=4MiB"]);
    let mut streams = [server.listener("1"), server.stream("/test/1", "*/*")];
    streams[1].chunk();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    let halves = "\"\\ud800 \\udc00\\ud800\"";
    for data in [halves, &nested(100), &nested(10_000), &nested(500_000), &"[".repeat(500_000)] {
        let body = format!("{{\"about\":1,\"data\":{data}}}");
        let answer = server.api.request("POST", "/send", JSON, body.as_bytes()).unwrap();
        // To take it or not is the server's choice; to take it and not to deliver it is not.
        match answer.status() {
            200 => {
                assert_eq!(answer.json()["delivered"], 2);
                assert!(streams[0].chunk().ends_with(&format!("{data}}}\n")));
                assert!(streams[1].chunk().ends_with("'<br/>\n"));
            }
            status => assert_eq!(answer.problem(status)["status"], 400),
        }
    }
    let deep = "[".repeat(3_000_000);
    for path in ["/send", "/subscriptions/add"] {
        let answer = server.api.request("POST", path, JSON, deep.as_bytes()).unwrap();
        assert!(matches!(answer.status(), 400 | 413), "{answer:?}");
    }
    assert_eq!(server.api.send("1", "well"), 2);
}
