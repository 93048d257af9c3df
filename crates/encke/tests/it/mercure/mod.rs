//! The Mercure protocol, both dialects: who hears what, by raw requests at the real program.

mod at_once;
mod cases;
mod clients;
mod ends;
mod figures;
mod graph;
mod kept;
mod keys;
mod nodes;
mod nodes_by_seed;
mod nodes_subscriptions;
mod refused;
mod subscription_bounds;
mod subscriptions;
mod upgraded;
mod upgraded_load;
mod upgraded_subscriptions;
mod v1;
mod v1_subscriptions;

use std::borrow::Borrow;
use std::path::Path;

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::{
    Answer, Program, Server, Signer, Stream, TOKEN_SECRET, encke, get, read_answer, wait_for,
};
use crate::upgrade::Upgraded;

const HUB: &str = "/.well-known/mercure";

/// What a publish is.
const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

const SECRET: &str = "a secret of publishers and of subscribers";

/// The origin of a page that may use the hub.
const PAGE: &str = "http://page.test";

const BOOKS: &str = "topic=https%3A%2F%2Fa.test%2Fbooks%2F%7Bid%7D";

/// A server with a key, which lets anonymous clients listen.
struct Hub<S = Server> {
    server: S,
    _files: TempDir,
}

/// A token with these claims, signed as Symfony does it.
fn token(claims: &Value) -> String {
    signed("JWT", claims)
}

/// A token of this type.
fn signed(typ: &str, claims: &Value) -> String {
    let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "HS256", "typ": typ }).to_string());
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let tag = sign(&Key::new(HMAC_SHA256, SECRET.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

fn bearer(claims: &Value) -> String {
    format!("Authorization: Bearer {}", token(claims))
}

fn publisher() -> String {
    bearer(&json!({ "mercure": { "publish": ["*"] } }))
}

fn subscriber(topics: &[&str]) -> String {
    bearer(&json!({ "mercure": { "subscribe": topics } }))
}

/// A stream of the hub, behind its first bytes.
fn listen(server: &Server, query: &str, fields: &[&str]) -> Stream {
    begin(server, get(&format!("{HUB}?{query}"), fields))
}

/// A stream that this request has opened.
fn begin(server: &Server, request: String) -> Stream {
    let mut wire = server.ask(request);
    let head = wire.head();
    assert_eq!(head.status, 200, "{}", head.text);
    assert_eq!(head.field("content-type"), Some("text/event-stream"));
    let mut stream = Stream { wire, head, cursor: None };
    assert_eq!(stream.chunk(), ":\n");
    stream
}

impl Hub<Upgraded> {
    /// One that is replaced while it serves.
    fn start_upgraded(options: &[&str]) -> Hub<Upgraded> {
        let files = Hub::key_file();
        let server = Upgraded::serve(&[&[&*Hub::key_option(files.path())], options].concat());
        Hub { server, _files: files }
    }
}

impl Hub {
    fn start(options: &[&str]) -> Hub {
        let files = Hub::key_file();
        let server = Server::start(&[&[&*Hub::key_option(files.path())], options].concat());
        Hub { server, _files: files }
    }

    /// A directory with the key of the hub.
    fn key_file() -> TempDir {
        let files = tempfile::tempdir().unwrap();
        std::fs::write(files.path().join("key"), SECRET).unwrap();
        files
    }

    /// What names the key in `files`.
    fn key_option(files: &Path) -> String {
        format!("--mercure-key={}", files.join("key").display())
    }
}

impl<S: Borrow<Server>> Hub<S> {
    fn server(&self) -> &Server {
        self.server.borrow()
    }

    fn publish_by(&self, authorization: &str, form: &str) -> Answer {
        self.server().api.post_with(HUB, &format!("{FORM}\r\n{authorization}\r\n"), form)
    }

    /// The id of what was published, and how many have heard it.
    fn publish(&self, form: &str) -> (String, u64) {
        let answer = self.publish_by(&publisher(), form);
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert!(answer.head.field("content-type").unwrap().starts_with("text/plain"));
        let delivered = answer.head.field("encke-delivered").unwrap().parse().unwrap();
        (answer.body, delivered)
    }

    fn listen(&self, query: &str, fields: &[&str]) -> Stream {
        listen(self.server(), query, fields)
    }

    fn status(&self, query: &str, fields: &[&str]) -> u16 {
        self.server().ask(get(&format!("{HUB}?{query}"), fields)).head().status
    }
}

#[test]
fn path_is_none_unless_a_key_is_given() {
    let server = Server::start(&[]);
    assert_eq!(server.ask(get(&format!("{HUB}?topic=a"), &[])).head().status, 404);
    assert_eq!(server.api.post_with(HUB, "", "topic=a").status(), 404);
    let open = Program::run(&mut encke(["serve", "--api=127.0.0.1:0", "--mercure-open"]));
    assert_eq!(open.code(), Some(2));
    assert!(open.stderr.contains("give it a key of publishers"), "{}", open.stderr);
}

/// Subscribers have tokens of the same key.
#[test]
fn form_of_one_who_may_publish_nothing_is_not_awaited() {
    let hub = Hub::start(&[]);
    let by = subscriber(&["*"]);
    let fields = format!("Host: a\r\n{FORM}\r\n{by}\r\nContent-Length: 100000");
    let head = hub.server.ask(format!("POST {HUB} HTTP/1.1\r\n{fields}\r\n\r\n")).head();
    assert_eq!(head.status, 403, "{}", head.text);
}

#[test]
fn update_is_heard_once_by_each_that_listens() {
    let hub = Hub::start(&["--mercure-open"]);
    let mut both = hub.listen(&format!("{BOOKS}&topic=https://a.test/books/1"), &[]);
    let mut all = hub.listen("topic=*", &[]);
    let _other = hub.listen("topic=https://a.test/books/2", &[]);
    let form = "topic=https%3A%2F%2Fa.test%2Fbooks%2F1&topic=alt&data=a%0Ab&id=urn:1&type=t";
    assert_eq!(hub.publish(form), ("urn:1".to_owned(), 2));
    for stream in [&mut both, &mut all] {
        assert_eq!(stream.chunk(), "event: t\nid: urn:1\ndata: a\ndata: b\n\n");
    }
    let (id, delivered) = hub.publish("topic=alt&data=c");
    assert!(id.starts_with('#') && delivered == 1, "{id}");
    assert_eq!(all.chunk(), format!("id: {id}\ndata: c\n\n"));
}

#[test]
fn private_update_is_for_those_who_are_granted_one_of_its_topics() {
    let hub = Hub::start(&["--mercure-open"]);
    let bobs = subscriber(&["https://a.test/users/bob/{+rest}"]);
    let rjs = subscriber(&["https://a.test/users/rj/{+rest}"]);
    let mut bob = hub.listen(BOOKS, &[&bobs]);
    let mut others = [
        hub.listen(BOOKS, &[&rjs]),
        hub.listen(BOOKS, &[]),
        hub.listen("topic=*", &[]),
        hub.listen("topic=https://a.test/users/bob/books/1", &[&rjs]),
    ];
    let form = "topic=https://a.test/books/1&topic=https://a.test/users/bob/books/1&data=x\
                &private=on&id=urn:x";
    assert_eq!(hub.publish(form).1, 1);
    assert_eq!(bob.chunk(), "id: urn:x\ndata: x\n\n");
    // What is public comes behind it, and nothing before.
    let form = "topic=https://a.test/books/1&topic=https://a.test/users/bob/books/1&data=y";
    let (id, delivered) = hub.publish(form);
    assert_eq!(delivered, 5);
    for stream in others.iter_mut().chain([&mut bob]) {
        assert_eq!(stream.chunk(), format!("id: {id}\ndata: y\n\n"));
    }
    // Nor does anybody find it afterwards.
    let asks: [(&[&str], bool); 3] = [(&[&bobs], true), (&[&rjs], false), (&[], false)];
    for (fields, heard) in asks {
        let mut stream = hub.listen(&format!("{BOOKS}&lastEventID=earliest"), fields);
        assert_eq!(stream.head.field("last-event-id"), Some("earliest"));
        let first = stream.chunk();
        assert_eq!(first == "id: urn:x\ndata: x\n\n", heard, "{first}");
    }
}

#[test]
fn client_that_comes_back_goes_on_at_its_place_and_a_gap_is_told() {
    let hub = Hub::start(&["--mercure-open", "--history-events=3"]);
    let first = hub.publish("topic=https://a.test/books/1&data=1").0;
    hub.publish("topic=https://a.test/books/2&data=2&id=urn:2");
    hub.publish("topic=other&data=3");
    for query in [BOOKS, "topic=https://a.test/books/2"] {
        let mut stream = hub.listen(query, &[&format!("Last-Event-ID: {first}")]);
        assert_eq!(stream.head.field("last-event-id"), Some(&*first));
        assert_eq!(stream.chunk(), "id: urn:2\ndata: 2\n\n");
    }
    let mut stream = hub.listen("topic=*&lastEventID=urn:2", &[]);
    assert_eq!(stream.head.field("last-event-id"), Some("urn:2"));
    assert!(stream.chunk().ends_with("data: 3\n\n"));
    let mut unknown = hub.listen("topic=*", &["Last-Event-ID: urn:nobody"]);
    assert_eq!(unknown.head.field("last-event-id"), Some("earliest"));
    assert!(unknown.chunk().starts_with("event: gap\nid: #"));
    (4..=9)
        .for_each(|data| drop(hub.publish(&format!("topic=https://a.test/books/2&data={data}"))));
    let mut late = hub.listen(BOOKS, &[&format!("Last-Event-ID: {first}")]);
    assert_eq!(late.head.field("last-event-id"), Some("earliest"));
    assert!(late.chunk().starts_with("event: gap\n"));
    for data in 7..=9 {
        assert!(late.chunk().ends_with(&format!("data: {data}\n\n")));
    }
}

#[test]
fn token_says_who_may_and_for_how_long() {
    let hub = Hub::start(&[]);
    let (granted, over) = (subscriber(&[]), bearer(&json!({ "mercure": {}, "exp": 1 })));
    let statuses: [(&[&str], u16); 4] =
        [(&[], 401), (&["Authorization: Bearer a.b.c"], 401), (&[&granted], 200), (&[&over], 401)];
    for (fields, status) in statuses {
        assert_eq!(hub.status("topic=a", fields), status, "{fields:?}");
    }
    let in_query = format!("topic=a&authorization={}", token(&json!({ "mercure": {} })));
    assert_eq!(hub.status(&in_query, &[]), 200);
    let cookie = format!("Cookie: mercureAuthorization={}", token(&json!({ "mercure": {} })));
    assert_eq!(hub.status("topic=a", &[&cookie]), 200);
    assert_eq!(hub.status("", &[&subscriber(&[])]), 400);
    for (authorization, status) in [
        (String::new(), 401),
        (subscriber(&["*"]), 403),
        (bearer(&json!({ "mercure": { "publish": ["b"] } })), 403),
        (bearer(&json!({ "mercure": { "publish": ["{x}"] } })), 200),
    ] {
        let field = if authorization.is_empty() { "Accept: */*" } else { &authorization };
        assert_eq!(hub.publish_by(field, "topic=a&data=x").status(), status, "{authorization}");
    }
    let ends = sys::clock::unix_ms() / 1000 + 1;
    let ending = bearer(&json!({ "mercure": { "subscribe": ["*"] }, "exp": ends }));
    hub.listen("topic=a", &[&ending]).expect_last_chunk();
    wait_for("nobody listens", || hub.publish("topic=a&data=x").1 == 0);
}

#[test]
fn page_publishes_with_its_cookie_on_the_public_port() {
    let allowed = format!("--allow-origin={PAGE}");
    let hub = Hub::start(&["--mercure-open", &allowed]);
    let mut stream = hub.listen("topic=a", &[]);
    let form = "topic=a&data=x";
    let cookie =
        format!("mercureAuthorization={}", token(&json!({ "mercure": { "publish": ["*"] } })));
    let request = format!(
        "POST {HUB} HTTP/1.1\r\nHost: localhost\r\nOrigin: {PAGE}\r\nCookie: other=1; {cookie}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n\r\n\
         {:x}\r\n{form}\r\n0\r\n\r\n",
        form.len()
    );
    let answer = read_answer(&mut hub.server.ask(request), "POST").unwrap();
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(stream.chunk(), format!("id: {}\ndata: x\n\n", answer.body));
    for (field, value) in [
        ("encke-delivered", "1"),
        ("access-control-allow-origin", PAGE),
        ("access-control-allow-credentials", "true"),
        ("connection", "close"),
    ] {
        assert_eq!(answer.head.field(field), Some(value), "{}", answer.head.text);
    }
    let fields = [&*format!("Origin: {PAGE}"), "Access-Control-Request-Method: POST"];
    let preflight = get(HUB, &fields).replacen("GET", "OPTIONS", 1);
    let head = hub.server.ask(preflight).head();
    let methods = head.field("access-control-allow-methods");
    assert_eq!((head.status, methods), (204, Some("GET, HEAD, OPTIONS, POST, QUERY")));
    // A stream is not handed on where there are no durable ones.
    assert_eq!(hub.server.ask(get("/v1/stream/a", &[])).head().status, 404);
}

#[test]
fn publishers_and_subscribers_may_have_keys_of_their_own() {
    let files = tempfile::tempdir().unwrap();
    let (publish, subscribe) = (Signer::new("p"), Signer::new("s"));
    let [of_publish, of_subscribe] = [("p", &publish), ("s", &subscribe)].map(|(name, signer)| {
        let path = files.path().join(name);
        signer.write_pem(&path);
        path.display().to_string()
    });
    let options = [
        format!("--mercure-publish-key={of_publish}"),
        format!("--mercure-subscribe-key={of_subscribe}"),
    ];
    let server = Server::start(&[&*options[0], &*options[1]]);
    let hub = Hub { server, _files: files };
    let claims = json!({ "mercure": { "publish": ["*"], "subscribe": ["*"] } });
    let by = |signer: &Signer| format!("Authorization: Bearer {}", signer.signed(&claims));
    let (of_publish, of_subscribe) = (by(&publish), by(&subscribe));
    assert_eq!(hub.status("topic=a", &[&of_publish]), 401);
    let mut stream = hub.listen("topic=a", &[&of_subscribe]);
    let form = "topic=a&data=x&private=on";
    assert_eq!(hub.publish_by(&of_subscribe, form).status(), 401);
    // The signature of each is new to one of the ports.
    let fields = [&*of_publish, FORM, &format!("Content-Length: {}", form.len())];
    let request = get(HUB, &fields).replacen("GET", "POST", 1) + form;
    let answers = [
        read_answer(&mut hub.server.ask(request), "POST").unwrap(),
        hub.publish_by(&of_publish, form),
    ];
    for answer in answers {
        assert_eq!(answer.status(), 200, "{answer:?}");
        assert_eq!(answer.head.field("encke-delivered"), Some("1"));
        assert_eq!(stream.chunk(), format!("id: {}\ndata: x\n\n", answer.body));
    }
}

#[test]
fn hub_with_the_key_of_all_tutorials_does_not_start() {
    let files = tempfile::tempdir().unwrap();
    let path = files.path().join("key");
    let refused = |secret: &str, options: &[&str]| {
        std::fs::write(&path, secret).unwrap();
        let key = format!("--mercure-key={}", path.display());
        let data = format!("--data={}", files.path().join("data").display());
        let all = ["serve", "--api=127.0.0.1:0", &data, &key];
        let finished = Program::run(&mut encke(all.iter().chain(options)));
        assert_ne!(finished.code(), Some(0));
        finished.stderr
    };
    let known = "!ChangeThisMercureHubJWTSecretKey!";
    let told = refused(known, &["--open", "--listen=0.0.0.0:0"]);
    assert!(told.contains("everybody knows its secret"), "{told}");
}

#[test]
fn token_that_is_revoked_ends_its_streams_and_publishes_no_more() {
    let own = format!("--token-key={TOKEN_SECRET}");
    let hub = Hub::start(&[&own]);
    let of = |jti: &str, sub: &str| {
        let granted = json!({ "publish": ["*"], "subscribe": ["*"] });
        bearer(&json!({ "mercure": granted, "jti": jti, "sub": sub }))
    };
    let (bobs, other_of_bob, rjs) = (of("1", "bob"), of("2", "bob"), of("3", "rj"));
    let listen = |token: &String| hub.listen("topic=a", &[token]);
    let [mut bob, mut other, mut rj] = [&bobs, &other_of_bob, &rjs].map(listen);
    let revoke = |body: Value| hub.server.api.post("/tokens/revoke", &body).ok();
    revoke(json!({ "jti": "1" }));
    bob.expect_last_chunk();
    let refused = |token: &str| {
        assert_eq!(hub.status("topic=a", &[token]), 401);
        assert_eq!(hub.publish_by(token, "topic=a&data=x").status(), 401);
    };
    refused(&bobs);
    wait_for("one has left", || hub.publish("topic=a&data=1").1 == 2);
    revoke(json!({ "sub": "bob" }));
    while other.chunk() != "" {}
    refused(&other_of_bob);
    assert_eq!(hub.publish_by(&rjs, "topic=a&data=end").status(), 200);
    while !rj.chunk().ends_with("data: end\n\n") {}
}
