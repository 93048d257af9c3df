//! Which ids a request logs in.

use serde_json::json;

use crate::harness::{Server, Socket, escape, get, wait_for};

#[test]
fn ids_of_path_and_query_are_all_logged_in() {
    let server = Server::start(&[]);
    let mut stream = server.listener("1?id=alice&x=y&id=photo:789&id=alice&id=1");
    for id in ["1", "alice", "photo:789"] {
        assert_eq!(server.api.connections(id), 1, "{id}");
        assert_eq!(server.api.send(id, id), 1);
        let event = stream.event();
        assert_eq!((&event["about"], &event["data"]), (&json!(id), &json!(id)));
    }
    assert_eq!((server.api.connections("y"), server.api.connections("x")), (0, 0));
    assert_eq!(server.api.stats()["ids_online"], 3);
    drop(stream);
    for id in ["1", "alice", "photo:789"] {
        server.wait_online(id, 0);
    }
    assert_eq!(server.api.stats()["ids_online"], 0);
}

#[test]
fn classic_page_takes_more_ids_too() {
    let server = Server::start(&[]);
    let mut page = server.stream("/test/1?id=2", "*/*");
    assert_eq!(page.chunk(), "Welcome, id 1<br/>\n");
    assert_eq!(server.api.send("2", "x"), 1);
    assert_eq!(page.chunk(), "Recvd msg #1: 'x'<br/>\n");
}

#[test]
fn as_many_ids_as_a_head_may_name_are_logged_in_and_out() {
    let server = Server::start(&[]);
    let ids: Vec<String> = (0..255).map(|n| format!("i{n}")).collect();
    let query: String = ids.iter().map(|id| format!("&id={id}")).collect();
    let more = get(&format!("/stream/0?{query}&id=one-more"), &[]);
    assert_eq!(server.ask(more).head().status, 400);
    let mut stream = server.listener(&format!("0?{query}"));
    for id in ids.iter().step_by(97).chain(ids.last()) {
        assert_eq!(server.api.send(id, id.as_str()), 1);
        assert_eq!(stream.data(), id.as_str());
    }
    assert_eq!(server.api.stats()["ids_online"], 256);
    stream.wire.reset();
    server.wait_online("i254", 0);
    server.wait_open(0);
    assert_eq!(server.api.stats()["ids_online"], 0);
}

#[test]
fn ids_of_all_connections_together_have_a_bound() {
    let server = Server::start(&["--max-ids-memory=75KiB", "--max-message=64KiB"]);
    let names = |from: usize| -> Vec<String> {
        (from..from + 30).map(|n| format!("{n}-{}", "x".repeat(200))).collect()
    };
    let path = |from| format!("{from}?id={}", names(from).join("&id="));
    let streams: Vec<_> = (0..6).map(|n| server.listener(&path(n * 30))).collect();
    for path in [format!("/stream/{}", path(180)), format!("/poll/{}", path(180))] {
        let head = server.ask(get(&path, &[])).head();
        assert_eq!((head.status, head.field("retry-after")), (503, Some("5")), "{path}");
    }
    let mut socket = Socket::open(server.listen(), "/stream/first");
    let refused = socket.ask(json!({"login": names(180)}));
    assert_eq!(refused["error"]["status"], 503, "{refused}");
    assert_eq!(server.api.stats()["ids_online"], 6 * 31 + 1, "nothing of it was done");
    assert_eq!(server.api.send("first", 1), 1);
    assert_eq!(socket.data(), 1);
    drop(streams);
    server.wait_open(1);
    assert_eq!(socket.ask(json!({"login": names(180)}))["ok"]["login"][29], names(180)[29]);
}

/// One client's few bytes, last to come and still there, do not keep the memory of all that have
/// gone.
#[test]
fn memory_of_names_goes_back_to_the_system_when_they_are_gone() {
    let server = Server::start(&["--max-ids-memory=256MiB", "--max-message=64KiB", "--workers=1"]);
    let names = |from: usize| -> Vec<String> {
        (from..from + 200).map(|n| format!("{n}-{}", "x".repeat(240))).collect()
    };
    let before = server.anonymous_bytes();
    let mut sockets: Vec<Socket> = (0..60)
        .map(|n| {
            let mut socket = Socket::open(server.listen(), &format!("/stream/{n}"));
            for part in 0..10 {
                let ids = names((n * 10 + part) * 200);
                assert!(socket.ask(json!({ "login": ids }))["ok"].is_object());
            }
            socket
        })
        .collect();
    let grown = server.anonymous_bytes() - before;
    assert!(grown > 30 << 20, "{grown} bytes");
    let mut last = sockets.pop().unwrap();
    sockets.clear();
    server.wait_open(1);
    let kept = || server.anonymous_bytes() - before;
    wait_for("three quarters go back", || kept() < grown / 4);
    assert_eq!(server.api.send("59", 1), 1);
    assert_eq!(last.data(), 1);
}

#[test]
fn percent_encoded_ids_are_the_ids_they_encode() {
    let server = Server::start(&[]);
    for id in ["é", "日本語", "a&b=c", "100%", "a+b", "\"quoted\"\\", "<b>", ";,:@!$'()*~"] {
        let escaped = escape(id);
        let mut stream = server.listener(&escaped);
        assert_eq!(server.api.connections(&escaped), 1, "{id}");
        assert_eq!(server.api.send(id, 1), 1, "{id}");
        assert_eq!(stream.event()["about"], id);
        let mut second = server.listener(&format!("other?id={escaped}"));
        assert_eq!(server.api.send(id, 2), 2, "{id}");
        assert_eq!(second.event()["about"], id);
        assert_eq!(server.api.logout(&escaped), 2, "{id}");
    }
}

#[test]
fn number_and_string_are_the_same_id() {
    let server = Server::start(&[]);
    let mut stream = server.listener("123");
    let pair = json!([{ "subscriber": 123, "subscribee": 5 }]);
    assert_eq!(server.api.post("/subscriptions/add", &pair).ok(), json!({ "added": 1 }));
    let pair = json!([{ "subscriber": "123", "subscribee": "5" }]);
    assert_eq!(server.api.post("/subscriptions/add", &pair).ok(), json!({ "added": 0 }));
    for (about, text) in [(json!(123), "123"), (json!("123"), "123"), (json!(5), "5")] {
        let answer = server.api.post("/send", &json!({ "about": about, "data": 1 })).ok();
        assert_eq!(answer["delivered"], 1, "{about}");
        assert_eq!(stream.event()["about"], text);
    }
    for other in ["0123", "+123", "123.0", "１２３"] {
        assert_eq!(server.api.send(other, 1), 0, "{other}");
    }
}

#[test]
fn numbers_past_every_integer_type_are_ids_like_any_name() {
    let server = Server::start(&[]);
    for id in ["0", "9223372036854775807", "9223372036854775808", "18446744073709551615", "-1"] {
        let mut stream = server.listener(id);
        let body = format!("{{\"about\":{id},\"data\":1}}");
        let answer = server.api.request("POST", "/send", None, body.as_bytes()).unwrap().ok();
        assert_eq!(answer["delivered"], 1, "{id}");
        assert_eq!(stream.event()["about"], id);
        assert_eq!(server.api.send(id, 2), 1, "{id} as a string");
    }
}

#[test]
fn longest_id_is_an_id_and_one_byte_more_is_not() {
    let server = Server::start(&[]);
    let longest = "é".repeat(127) + "x";
    let mut stream = server.listener(&escape(&longest));
    assert_eq!(server.api.send(&longest, 1), 1);
    assert_eq!(stream.event()["about"], longest);
    let mut wire = server.ask(get(&format!("/stream/{}", "x".repeat(256)), &[]));
    assert_eq!(wire.head().status, 400);
    let long = json!({ "about": "x".repeat(256), "data": 1 });
    assert!(
        server.api.post("/send", &long).problem(400)["detail"].as_str().unwrap().contains("255")
    );
}
