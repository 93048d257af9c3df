//! Clients that publish: by a message of a WebSocket and by `POST /send`, with tokens and without.

use serde_json::{Value, json};

use crate::harness::{
    Answer, Server, Socket, TOKEN_SECRET, Wire, check_problem, get, in_seconds, read_answer,
    signed, wait_for,
};
use crate::tokens::guarded;

/// A token of `sub`, which grants to listen to rooms and to send about `send`.
pub(crate) fn token(sub: &str, send: &[&str]) -> String {
    let encke = json!({ "ids": ["room:*"], "send": send });
    signed(&json!({ "sub": sub, "exp": in_seconds(600), "encke": encke }))
}

pub(crate) fn socket(server: &Server, id: &str, token: &str) -> Socket {
    Socket::open(server.listen(), &format!("/stream/{id}?token={token}"))
}

/// A server where everybody may send.
fn open(options: &[&str]) -> Server {
    Server::start(&[&["--client-send"], options].concat())
}

pub(crate) fn request(target: &str, fields: &[&str], body: &str) -> String {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n{fields}\r\n{body}",
        body.len()
    )
}

fn answer(wire: &mut Wire) -> Answer {
    read_answer(wire, "POST").unwrap()
}

fn post(server: &Server, token: &str, event: &Value) -> Answer {
    let bearer = format!("Authorization: Bearer {token}");
    answer(&mut server.ask(request("/send", &[&bearer], &event.to_string())))
}

/// The status of what a send on a WebSocket was refused for, which repeats its reference.
fn refused(answer: &Value, reference: &Value) -> u64 {
    assert_eq!(&answer["ref"], reference, "{answer}");
    let status = answer["error"]["status"].as_u64().unwrap();
    check_problem(
        &json!({
            "type": answer["error"]["type"],
            "title": answer["error"]["title"],
            "status": status,
            "detail": answer["error"]["detail"],
        }),
        status as u16,
    );
    status
}

#[test]
fn client_sends_what_its_token_grants_and_others_hear_from_whom() {
    let server = guarded();
    let bob_token = token("bob", &["room:*"]);
    let mut bob = socket(&server, "room:7", &bob_token);
    let mut second_bob = socket(&server, "room:7", &bob_token);
    let mut alice = socket(&server, "room:7", &token("alice", &[]));
    let event = json!({"about": "room:7", "event": "typing", "data": {"x": 1.50}});
    let sent = bob.ask(json!({"send": event, "ref": 1}));
    assert_eq!((&sent["ok"]["delivered"], &sent["ref"]), (&json!(2), &json!(1)), "{sent}");
    for hears in [&mut second_bob, &mut alice] {
        let heard = hears.json();
        assert_eq!(heard["id"], sent["ok"]["id"]);
        let parts = (&heard["about"], &heard["event"], &heard["from"], &heard["data"]);
        assert_eq!(parts, (&json!("room:7"), &json!("typing"), &json!("bob"), &json!({"x": 1.5})));
    }
    // Who says so hears it too; a reference may be a text, or not there.
    let echo = json!({"about": "room:7", "text": "two\nlines", "echo": true});
    bob.send(json!({"send": echo, "ref": "a \"b\""}).to_string());
    let (one, two) = (bob.json(), bob.json());
    let (event, ok) = if one["ok"].is_object() { (two, one) } else { (one, two) };
    assert_eq!((&ok["ok"]["delivered"], &ok["ref"]), (&json!(3), &json!("a \"b\"")));
    assert_eq!((&event["data"], &event["from"]), (&json!("two\nlines"), &json!("bob")));
    assert_eq!((alice.data(), second_bob.data()), (json!("two\nlines"), json!("two\nlines")));
    let sent = bob.ask(json!({"send": {"about": "room:8", "data": 1}}));
    assert_eq!((&sent["ok"]["delivered"], sent.get("ref")), (&json!(0), None));
    // Of several subjects each must be granted.
    let several = json!({"about": ["room:7", "user:9"], "data": 1});
    assert_eq!(refused(&bob.ask(json!({"send": several, "ref": -1.5})), &json!(-1.5)), 403);
    let event = json!({"about": "room:7", "data": 1});
    assert_eq!(refused(&alice.ask(json!({"send": event, "ref": 7})), &json!(7)), 403);
    for bad in [json!(1), json!({"about": "room:7"}), json!({"about": "room:7", "data": 1, "x": 2})]
    {
        assert_eq!(refused(&bob.ask(json!({"send": bad, "ref": 7})), &json!(7)), 400, "{bad}");
    }
    assert_eq!(server.api.send("room:7", "still"), 3);
    assert_eq!((bob.data(), alice.data()), (json!("still"), json!("still")));
}

#[test]
fn new_token_grants_from_its_answer_on() {
    let server = guarded();
    let mut bob = socket(&server, "bob", &token("bob", &[]));
    let send = json!({"send": {"about": "room:7", "data": 1}, "ref": 1});
    assert_eq!(refused(&bob.ask(send.clone()), &json!(1)), 403);
    // A message of four kilobytes is the longest of one who may not send.
    assert_eq!(bob.ask(json!({"token": token("bob", &["room:7"])}))["ok"]["token"], true);
    assert_eq!(bob.ask(send.clone())["ok"]["delivered"], 0);
    let long = json!({"send": {"about": "room:7", "data": "x".repeat(9_000)}, "ref": 2});
    assert_eq!(bob.ask(long)["ok"]["delivered"], 0);
    assert_eq!(bob.ask(json!({"token": token("bob", &["room:8"])}))["ok"]["token"], true);
    assert_eq!(refused(&bob.ask(send), &json!(1)), 403);
}

#[test]
fn payload_and_rate_have_bounds_and_the_stream_stays() {
    let server = open(&["--client-payload=1000", "--client-send-rate=5/s"]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    let send = |data: Value, n: u64| json!({"send": {"about": "b", "data": data}, "ref": n});
    // 998 bytes and the quotes.
    assert_eq!(socket.ask(send(json!("x".repeat(998)), 1))["ok"]["delivered"], 0);
    assert_eq!(refused(&socket.ask(send(json!("x".repeat(999)), 2)), &json!(2)), 413);
    let text = json!({"send": {"about": "b", "text": "ü".repeat(501)}, "ref": 3});
    assert_eq!(refused(&socket.ask(text), &json!(3)), 413);
    let burst: Vec<Value> = (0..30).map(|n| send(json!(1), n)).collect();
    burst.iter().for_each(|send| socket.send(send.to_string()));
    let answers: Vec<Value> = burst.iter().map(|_| socket.json()).collect();
    let over: Vec<&Value> =
        answers.iter().filter(|answer| answer["error"]["status"] == 429).collect();
    assert!((1..30).contains(&over.len()), "{} of 30 were too many", over.len());
    assert!(over.iter().all(|answer| answer["error"]["retry_after"] == 1));
    wait_for("it may send again", || socket.ask(send(json!(1), 99))["ok"].is_object());
    assert_eq!(server.api.send("a", 7), 1);
    assert_eq!(socket.data(), 7);
    let metrics = server.api.get("/metrics").body;
    let line = format!("encke_client_sends_total{{outcome=\"too_large\"}} {}\n", 2);
    assert!(metrics.contains(&line), "{metrics}");
}

#[test]
fn without_tokens_clients_send_only_where_it_is_said() {
    let server = Server::start(&[]);
    let mut socket = Socket::open(server.listen(), "/stream/a");
    let event = json!({"about": "b", "data": 1});
    let answer_off = socket.ask(json!({"send": event, "ref": 1}));
    assert_eq!(refused(&answer_off, &json!(1)), 403);
    assert!(answer_off["error"]["detail"].as_str().unwrap().contains("--client-send"));
    let refusal = answer(&mut server.ask(request("/send", &[], &event.to_string())));
    assert!(refusal.body.contains("--client-send"), "{}", refusal.body);
    refusal.problem(403);
    let server = open(&[]);
    let mut listener = server.listener("b");
    let mut socket = Socket::open(server.listen(), "/stream/a");
    assert_eq!(socket.ask(json!({"send": event, "ref": 1}))["ok"]["delivered"], 1);
    let heard = listener.event();
    assert_eq!((&heard["data"], heard.get("from")), (&json!(1), None), "nobody knows who it is");
    let sent = answer(&mut server.ask(request("/send", &[], &event.to_string()))).ok();
    assert_eq!(sent["delivered"], 1);
}

#[test]
fn request_sends_and_leaves_out_the_stream_that_it_names() {
    let server = guarded();
    let bob = token("bob", &["room:*"]);
    let mut stream = server.ask(get("/stream/room:7", &[&format!("Authorization: Bearer {bob}")]));
    let own = stream.head().field("encke-connection").unwrap().to_owned();
    let mut alice = socket(&server, "room:7", &token("alice", &[]));
    let event = json!({"about": "room:7", "data": 1, "except": own});
    let bearer = format!("Authorization: Bearer {bob}");
    let mut wire = server.ask(request("/send", &[&bearer], &event.to_string()));
    let first = answer(&mut wire);
    assert_eq!(first.ok()["delivered"], 1);
    assert_eq!(alice.json()["from"], "bob");
    // The connection is there for the next one, and for a stream's beginning.
    let both = json!({"about": "room:7", "data": 2}).to_string();
    for target in ["/send", &format!("/send?token={bob}")] {
        let fields: &[&str] = if target.contains('?') { &[] } else { &[&bearer] };
        wire.send(request(target, fields, &both));
        assert_eq!(answer(&mut wire).ok()["delivered"], 2);
        assert_eq!(alice.data(), 2);
    }
    let chunk = String::from_utf8(stream.chunk().unwrap()).unwrap();
    assert!(chunk.contains("\"data\":2"), "{chunk}");
    // What is refused leaves the connection too.
    wire.send(request("/send", &[&bearer], &json!({"about": "user:9", "data": 2}).to_string()));
    answer(&mut wire).problem(403);
    wire.send(request("/send", &[&bearer], "{"));
    assert_eq!(answer(&mut wire).problem(400)["type"], "errors#bad-json");
    post(&server, "x", &event).problem(401);
    post(&server, &token("alice", &[]), &event).problem(403);
    answer(&mut server.ask(request("/send", &[], "{}"))).problem(401);
}

#[test]
fn sender_that_leaves_out_another_connection_hears_nothing_either() {
    let server = open(&[]);
    let mut sockets: Vec<Socket> =
        (0..3).map(|_| Socket::open(server.listen(), "/stream/room?next=1")).collect();
    let ids: Vec<Value> =
        sockets.iter_mut().map(|socket| socket.json()["connection"].take()).collect();
    let id = &ids[1];
    let mut stream = server.listener("room");
    let event = |data: u32, echo: bool| {
        let event = json!({"about": "room", "data": data, "except": id, "echo": echo});
        json!({"send": event, "ref": data})
    };
    assert_eq!(sockets[0].ask(event(1, false))["ok"]["delivered"], 2);
    assert_eq!((sockets[2].data(), stream.data()), (json!(1), json!(1)));
    // By its own name it is left out once, and with an echo not.
    assert_eq!(sockets[1].ask(event(2, false))["ok"]["delivered"], 3);
    assert_eq!(sockets[1].ask(event(3, true))["ok"]["delivered"], 3);
    sockets[0].send(event(4, true).to_string());
    let (mut heard, mut delivered) = (Vec::new(), Value::Null);
    while heard.len() < 3 || delivered.is_null() {
        let said = sockets[0].json();
        match said.get("ok") {
            Some(ok) => delivered = ok["delivered"].clone(),
            None => heard.push(said["data"].clone()),
        }
    }
    assert_eq!((heard, delivered), (vec![json!(2), json!(3), json!(4)], json!(3)));
    // By request both have to be named.
    let own = stream.head.field("encke-connection").unwrap().to_owned();
    for (echo, delivered) in [(false, 2), (true, 3)] {
        let body = json!({
            "about": "room", "data": 5, "except": id, "connection": own, "echo": echo,
        });
        let sent = answer(&mut server.ask(request("/send", &[], &body.to_string()))).ok();
        assert_eq!(sent["delivered"], delivered, "{body}");
    }
    for heard in [2, 3, 4, 5] {
        assert_eq!(stream.data(), heard);
    }
    assert_eq!((sockets[0].data(), sockets[0].data()), (json!(5), json!(5)));
    let message = json!({"about": "room", "data": 6, "connection": own});
    assert_eq!(refused(&sockets[0].ask(json!({"send": message, "ref": 6})), &json!(6)), 400);
    assert_eq!(server.api.send("room", "end"), 4);
    assert_eq!(sockets[1].data(), "end", "it was named each time");
    assert_eq!(stream.data(), "end");
}

#[test]
fn request_with_a_key_is_posted_once() {
    let server = guarded();
    let bob = token("bob", &["room:*"]);
    let mut alice = socket(&server, "room:7", &token("alice", &[]));
    let bearer = format!("Authorization: Bearer {bob}");
    let event = json!({"about": "room:7", "data": 1}).to_string();
    let send = |key: &str| {
        let fields = [bearer.as_str(), key];
        answer(&mut server.ask(request("/send", &fields, &event))).ok()
    };
    let first = send("Idempotency-Key: \"k\"");
    assert_eq!(send("Idempotency-Key: k")["id"], first["id"]);
    let mut socket = socket(&server, "bob", &bob);
    let by_message = json!({"about": "room:7", "data": 1, "key": "k"});
    let again = socket.ask(json!({"send": by_message, "ref": 1}));
    assert_eq!(again["ok"]["id"], first["id"], "the keys are of bob, not of a connection");
    let other = json!({"about": "room:7", "data": 2, "key": "k"});
    assert_eq!(refused(&socket.ask(json!({"send": other, "ref": 2})), &json!(2)), 422);
    // Another one has keys of its own.
    let carol = token("carol", &["room:*"]);
    assert_ne!(post(&server, &carol, &by_message).ok()["id"], first["id"]);
    assert_eq!(
        (alice.json()["from"].take(), alice.json()["from"].take()),
        (json!("bob"), json!("carol"))
    );
    assert_eq!(server.api.send("room:7", 9), 1);
    assert_eq!(alice.data(), 9);
}

#[test]
fn token_bounds_what_is_sent_by_request_over_all_connections() {
    let server = Server::start(&[&format!("--token-key={TOKEN_SECRET}"), "--client-send-rate=1"]);
    let bob = token("bob", &["room:*"]);
    let event = json!({"about": "room:7", "data": 1});
    assert_eq!(post(&server, &bob, &event).status(), 200);
    // However slow they are: each comes by a connection of its own.
    wait_for("one is too many", || post(&server, &bob, &event).status() == 429);
    assert_eq!(post(&server, &token("carol", &["room:*"]), &event).status(), 200);
}

#[test]
fn pages_send_where_they_are_let_in() {
    let server =
        Server::start(&[&format!("--token-key={TOKEN_SECRET}"), "--allow-origin=https://app.test"]);
    let bob = token("bob", &["room:*"]);
    let event = json!({"about": "room:7", "data": 1}).to_string();
    let preflight = "OPTIONS /send HTTP/1.1\r\nHost: localhost\r\nOrigin: https://app.test\r\n\
                     Access-Control-Request-Method: POST\r\n\
                     Access-Control-Request-Headers: authorization,content-type\r\n\r\n";
    let head = server.ask(preflight).head();
    assert_eq!(head.field("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(head.field("access-control-allow-methods"), Some("POST, OPTIONS"));
    let headers = head.field("access-control-allow-headers").unwrap();
    assert!(headers.contains("Content-Type") && headers.contains("Idempotency-Key"), "{headers}");
    let cookie = format!("Cookie: encke_token={bob}");
    let ask = |fields: &[&str]| {
        let mut wire = server.ask(request("/send", fields, &event));
        let head = wire.head();
        (head.status, head.field("access-control-allow-origin").map(str::to_owned))
    };
    let app = Some("https://app.test".to_owned());
    assert_eq!(ask(&["Origin: https://app.test", &cookie]), (200, app.clone()));
    assert_eq!(ask(&["Origin: https://evil.test", &cookie]).0, 403);
    assert_eq!(ask(&["Sec-Fetch-Site: cross-site", &cookie]).0, 401);
    let (status, origin) = ask(&["Origin: https://app.test"]);
    assert_eq!((status, origin), (401, app), "the page may read why");
}

#[test]
fn body_has_a_length_a_bound_and_a_time() {
    let server = open(&["--head-timeout=1"]);
    let head = |fields: &str| {
        let json = "Content-Type: application/json";
        format!("POST /send HTTP/1.1\r\nHost: localhost\r\n{json}\r\n{fields}\r\n")
    };
    answer(&mut server.ask(head("Transfer-Encoding: chunked\r\n"))).problem(411);
    answer(&mut server.ask(head(""))).problem(411);
    answer(&mut server.ask(head("Content-Length: 1000000\r\n"))).problem(413);
    // Nothing of it is read before it is refused.
    let mut slow = server.ask(head("Content-Length: 30\r\nExpect: 100-continue\r\n"));
    assert_eq!(slow.head().status, 100);
    slow.send("{\"about\":\"a\",");
    answer(&mut slow).problem(408);
    server.wait_open(0);
    let event = r#"{"about":"a","data":1}"#;
    // Both parts are to be in time at another one, also where the machine stands still.
    let patient = open(&["--head-timeout=60"]);
    let mut wire = patient.ask(head(&format!("Content-Length: {}\r\n", event.len())));
    let (begin, end) = event.split_at(5);
    wire.send(begin);
    wire.send(end);
    assert_eq!(answer(&mut wire).ok()["delivered"], 0);
}
