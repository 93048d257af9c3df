//! The past of an id in pages on the public port, for those whose token grants it.

use std::io::{BufRead, BufReader, Read, Write};

use serde_json::{Value, json};

use crate::harness::{
    Answer, Authority, Server, TOKEN_SECRET, get, in_seconds, read_answer, signed, tls_client,
};
use crate::tokens::guarded;
use crate::upgrade::served::Upgraded;

/// A token of `sub`, which may read what was sent about rooms.
fn token(sub: &str) -> String {
    let encke = json!({ "history": ["room:*"], "send": ["room:*"] });
    signed(&json!({ "sub": sub, "exp": in_seconds(600), "encke": encke }))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

fn ask(server: &Server, target: &str, fields: &[&str]) -> Answer {
    read_answer(&mut server.ask(get(target, fields)), "GET").unwrap()
}

fn send_all(server: &Server, about: &str, payloads: impl Iterator<Item = Value>) {
    let send = |data| server.api.post("/send", &json!({ "about": about, "data": data })).ok();
    payloads.for_each(|data| drop(send(data)));
}

fn data(page: &Value) -> Vec<Value> {
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["data"].clone()).collect()
}

#[test]
fn pages_are_those_of_the_api_from_either_end() {
    let rate = "--client-send-rate=0";
    let server = Server::start(&[&format!("--token-key={TOKEN_SECRET}"), rate]);
    send_all(&server, "room:7", (0..25).map(Value::from));
    let bob = bearer(&token("bob"));
    let mut wire = server.connect();
    for (order, place) in [("asc", "after"), ("desc", "before")] {
        let (mut heard, mut query) = (Vec::new(), format!("?order={order}&limit=10"));
        loop {
            wire.send(get(&format!("/events/room%3A7{query}"), &[&bob]));
            let page = read_answer(&mut wire, "GET").unwrap();
            assert_eq!(page.body, server.api.get(&format!("/events/room:7{query}")).body);
            let page = page.ok();
            heard.extend(data(&page));
            let Some(next) = page["next"].as_str() else { break };
            query = format!("?order={order}&limit=10&{place}={next}");
        }
        if order == "desc" {
            heard.reverse();
        }
        assert_eq!(heard, (0..25).map(Value::from).collect::<Vec<_>>(), "{order}");
    }
    let by_query = format!("/events/room:7?token={}&limit=1", token("bob"));
    assert_eq!(data(&ask(&server, &by_query, &[]).ok()), [json!(0)]);
    assert_eq!(ask(&server, "/events/room:7?after=00000000001Ab9Cz", &[&bob]).ok()["gap"], true);
    assert_eq!(ask(&server, "/events/room:8", &[&bob]).ok(), json!({ "events": [], "next": null }));
}

#[test]
fn who_may_not_read_is_told_why_and_what_cannot_be_read_is_refused() {
    let server = guarded();
    let bob = bearer(&token("bob"));
    ask(&server, "/events/room:7", &[]).problem(401);
    ask(&server, "/events/room:7", &[&bearer("x")]).problem(401);
    ask(&server, "/events/bob", &[&bob]).problem(403);
    ask(&server, "/events", &[&bob]).problem(404);
    ask(&server, "/events/", &[&bob]).problem(400);
    let mut wire = server.connect();
    for bad in
        ["after=x", "before=earliest", "limit=0", "limit=1001", "order=up", "limit=1&limit=2"]
    {
        wire.send(get(&format!("/events/room:7?{bad}"), &[&bob]));
        let refused = read_answer(&mut wire, "GET").unwrap();
        assert_eq!(refused.status(), 400, "{bad}: {}", refused.body);
        refused.problem(400);
    }
    let open = Server::start(&["--client-send"]);
    ask(&open, "/events/room:7", &[]).problem(404);
}

#[test]
fn pages_fit_into_what_may_wait_for_a_connection() {
    let options = [&format!("--token-key={TOKEN_SECRET}"), "--max-backlog=20000"];
    let server = Server::start(&options);
    let payload = |n: usize, len: usize| json!(format!("{n}{}", "x".repeat(len)));
    send_all(&server, "room:7", (0..20).map(|n| payload(n, 3_000)));
    send_all(&server, "room:8", [payload(1, 17_000), payload(2, 10)].into_iter());
    let bob = bearer(&token("bob"));
    let (mut heard, mut query, mut pages) = (0, String::new(), 0);
    let mut wire = server.connect();
    loop {
        wire.send(get(&format!("/events/room:7{query}"), &[&bob]));
        let page = read_answer(&mut wire, "GET").unwrap();
        assert!(page.body.len() < 20_000, "{}", page.body.len());
        let page = page.ok();
        (heard, pages) = (heard + data(&page).len(), pages + 1);
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?after={next}");
    }
    assert_eq!((heard, pages), (20, 4), "five of them are 15,000 bytes and some");
    // One that is longer than a page comes alone.
    let page = ask(&server, "/events/room:8", &[&bob]).ok();
    assert_eq!((data(&page).len(), page["next"].is_string()), (1, true));
}

#[test]
fn requests_share_a_connection_and_of_a_head_comes_no_body() {
    let server = guarded();
    send_all(&server, "room:7", (0..3).map(Value::from));
    let bob = bearer(&token("bob"));
    let one = |method: &str, limit: &str| {
        let target = format!("/events/room:7?limit={limit}");
        get(&target, &[&bob]).replacen("GET", method, 1)
    };
    let all = [one("GET", "1"), one("HEAD", "2"), one("HEAD", "x"), one("GET", "3")].concat();
    let mut wire = server.ask(all);
    assert_eq!(data(&read_answer(&mut wire, "GET").unwrap().ok()), [json!(0)]);
    let head = wire.head();
    let api = server.api.get("/events/room:7?limit=2").body.len().to_string();
    assert_eq!((head.status, head.field("content-length")), (200, Some(&*api)));
    assert_eq!(head.field("content-type"), Some("application/json"));
    assert_eq!(wire.head().status, 400);
    assert_eq!(data(&read_answer(&mut wire, "GET").unwrap().ok()).len(), 3);
    // The connection is there for a poll, too.
    wire.send(get("/poll/bob?wait=0", &[&bob]));
    assert_eq!(read_answer(&mut wire, "GET").unwrap().ok(), json!([]));
}

#[test]
fn reads_and_sends_of_a_token_share_its_rate_over_all_connections() {
    let server = Server::start(&[&format!("--token-key={TOKEN_SECRET}"), "--client-send-rate=1"]);
    let bob = bearer(&token("bob"));
    let answers: Vec<Answer> = (0..8).map(|_| ask(&server, "/events/room:7", &[&bob])).collect();
    let refused = answers.iter().find(|answer| answer.status() == 429).unwrap();
    assert_eq!(refused.head.field("retry-after"), Some("1"));
    assert!(answers.iter().any(|answer| answer.status() == 200));
    assert_eq!(ask(&server, "/events/room:7", &[&bearer(&token("carol"))]).status(), 200);
}

#[test]
fn pages_of_browsers_read_where_they_are_let_in() {
    let options = [&format!("--token-key={TOKEN_SECRET}"), "--allow-origin=https://app.test"];
    let server = Server::start(&options);
    let preflight = "OPTIONS /events/room:7 HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.test\
                     \r\nAccess-Control-Request-Method: GET\r\n\
                     Access-Control-Request-Headers: authorization\r\n\r\n";
    let head = server.ask(preflight).head();
    assert_eq!(head.field("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(head.field("access-control-allow-methods"), Some("GET, HEAD, OPTIONS"));
    let cookie = format!("Cookie: encke_token={}", token("bob"));
    let read = |fields: &[&str]| {
        let head = server.ask(get("/events/room:7", fields)).head();
        (head.status, head.field("access-control-allow-origin").map(str::to_owned))
    };
    let app = Some("https://app.test".to_owned());
    assert_eq!(read(&["Origin: https://app.test", &cookie]), (200, app.clone()));
    assert_eq!(read(&["Origin: https://evil.test", &cookie]).0, 403);
    assert_eq!(read(&["Sec-Fetch-Site: cross-site", &cookie]).0, 401);
    assert_eq!(read(&["Origin: https://app.test"]), (401, app), "the page may read why");
}

#[test]
fn page_comes_over_tls_whole() {
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost", "127.0.0.1"]).options();
    let key = format!("--token-key={TOKEN_SECRET}");
    let server = Server::start(&["--tls-listen=127.0.0.1:0", &pair[0], &pair[1], &key]);
    send_all(&server, "room:7", (0..15).map(|n| json!(format!("{n}{}", "x".repeat(3_000)))));
    let mut stream = BufReader::new(tls_client(server.tls_listen(), "localhost", &authority.ca()));
    for _ in 0..2 {
        let request = get("/events/room:7", &[&bearer(&token("bob"))]);
        stream.get_mut().write_all(request.as_bytes()).unwrap();
        let mut len = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                len = value.trim_end().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; len];
        stream.read_exact(&mut body).unwrap();
        assert_eq!(data(&serde_json::from_slice(&body).unwrap()).len(), 15);
    }
}

#[test]
fn connection_that_reads_goes_on_with_an_upgrade() {
    let server = Upgraded::serve(&[&format!("--token-key={TOKEN_SECRET}")]);
    send_all(&server, "room:7", (0..3).map(Value::from));
    let bob = bearer(&token("bob"));
    let request = get("/events/room:7", &[&bob]);
    let mut wire = server.ask(&request);
    assert_eq!(data(&read_answer(&mut wire, "GET").unwrap().ok()).len(), 3);
    server.upgrade(&[]);
    wire.send(&request);
    assert_eq!(data(&read_answer(&mut wire, "GET").unwrap().ok()).len(), 3);
}
