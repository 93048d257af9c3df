//! Keys of the API on a server at work: what each may do, until when, and who is kept out.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use hyper::Request;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    Answer, Api, Program, Server, Wire, check_problem, encke, http2_status, wait_for,
};

/// A new key of the data directory `data`.
pub(crate) fn new_key(data: &Path, options: &[&str]) -> String {
    let made = Program::run(encke(["key", "new"]).args(options).arg("--data").arg(data));
    assert_eq!(made.code(), Some(0), "{made:?}");
    let key = made.stdout.trim_end().to_owned();
    assert!(key.starts_with("encke_") && !made.stderr.contains(&key), "{made:?}");
    key
}

pub(crate) fn revoke(data: &Path, key: &str) {
    let revoked = Program::run(encke(["key", "revoke", key, "--data"]).arg(data));
    assert_eq!(revoked.code(), Some(0), "{revoked:?}");
}

/// A server, and the directory of its keys.
pub(crate) fn server(options: &[&str]) -> (Server, TempDir) {
    let data = tempfile::tempdir().unwrap();
    (Server::start_in(data.path(), options), data)
}

pub(crate) fn unauthorized(answer: &Answer) -> Value {
    assert_eq!(answer.head.field("www-authenticate"), Some("Bearer"), "{answer:?}");
    answer.problem(401)
}

/// Every call, and the scope that it needs; `Some("")` is any.
const CALLS: [(&str, &str, Option<&str>); 21] = [
    ("GET", "/healthz", None),
    ("GET", "/readyz", None),
    ("GET", "/session", None),
    ("POST", "/send", Some("send")),
    ("POST", "/logout/nobody", Some("admin")),
    ("POST", "/subscriptions/add", Some("graph")),
    ("POST", "/subscriptions/remove", Some("graph")),
    ("GET", "/subscriptions/add", Some("graph")),
    ("GET", "/subscribers/a", Some("graph")),
    ("GET", "/subscriptions/a", Some("graph")),
    ("GET", "/connections/a", Some("read")),
    ("GET", "/stats", Some("read")),
    ("HEAD", "/stats", Some("read")),
    ("GET", "/metrics", Some("read")),
    ("GET", "/", Some("read")),
    ("GET", "/dashboard.js", Some("read")),
    ("GET", "/dashboard.css", Some("read")),
    ("GET", "/icon.svg", Some("read")),
    ("GET", "/dashboard.json", Some("read")),
    ("GET", "/tune.json", Some("read")),
    ("GET", "/openapi.json", Some("")),
];

fn call(api: &Api, method: &str, path: &str) -> Answer {
    let body: &[u8] = match path {
        "/send" => b"{\"about\":1,\"data\":1}",
        _ if method == "POST" => b"[{\"subscriber\":1,\"subscribee\":2}]",
        _ => b"",
    };
    api.request(method, path, None, body).unwrap()
}

#[test]
fn each_key_does_what_its_scope_says_and_nothing_else() {
    let (server, data) = server(&[]);
    for (method, path, _) in CALLS {
        assert_eq!(call(&server.api, method, path).status(), 200, "{method} {path} without keys");
    }
    for held in ["send", "graph", "read", "admin", "send,graph", "graph,read"] {
        let api = server.api.with_key(&new_key(data.path(), &["--scope", held]));
        for (method, path, needed) in CALLS {
            let holds = needed.is_none_or(|needed| {
                needed.is_empty() || held == "admin" || held.split(',').any(|one| one == needed)
            });
            let answer = call(&api, method, path);
            let expected = if holds { 200 } else { 403 };
            assert_eq!(answer.status(), expected, "{held}: {method} {path}: {answer:?}");
            if !holds && method != "HEAD" {
                let detail = answer.problem(403)["detail"].to_string();
                assert!(detail.contains(needed.unwrap()), "{detail}");
            }
        }
        // What is not there is told to those who have a key.
        call(&api, "GET", "/nowhere").problem(404);
        assert_eq!(call(&api, "PUT", "/healthz").status(), 405);
    }
    for (method, path, needed) in CALLS {
        let answer = call(&server.api, method, path);
        assert_eq!(answer.status(), if needed.is_none() { 200 } else { 401 }, "{method} {path}");
        assert_eq!(answer.head.field("www-authenticate").is_some(), needed.is_some());
    }
    unauthorized(&call(&server.api, "GET", "/nowhere"));
    let metrics =
        server.api.with_key(&new_key(data.path(), &["--scope=read"])).get("/metrics").body;
    let refused = CALLS.iter().filter(|(.., needed)| needed.is_some()).count() + 1;
    let line = format!("encke_api_refusals_total{{reason=\"missing\"}} {refused}");
    assert!(metrics.contains(&line), "{line} is not in {metrics}");
}

#[test]
fn http_2_asks_for_the_same_key() {
    let (server, data) = server(&[]);
    let key = new_key(data.path(), &["--scope", "read"]);
    let address = server.api.address();
    let status = |path: &str, authorization: Option<String>| {
        let mut request = Request::get(format!("http://{address}{path}"));
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        http2_status(address, request)
    };
    assert_eq!(status("/stats", None), 401);
    assert_eq!(status("/healthz", None), 200);
    assert_eq!(status("/stats", Some(format!("Bearer {key}"))), 200);
    assert_eq!(status("/stats", Some(format!("bearer {key}"))), 200);
    assert_eq!(status("/stats", Some(format!("Basic {key}"))), 401);
    assert_eq!(status("/subscribers/a", Some(format!("Bearer {key}"))), 403);
}

#[test]
fn about_bounds_each_send_and_each_line() {
    let (server, data) = server(&[]);
    let options = ["--scope=send", "--about=room:*", "--about=12"];
    let api = server.api.with_key(&new_key(data.path(), &options));
    for (about, status) in [
        (json!("room:1"), 200),
        (json!(12), 200),
        (json!("12"), 200),
        (json!(123), 403),
        (json!("r"), 403),
    ] {
        let answer = api.post("/send", &json!({ "about": about, "data": 1 }));
        assert_eq!(answer.status(), status, "{about}");
    }
    let lines: String = ["room:1", "other", "12", "room", "room:"]
        .iter()
        .map(|about| format!("{{\"about\":\"{about}\",\"data\":1}}\n"))
        .collect();
    let answer = api.post_lines("/send", &lines);
    assert_eq!(answer.status(), 200);
    let answers: Vec<Value> =
        answer.body.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, refused) in [false, true, false, true, false].into_iter().enumerate() {
        if refused {
            check_problem(&answers[at], 403);
            assert_eq!(answers[at]["line"], at + 1);
        } else {
            assert_eq!(answers[at]["delivered"], 0, "{answers:?}");
        }
    }
    assert_eq!(answers.len(), 5);
}

#[test]
fn revoked_key_is_refused_at_once_and_its_streams_end() {
    let (server, data) = server(&[]);
    let admin = server.api.with_key(&new_key(data.path(), &["--scope=admin"]));
    for _ in 0..20 {
        let key = new_key(data.path(), &["--scope=read"]);
        let api = server.api.with_key(&key);
        api.stats();
        revoke(data.path(), &key);
        let problem = unauthorized(&api.get("/stats"));
        assert!(problem["detail"].as_str().unwrap().contains("revoked"), "{problem}");
        admin.stats();
    }
    let key = new_key(data.path(), &["--scope=send"]);
    let mut wire = Wire::connect(server.api.address());
    let line = "{\"about\":\"a\",\"data\":1}\n";
    let chunk = format!("{:x}\r\n{line}\r\n", line.len());
    wire.send(format!(
        "POST /send HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}"
    ));
    assert_eq!(wire.head().status, 200);
    let answer = wire.chunk().unwrap();
    assert!(answer.starts_with(b"{\"delivered\":0"), "{}", String::from_utf8_lossy(&answer));
    revoke(data.path(), &key);
    wire.send(&chunk);
    let problem: Value = serde_json::from_slice(&wire.chunk().unwrap()).unwrap();
    check_problem(&problem, 401);
    assert_eq!(problem["line"], 2);
    assert_eq!(wire.chunk().unwrap(), b"", "the stream is over");
    assert_eq!(admin.stats()["events"], 1);
}

#[test]
fn key_is_over_when_its_time_is() {
    let (server, data) = server(&[]);
    let api = server.api.with_key(&new_key(data.path(), &["--scope=read", "--expires=6s"]));
    // How long it lasts is at least what is left of a second more than one.
    let mut answer = api.get("/stats");
    assert_eq!(answer.status(), 200);
    wait_for("the key is over", || {
        answer = api.get("/stats");
        answer.status() != 200
    });
    assert!(unauthorized(&answer)["detail"].as_str().unwrap().contains("over"), "{answer:?}");
    let listed = Program::run(encke(["key", "list", "--json", "--data"]).arg(data.path()));
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["usable"], false);
}

#[test]
fn file_that_cannot_be_used_lets_nobody_in() {
    let (server, data) = server(&[]);
    let key = new_key(data.path(), &["--scope=admin"]);
    let api = server.api.with_key(&key);
    let path = data.path().join("keys.json");
    let good = fs::read(&path).unwrap();
    api.stats();
    // A server looks once a millisecond, for which commands wait.
    let seen = |status| wait_for("the file is seen", || api.get("/stats").status() == status);
    for bad in [&b""[..], b"{}", &good[..good.len() / 2], &good.repeat(2)] {
        fs::write(&path, bad).unwrap();
        seen(503);
        for api in [&api, &server.api] {
            let problem = api.get("/stats").problem(503);
            assert!(problem["detail"].as_str().unwrap().contains("file of keys"), "{problem}");
            api.get("/healthz").ok();
        }
        // No command makes it worse, and no server starts.
        let made = Program::run(encke(["key", "new", "--scope=read", "--data"]).arg(data.path()));
        assert_eq!(made.code(), Some(1), "{made:?}");
        assert_eq!(fs::read(&path).unwrap(), bad);
    }
    assert!(server.stderr().contains("lets nobody in"), "{}", server.stderr());
    fs::remove_file(&path).unwrap();
    seen(503);
    server.api.get("/stats").problem(503);
    fs::write(&path, &good).unwrap();
    seen(200);
    unauthorized(&server.api.get("/stats"));
    fs::write(&path, "{}").unwrap();
    assert_eq!(server.stop("TERM").code(), Some(0));
    let args = ["serve", "--listen=127.0.0.1:0", "--api=127.0.0.1:0", "--data"];
    let refused = Program::run(encke(args).arg(data.path()));
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("keys.json is damaged"), "{refused:?}");
}

#[test]
fn without_keys_only_loopback_is_listened_on() {
    let data = tempfile::tempdir().unwrap();
    let serve = |api: &str| {
        let mut command =
            encke(["serve", "--json", "--listen=127.0.0.1:0", "--api", api, "--data"]);
        command.arg(data.path());
        command
    };
    for api in ["0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0"] {
        let refused = Program::run(&mut serve(api));
        assert_eq!(refused.code(), Some(1), "{api}: {refused:?}");
        assert!(refused.stderr.contains("encke key new --scope admin --data"), "{refused:?}");
    }
    for api in ["127.0.0.1:0", "127.9.9.9:0", "[::1]:0"] {
        drop(Server::of(Program::spawn(&mut serve(api))));
    }
    let key = new_key(data.path(), &["--scope=read"]);
    let server = Server::of(Program::spawn(&mut serve("0.0.0.0:0")));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, server.api.address().port()));
    let api = Api::new(address);
    unauthorized(&api.get("/stats"));
    api.with_key(&key).stats();
    let demo = Program::run(&mut encke(["demo", "--listen=127.0.0.1:0", "--api=0.0.0.0:0"]));
    assert_eq!(demo.code(), Some(1), "{demo:?}");
    assert!(demo.stderr.contains("stays on loopback"), "{demo:?}");
}
