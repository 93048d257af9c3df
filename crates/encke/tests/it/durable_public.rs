//! Durable streams on the public port: who reads there, who appends, and what pages are let in.

use std::any::Any;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::json;
use socket2::SockRef;

use crate::harness::{
    Answer, Api, Authority, Server, Signer, Stream, TOKEN_SECRET, get, in_seconds, read_answer,
    signed, tls_client, wait_for,
};
use crate::upgrade::Upgraded;

/// A token of bob, who may read all runs, and append to the first one.
fn token() -> String {
    let encke = json!({ "read": ["run/*"], "write": ["run/1"] });
    signed(&json!({ "sub": "bob", "exp": in_seconds(600), "encke": encke }))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

/// A server whose streams need tokens, with two of them.
fn guarded(options: &[&str]) -> Server {
    let key = format!("--token-key={TOKEN_SECRET}");
    let server = Server::start(&[&["--streams", &key], options].concat());
    ["run/1", "run/2", "other"].into_iter().for_each(|path| put(&server.api, path));
    server
}

fn put(api: &Api, path: &str) {
    let path = format!("/v1/stream/{path}");
    let created = api.request("PUT", &path, Some("text/plain"), b"").unwrap();
    assert_eq!(created.status(), 201, "{created:?}");
}

fn append(api: &Api, path: &str, text: &str) {
    let appended =
        api.post_with(&format!("/v1/stream/{path}"), "Content-Type: text/plain\r\n", text);
    assert_eq!(appended.status(), 204, "{appended:?}");
}

fn read(server: &Server, target: &str, fields: &[&str]) -> Answer {
    let target = format!("/v1/stream/{target}");
    read_answer(&mut server.ask(get(&target, fields)), "GET").unwrap()
}

/// A request that appends `text` to the stream at `path`.
fn request(path: &str, fields: &[&str], text: &str) -> String {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!(
        "POST /v1/stream/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n\
         {fields}Content-Length: {}\r\n\r\n{text}",
        text.len()
    )
}

fn append_by(server: &Server, path: &str, fields: &[&str], text: &str) -> Answer {
    read_answer(&mut server.ask(request(path, fields, text)), "POST").unwrap()
}

fn next(answer: &Answer) -> String {
    answer.head.field("stream-next-offset").unwrap().to_owned()
}

#[test]
fn everybody_reads_where_no_token_is_needed_and_nobody_appends() {
    let server = Server::start(&["--streams"]);
    put(&server.api, "run/1");
    append(&server.api, "run/1", "Hello ");
    let first = read(&server, "run/1", &[]);
    assert_eq!((first.status(), &*first.body), (200, "Hello "));
    assert_eq!(first.head.field("connection"), Some("close"));
    assert_eq!(first.head.field("x-content-type-options"), Some("nosniff"));
    let place = next(&first);
    let tag = format!("If-None-Match: {}", first.head.field("etag").unwrap());
    assert_eq!(read(&server, "run/1", &[&tag]).status(), 304);
    // One who waits hears what comes.
    let mut wire = server.ask(get(&format!("/v1/stream/run/1?offset={place}&live=long-poll"), &[]));
    let mut events = Stream::open(
        server.listen(),
        &format!("/v1/stream/run/1?offset={place}&live=sse"),
        "text/event-stream",
    );
    assert!(events.chunk().starts_with("event: control\n"));
    append(&server.api, "run/1", "world");
    let polled = read_answer(&mut wire, "GET").unwrap();
    assert_eq!((polled.status(), &*polled.body), (200, "world"));
    let event = events.chunk();
    assert!(event.starts_with("event: data\ndata:world\nid: "), "{event}");
    let head = get("/v1/stream/run/1", &[]).replacen("GET", "HEAD", 1);
    let head = server.ask(head).head();
    assert_eq!((head.status, head.field("content-type")), (200, Some("text/plain")));
    assert_eq!(head.field("content-length"), None, "that of GET is not known");
    read(&server, "run/2", &[]).problem(404);
    append_by(&server, "run/1", &[], "!").problem(403);
    for method in ["PUT", "DELETE"] {
        let request = request("run/3", &[], "").replacen("POST", method, 1);
        let refused = read_answer(&mut server.ask(request), method).unwrap();
        assert_eq!(refused.head.field("allow"), Some("GET, HEAD, POST, OPTIONS"));
        refused.problem(405);
    }
    assert_eq!(read(&server, "run/1", &[]).body, "Hello world");
    let without = Server::start(&[]);
    read(&without, "run/1", &[]).problem(404);
}

#[test]
fn token_grants_to_read_and_to_append_by_path() {
    let server = guarded(&["--client-send-rate=0", "--client-payload=1000"]);
    let bob = bearer(&token());
    read(&server, "run/1", &[]).problem(401);
    read(&server, "run/1", &[&bearer("x")]).problem(401);
    read(&server, "other", &[&bob]).problem(403);
    append_by(&server, "run/2", &[&bob], "x").problem(403);
    append_by(&server, "run/1", &[], "x").problem(401);
    assert_eq!(append_by(&server, "run/1", &[&bob], "Hello ").status(), 204);
    let chunked = format!(
        "POST /v1/stream/run%2F1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n{bob}\
         \r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut wire = server.ask(chunked);
    assert_eq!(wire.head().status, 100);
    wire.send("3\r\nwor\r\n2\r\nld\r\n0\r\n\r\n");
    assert_eq!(read_answer(&mut wire, "POST").unwrap().status(), 204);
    append_by(&server, "run/1", &[&bob], &"x".repeat(1_001)).problem(413);
    let producer = ["Producer-Id: w", "Producer-Epoch: 0", "Producer-Seq: 0"];
    let fields = [&producer[..], &[&bob, "Stream-Closed: true"]].concat();
    assert_eq!(append_by(&server, "run/1", &fields, "!").status(), 200);
    assert_eq!(append_by(&server, "run/1", &fields, "!").status(), 204, "it was taken before");
    let whole = read(&server, &format!("run/1?token={}", token()), &[]);
    assert_eq!((&*whole.body, whole.head.field("stream-closed")), ("Hello world!", Some("true")));
    let cached = whole.head.field("cache-control").unwrap();
    assert!(cached.starts_with("private"), "{cached}");
}

#[test]
fn appends_of_a_token_share_the_rate_of_what_it_sends() {
    let server = guarded(&["--client-send-rate=1"]);
    let bob = bearer(&token());
    assert_eq!(append_by(&server, "run/1", &[&bob], "x").status(), 204);
    // However slow they are.
    wait_for("one is too many", || {
        let answer = append_by(&server, "run/1", &[&bob], "x");
        let refused = answer.status() == 429;
        assert!(!refused || answer.head.field("retry-after") == Some("1"), "{answer:?}");
        refused
    });
    assert_eq!(read(&server, "run/1", &[&bob]).status(), 200, "reads have no rate");
}

#[test]
fn connection_is_for_the_request_that_was_let_in() {
    let server = guarded(&[]);
    append(&server.api, "other", "secret");
    let bob = bearer(&token());
    // What comes behind it was let in by nobody.
    let both = get("/v1/stream/run/1", &[&bob]) + &get("/v1/stream/other", &[]);
    let mut wire = server.ask(both);
    assert_eq!(read_answer(&mut wire, "GET").unwrap().status(), 200);
    let rest = String::from_utf8(wire.rest()).unwrap();
    assert!(!rest.contains("secret"), "{rest}");
}

#[test]
fn pages_read_and_append_where_they_are_let_in() {
    let server = guarded(&["--allow-origin=https://app.test"]);
    let preflight = "OPTIONS /v1/stream/run/1 HTTP/1.1\r\nHost: localhost\r\n\
                     Origin: https://app.test\r\nAccess-Control-Request-Method: POST\r\n\
                     Access-Control-Request-Headers: stream-closed\r\n\r\n";
    let head = server.ask(preflight).head();
    assert_eq!(head.field("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(head.field("access-control-allow-methods"), Some("GET, HEAD, POST, OPTIONS"));
    let headers = head.field("access-control-allow-headers").unwrap();
    assert!(headers.contains("If-None-Match") && headers.contains("Stream-Closed"), "{headers}");
    let cookie = format!("Cookie: encke_token={}", token());
    let read = |fields: &[&str]| {
        let head = server.ask(get("/v1/stream/run/1", fields)).head();
        let field = |name| head.field(name).map(str::to_owned);
        (head.status, field("access-control-allow-origin"), field("access-control-expose-headers"))
    };
    let (status, origin, exposed) = read(&["Origin: https://app.test", &cookie]);
    assert_eq!((status, origin.as_deref()), (200, Some("https://app.test")));
    assert!(exposed.unwrap().contains("Stream-Next-Offset"));
    assert_eq!(read(&["Origin: https://evil.test", &cookie]).0, 403);
    assert_eq!(read(&["Sec-Fetch-Site: cross-site", &cookie]).0, 401);
    assert_eq!(read(&["Origin: https://app.test"]).0, 401);
    let refused = append_by(&server, "run/1", &["Origin: https://app.test"], "x");
    let exposed = refused.head.field("access-control-expose-headers").unwrap();
    assert!(refused.status() == 401 && exposed.contains("WWW-Authenticate"), "{refused:?}");
    let by_evil = ["Origin: https://evil.test", &*cookie];
    append_by(&server, "run/1", &by_evil, "x").problem(403);
    let by_app = ["Origin: https://app.test", &*cookie];
    let appended = append_by(&server, "run/1", &by_app, "x");
    assert_eq!(appended.status(), 204, "{appended:?}");
    let credentials = appended.head.field("access-control-allow-credentials");
    assert_eq!(credentials, Some("true"));
}

#[test]
fn stream_comes_over_tls_whole_and_is_appended_to() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let server =
        guarded(&["--tls-listen=127.0.0.1:0", &pair[0], &pair[1], "--client-payload=1000000"]);
    let ask = |request: &str| {
        let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // Read to the end, which TLS tells.
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let bob = bearer(&token());
    let text: String = (0..20_000).map(|n| format!("{n},")).collect();
    let appended = ask(&request("run/1", &[&bob], &text));
    assert!(appended.starts_with("HTTP/1.1 204 "), "{appended}");
    let answer = ask(&get("/v1/stream/run/1", &[&bob]));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(body == text, "{} bytes of {}", body.len(), text.len());
}

/// The next read has megabytes to hold, whatever speaks TLS. The API has room of its own.
#[test]
fn readers_that_take_nothing_are_bounded_and_take_nothing_of_the_api() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let server = Server::start(&["--streams", "--tls-listen=127.0.0.1:0", &pair[0], &pair[1]]);
    let bytes = 8 << 20;
    put(&server.api, "run/1");
    append(&server.api, "run/1", &"x".repeat(bytes));
    let ask = get("/v1/stream/run/1", &[]);
    let status = || read(&server, "run/1", &[]).status();
    let reader = |is_tls: bool| -> Box<dyn Any> {
        if is_tls {
            let mut stream = tls_client(server.tls_listen(), "localhost", &authority.ca());
            SockRef::from(&stream.sock).set_recv_buffer_size(4096).unwrap();
            stream.write_all(ask.as_bytes()).unwrap();
            stream.flush().unwrap();
            return Box::new(stream);
        }
        Box::new(lazy_reader(&server, &[]))
    };
    for is_tls in [false, true] {
        // The answer before may hold its room for a moment behind its end.
        wait_for("there is room", || status() == 200);
        let mut readers: Vec<Box<dyn Any>> = Vec::new();
        // What the kernel takes of each answer leaves room for another one. Several at a time: who
        // takes nothing is cut off after a while, and then there must be as many already.
        wait_for("all room is taken", || {
            readers.extend((0..8).map(|_| reader(is_tls)));
            status() == 503
        });
        let by_key = server.api.request("GET", "/v1/stream/run/1", None, b"").unwrap();
        assert_eq!((by_key.status(), by_key.body.len()), (200, bytes));
        drop(readers);
        wait_for("it is given back", || status() == 200);
    }
}

/// A reader of the stream at `run/1` that takes as little of its answer as its kernel lets it.
fn lazy_reader(server: &Server, fields: &[&str]) -> TcpStream {
    let mut stream = TcpStream::connect(server.listen()).unwrap();
    SockRef::from(&stream).set_recv_buffer_size(4096).unwrap();
    stream.write_all(get("/v1/stream/run/1", fields).as_bytes()).unwrap();
    stream
}

#[test]
fn one_token_and_one_address_leave_room_for_others() {
    let by = |sub: &str| {
        let claims = json!({ "sub": sub, "exp": in_seconds(600), "encke": { "read": ["run/*"] } });
        bearer(&signed(&claims))
    };
    let from = |address: &str| format!("X-Forwarded-For: {address}");
    let server = guarded(&["--trust=127.0.0.0/8"]);
    append(&server.api, "run/1", &"x".repeat(8 << 20));
    let status = |fields: &[&str]| read(&server, "run/1", fields).status();
    // One token by many addresses, then many tokens at one address.
    for is_token in [true, false] {
        let client = |n: usize| match is_token {
            true => [by("bob"), from(&format!("192.0.2.{n}"))],
            false => [by(&format!("user:{n}")), from("192.0.2.200")],
        };
        let mut held = Vec::new();
        wait_for("one has its share", || {
            let fields = client(held.len() + 1);
            let fields = [&*fields[0], &*fields[1]];
            held.push(lazy_reader(&server, &fields));
            status(&fields) == 429
        });
        assert!(held.len() <= 32, "{} answers of 8 MiB", held.len());
        let other = [by("eve"), from("198.51.100.7")];
        assert_eq!(status(&[&other[0], &other[1]]), 200, "{is_token}");
        drop(held);
    }
}

#[test]
fn requests_count_for_the_connections_that_a_token_is_good_for() {
    let server = guarded(&[]);
    let encke = json!({ "read": ["run/*"], "max_connections": 2 });
    let token = signed(&json!({ "sub": "bob", "exp": in_seconds(600), "encke": encke }));
    let target = format!("/v1/stream/run/1?offset=-1&live=sse&token={token}");
    let mut reader = Stream::open(server.listen(), &target, "text/event-stream");
    assert!(reader.chunk().starts_with("event: control\n"));
    let path = format!("/stream/bob?token={token}");
    let stream = server.stream(&path, "application/x-ndjson");
    let bob = bearer(&token);
    let refused = read(&server, "run/1", &[&bob]);
    assert!(refused.head.field("retry-after").is_some());
    refused.problem(429);
    append_by(&server, "run/1", &[&bob], "x").problem(403);
    drop(reader);
    // One at a time: an answer holds its use for a moment behind its end.
    wait_for("the reader's use is given back", || read(&server, "run/1", &[&bob]).status() == 200);
    drop(stream);
}

#[test]
fn long_append_is_taken_with_a_token_that_is_verified_elsewhere() {
    let (dir, signer) = (tempfile::tempdir().unwrap(), Signer::new("one"));
    let key = dir.path().join("key.pem");
    signer.write_pem(&key);
    let server = Server::start(&[
        "--streams",
        &format!("--token-key={}", key.display()),
        "--client-payload=65536",
    ]);
    put(&server.api, "run/1");
    let token = |path: &str| {
        let encke = json!({ "read": [path], "write": [path] });
        bearer(&signer.signed(&json!({ "sub": "bob", "exp": in_seconds(600), "encke": encke })))
    };
    let text = "0123456789".repeat(4_096);
    assert_eq!(append_by(&server, "run/1", &[&token("run/1")], &text).status(), 204);
    append_by(&server, "run/1", &[&token("run/2")], &text).problem(403);
    assert_eq!(read(&server, "run/1", &[&token("run/*")]).body, text);
}

#[test]
fn reader_comes_back_after_an_upgrade_and_goes_on() {
    let server = Upgraded::serve(&["--streams"]);
    put(&server.api, "run/1");
    append(&server.api, "run/1", "a");
    let target = "/v1/stream/run/1?offset=-1&live=sse";
    let mut events = Stream::open(server.listen(), target, "text/event-stream");
    assert!(events.chunk().starts_with("event: data\ndata:a\n"));
    server.upgrade(&[]);
    events.expect_last_chunk();
    append(&server.api, "run/1", "b");
    let read = || read(&server, "run/1", &[]);
    wait_for("the new version serves it", || read().status() == 200);
    assert_eq!(read().body, "ab");
}
