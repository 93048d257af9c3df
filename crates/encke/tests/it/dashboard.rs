//! The dashboard's HTTP: its files, where its figures come from, and the figures themselves.

use serde_json::Value;

use crate::harness::{Head, Server, Wire, get, wait_for};

/// An answer to `GET path` of the API with these fields, its body as bytes.
fn fetch(server: &Server, path: &str, fields: &[&str]) -> (Head, Vec<u8>) {
    let mut wire = Wire::connect(server.api.address());
    wire.send(get(path, fields));
    let head = wire.head();
    let len = head.field("content-length").map_or(0, |len| len.parse().unwrap());
    let body = if head.status == 304 { Vec::new() } else { wire.take(len).unwrap() };
    (head, body)
}

const FILES: [(&str, &str, &[u8]); 4] = [
    ("/", "text/html; charset=utf-8", include_bytes!("../../../../web/dist/dashboard.html")),
    (
        "/dashboard.js",
        "text/javascript; charset=utf-8",
        include_bytes!("../../../../web/dist/dashboard.js"),
    ),
    (
        "/dashboard.css",
        "text/css; charset=utf-8",
        include_bytes!("../../../../web/dist/dashboard.css"),
    ),
    ("/icon.svg", "image/svg+xml", include_bytes!("../../../../web/dist/icon.svg")),
];

#[test]
fn files_come_plain_or_compressed_and_only_when_they_are_new() {
    let server = Server::start(&[]);
    for (path, content_type, plain) in FILES {
        let (head, body) = fetch(&server, path, &[]);
        assert_eq!(head.status, 200);
        assert_eq!(head.field("content-type"), Some(content_type));
        assert_eq!(head.field("content-encoding"), None);
        assert_eq!(head.field("cache-control"), Some("no-cache"));
        assert_eq!(head.field("x-content-type-options"), Some("nosniff"));
        assert!(body == plain, "{path} is not what web/dist has");

        let (head, body) = fetch(&server, path, &["Accept-Encoding: gzip, br"]);
        assert_eq!(head.field("content-encoding"), Some("gzip"));
        assert_eq!(head.field("vary"), Some("Accept-Encoding"));
        assert_eq!(body[..2], [0x1f, 0x8b], "{path} starts as RFC 1952 says");
        assert!(body.len() < plain.len(), "{path}");

        let tag = head.field("etag").unwrap();
        let (head, _) = fetch(&server, path, &[&format!("If-None-Match: {tag}")]);
        assert_eq!((head.status, head.field("etag")), (304, Some(tag)));
    }
    let (head, _) = fetch(&server, "/dashboard.txt", &[]);
    assert_eq!(head.status, 404);
}

#[test]
fn page_may_talk_to_its_two_ports_and_to_nobody_else() {
    let server = Server::start(&[]);
    let port = server.listen().port();
    let page = |host: &str| {
        let mut wire = Wire::connect(server.api.address());
        wire.send(format!("HEAD / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        wire.head()
    };
    let own = page("localhost:9").field("content-security-policy").unwrap().to_owned();
    assert!(own.starts_with("default-src 'self'; "), "{own}");
    let connect = format!("connect-src 'self' http://localhost:{port} ws://localhost:{port};");
    assert!(own.contains(&connect), "{own}");
    assert!(!own.contains("unsafe"), "{own}");
    let forged = page("x;script-src *");
    assert_eq!((forged.status, forged.field("content-security-policy")), (400, None));
}

#[test]
fn page_behind_a_proxy_is_told_where_the_public_port_is() {
    let server = Server::start(&["--public-url=https://push.example.org/encke/"]);
    assert_eq!(facts(&server)["public_url"], "https://push.example.org/encke");
    let policy = fetch(&server, "/", &[]).0.field("content-security-policy").unwrap().to_owned();
    let connect = "connect-src 'self' https://push.example.org wss://push.example.org;";
    assert!(policy.contains(connect), "{policy}");
}

/// What the page is told first, by a request to `localhost`.
fn facts(server: &Server) -> Value {
    let mut wire = Wire::connect(server.api.address());
    wire.send("GET /dashboard.json HTTP/1.1\r\nHost: localhost:8001\r\n\r\n");
    let head = wire.head();
    let len = head.field("content-length").unwrap().parse().unwrap();
    serde_json::from_slice(&wire.take(len).unwrap()).unwrap()
}

#[test]
fn figures_come_as_events_about_an_id_that_only_the_api_tells() {
    let server = Server::start(&["--workers=3"]);
    let facts = facts(&server);
    assert_eq!(facts["public_url"], format!("http://localhost:{}", server.listen().port()));
    assert_eq!(facts["version"], env!("CARGO_PKG_VERSION"));
    let id = facts["id"].as_str().unwrap();
    let mut stream = server.listener(id);
    assert_eq!(server.api.send("nobody", 1), 0);
    let mut before = facts["now"].clone();
    for _ in 0..2 {
        let event = stream.event();
        assert_eq!(event["about"], id);
        let sample = &event["data"];
        assert_eq!((&sample["connections_open"], &sample["dashboards"]), (&0.into(), &1.into()));
        assert_eq!((&sample["ids_online"], &sample["deliveries"]), (&0.into(), &0.into()));
        assert_eq!(sample["connections_closed"]["slow_reader"], 0);
        assert_eq!(sample["streams_open"]["ndjson"], 1);
        assert_eq!(sample["workers"]["count"], 3);
        assert_eq!(sample["workers"]["connections_open"].as_array().unwrap().len(), 3);
        assert!(sample["uptime_seconds"].as_f64() > before["uptime_seconds"].as_f64());
        before = sample.clone();
    }
    wait_for("a second without a send", || stream.data()["send_p99_seconds"].is_null());
    // The figures are no events of the application's.
    assert_eq!(before["events"], 1);
    assert_eq!(server.api.stats()["events"], 1);
}

#[test]
fn figures_are_of_others_than_the_pages_that_show_them() {
    let server = Server::start(&[]);
    let mut page = server.listener(facts(&server)["id"].as_str().unwrap());
    let mut alice = server.listener("alice");
    assert_eq!(server.api.send("alice", 1), 1);
    alice.data();
    wait_for("figures with alice", || {
        let sample = page.data();
        assert!(sample["deliveries"].as_u64().unwrap() <= 1, "{sample}");
        sample["connections_open"] == 1 && sample["ids_online"] == 1 && sample["deliveries"] == 1
    });
}

#[test]
fn past_is_kept_without_a_listener_and_told_with_the_facts() {
    let server = Server::start(&[]);
    assert_eq!(server.api.send("nobody", 1), 0);
    let column = |name: &str| facts(&server)["past"][name].as_array().unwrap().clone();
    wait_for("some seconds have passed", || column("uptime_seconds").len() >= 3);
    let past = facts(&server)["past"].clone();
    let columns = past.as_object().unwrap();
    let seconds = columns["uptime_seconds"].as_array().unwrap();
    assert!(columns.values().all(|column| column.as_array().unwrap().len() == seconds.len()));
    assert!(seconds.is_sorted_by_key(|second| second.as_f64()), "{seconds:?}");
    assert_eq!(columns["events"].as_array().unwrap().last(), Some(&1.into()));
    assert_eq!(server.api.stats()["deliveries"], 0, "nothing of it was sent to anybody");
}

#[test]
fn nothing_is_sent_while_nobody_listens_and_each_start_has_its_id() {
    let server = Server::start(&[]);
    let first = facts(&server);
    drop(server.listener(first["id"].as_str().unwrap()));
    server.wait_open(0);
    let deliveries = server.api.stats()["deliveries"].clone();
    server.api.get("/tune.json").ok();
    assert_eq!(server.api.stats()["deliveries"], deliveries);
    assert_ne!(facts(&Server::start(&[]))["id"], first["id"]);
}

#[test]
fn page_that_comes_back_hears_the_seconds_without_it() {
    let server = Server::start(&[]);
    let id = facts(&server)["id"].as_str().unwrap().to_owned();
    let mut stream = server.listener(&id);
    let first = stream.event();
    drop(stream);
    server.wait_open(0);
    let sent = || server.api.stats()["history_events"].as_u64().unwrap();
    let heard = sent();
    wait_for("figures without a listener", || sent() >= heard + 2);
    let cursor = first["id"].as_str().unwrap();
    let mut stream = server.listener(&format!("{id}?last_event_id={cursor}"));
    let missed: Vec<Value> = (0..=heard).map(|_| stream.data()).collect();
    let seconds = |sample: &Value| sample["uptime_seconds"].as_f64();
    assert!(missed.is_sorted_by_key(seconds), "{missed:?}");
    assert!(seconds(&missed[0]) > seconds(&first["data"]));
    assert_eq!(missed[missed.len() - 1]["connections_open"], 0, "nobody was there");
}

#[test]
fn figures_fit_the_smallest_backlog_however_many_workers_there_are() {
    let server = Server::start(&["--workers=200", "--max-backlog=4KiB"]);
    let mut stream = server.listener(facts(&server)["id"].as_str().unwrap());
    let (line, rows) = {
        let line = stream.chunk();
        let event: Value = serde_json::from_str(&line).unwrap();
        (line, event["data"]["workers"]["full"].as_array().unwrap().len())
    };
    assert!(line.len() < 4096, "{} bytes", line.len());
    assert!((1..=64).contains(&rows), "{rows} rows");
}

#[test]
fn page_of_the_api_may_listen_and_one_of_another_port_may_not() {
    let server = Server::start(&[]);
    let (public, api) = (server.listen(), server.api.address());
    for (origin, status) in [
        (format!("http://{api}"), 200),
        (format!("http://localhost:{}", api.port()), 200),
        ("http://127.0.0.1:1".to_owned(), 403),
        (format!("http://evil.test:{}", api.port()), 403),
    ] {
        let head = server
            .ask(format!(
                "GET /stream/1 HTTP/1.1\r\nHost: {public}\r\nOrigin: {origin}\r\n\
                 Accept: text/event-stream\r\n\r\n"
            ))
            .head();
        assert_eq!(head.status, status, "{origin}");
        let allowed = head.field("access-control-allow-origin");
        assert_eq!(allowed, Some(origin.as_str()), "who is refused may read why");
    }
}

#[test]
fn limits_of_the_machine_are_those_that_tune_tells() {
    let server = Server::start(&[]);
    let report = server.api.get("/tune.json?users=1000&with_clients=true").ok();
    assert_eq!((&report["users"], &report["ends"]), (&1000.into(), &"both".into()));
    let names = |report: &Value| -> Vec<String> {
        let checks = report["checks"].as_array().unwrap().iter();
        checks.map(|check| check["name"].as_str().unwrap().to_owned()).collect()
    };
    let program = crate::harness::encke(["tune", "--users=1000", "--with-clients", "--json"]);
    let output = { program }.output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&report), names(&told));
    for users in ["0", "-1", "many", "4294967296"] {
        server.api.get(&format!("/tune.json?users={users}")).problem(400);
    }
}
