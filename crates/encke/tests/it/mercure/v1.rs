//! Mercure 1.0 beside the old dialect: tokens, discovery, and what has no line in the cases.

use serde_json::{Value, json};

use super::{BOOKS, FORM, HUB, Hub, PAGE, begin, publisher, signed};
use crate::harness::{Program, Server, Wire, encke, escape, get, read_answer, wait_for};

/// Where the hub of tokens of 1.0 is.
pub(super) const PUBLIC_URL: &str = "--public-url=https://hub.example";

/// By whom they are.
pub(super) const ISSUER: &str = "--mercure-issuer=https://app.example";

/// Where the metadata of the hub are.
pub(super) const METADATA: &str = "/.well-known/oauth-protected-resource/.well-known/mercure";

/// The token of a client with `details`; what it is to `set` takes the place of the usual claims,
/// and what is null there is none.
pub(super) fn access_token(client: &Value) -> String {
    let mut claims = json!({
        "iss": "https://app.example",
        "aud": "https://hub.example/.well-known/mercure",
        "exp": 4_102_444_800_u64,
        "authorization_details": client["details"],
    });
    for (name, value) in client["set"].as_object().into_iter().flatten() {
        claims[name] = value.clone();
        if value.is_null() {
            claims.as_object_mut().unwrap().remove(name);
        }
    }
    signed(client["typ"].as_str().unwrap_or("at+jwt"), &claims)
}

/// What shows a token of 1.0 for these topics.
pub(super) fn grants(action: &str, topics: &[(&str, &str)], set: &Value) -> String {
    let topic = |&(kind, text): &(&str, &str)| json!({ "match": text, "match_type": kind });
    let detail = json!({
        "type": "https://mercure.rocks/authorization-detail",
        "actions": [action],
        "topics": topics.iter().map(topic).collect::<Vec<_>>(),
    });
    let token = access_token(&json!({ "details": [detail], "set": set }));
    format!("Authorization: Bearer {token}")
}

#[test]
fn token_of_the_specification_opens_both_directions() {
    let files = tempfile::tempdir().unwrap();
    let key = files.path().join("key");
    std::fs::write(&key, "!ChangeThisMercureHubJWTSecretKey!").unwrap();
    let key = format!("--mercure-key={}", key.display());
    let server = Server::start(&[&key, PUBLIC_URL, ISSUER]);
    let hub = Hub { server, _files: files };
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJodHRwczovL2FwcC5leGFtcGxlIiwi\
                 YXVkIjoiaHR0cHM6Ly9odWIuZXhhbXBsZS8ud2VsbC1rbm93bi9tZXJjdXJlIiwiZXhwIjo0MTAyNDQ0OD\
                 AwLCJhdXRob3JpemF0aW9uX2RldGFpbHMiOlt7InR5cGUiOiJodHRwczovL21lcmN1cmUucm9ja3MvYXV0\
                 aG9yaXphdGlvbi1kZXRhaWwiLCJhY3Rpb25zIjpbInB1Ymxpc2giLCJzdWJzY3JpYmUiXSwidG9waWNzIj\
                 pbeyJtYXRjaCI6IioifV19XX0.xuoK7by66ANxoLwV4UT2epDuoOq_BW78V3bGMDBtnmU";
    let bearer = format!("Authorization: Bearer {token}");
    let mut stream = hub.listen("match_urlpattern=https://a.test/books/:id", &[&bearer]);
    let answer = hub.publish_by(&bearer, "topic=https://a.test/books/1&private=on&data=x");
    assert_eq!(answer.status(), 200, "{answer:?}");
    assert_eq!(answer.head.field("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(answer.head.field("encke-delivered"), Some("1"));
    assert_eq!(stream.chunk(), format!("id: {}\ndata: x\n\n", answer.body));
    assert_eq!(hub.status("match=a", &[]), 401);
}

#[test]
fn one_update_is_heard_by_listeners_of_both_dialects() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL]);
    let new = "match_urlpattern=https://a.test/books/:id";
    let bobs = grants("subscribe", &[("urlpattern", "https://a.test/users/bob/*")], &Value::Null);
    let mut heard = [hub.listen(new, &[&bobs]), hub.listen(BOOKS, &[]), hub.listen(new, &[])];
    let form = "topic=https://a.test/books/1&topic=https://a.test/users/bob/books/1&data=";
    let by = grants("publish", &[("urlpattern", "https://a.test/*")], &Value::Null);
    let private = hub.publish_by(&by, &format!("{form}1&private=on&type=t"));
    assert_eq!(private.head.field("encke-delivered"), Some("1"));
    assert_eq!(heard[0].chunk(), format!("event: t\nid: {}\ndata: 1\n\n", private.body));
    for by in [&by, &publisher()] {
        let public = hub.publish_by(by, &format!("{form}2"));
        assert_eq!(public.head.field("encke-delivered"), Some("3"));
        for stream in &mut heard {
            assert_eq!(stream.chunk(), format!("id: {}\ndata: 2\n\n", public.body));
        }
    }
    // A place is one in both.
    for (query, field) in [(new, "mercure-last-event-id"), (BOOKS, "last-event-id")] {
        let place = format!("Last-Event-ID: {}", private.body);
        let mut stream = hub.listen(query, &[&place]);
        assert_eq!(stream.head.field(field), Some(&*private.body), "{query}");
        assert!(stream.chunk().ends_with("data: 2\n\n"));
    }
}

#[test]
fn metadata_are_on_both_ports_and_say_who_issues() {
    let hub = Hub::start(&[PUBLIC_URL, ISSUER]);
    let mut wire = hub.server.ask(get(METADATA, &[]));
    let public = read_answer(&mut wire, "GET").unwrap();
    assert_eq!(public.head.field("content-type"), Some("application/json"));
    let expected = json!({
        "resource": "https://hub.example/.well-known/mercure",
        "authorization_servers": ["https://app.example"],
        "authorization_details_types_supported": ["https://mercure.rocks/authorization-detail"],
        "bearer_methods_supported": ["header"],
        "mercure_cookie": "__Secure-mercure_access_token",
        "mercure_matcher_types_supported": ["exact", "urlpattern"],
        "mercure_subscriptions": true,
    });
    assert_eq!(serde_json::from_str::<Value>(&public.body).unwrap(), expected);
    assert_eq!(hub.server.api.get(METADATA).ok(), expected);
    let without = Server::start(&[]);
    assert_eq!(without.ask(get(METADATA, &[])).head().status, 404);
    assert_eq!(without.api.get(METADATA).status(), 404);
}

#[test]
fn hub_is_as_it_is_called_where_no_address_is_named() {
    let hub = Hub::start(&["--mercure-open"]);
    let host = "hub.test:8000";
    for (aud, status) in [
        (format!("http://{host}{HUB}"), 200),
        (format!("https://{host}{HUB}"), 200),
        (format!("https://other.test{HUB}"), 401),
    ] {
        let by = grants("subscribe", &[("exact", "a")], &json!({ "aud": aud }));
        let request = format!("GET {HUB}?match=a HTTP/1.1\r\nHost: {host}\r\n{by}\r\n\r\n");
        assert_eq!(hub.server.ask(request).head().status, status, "{aud}");
    }
}

#[test]
fn page_reads_the_place_and_asks_by_query() {
    let allowed = format!("--allow-origin={PAGE}");
    let hub = Hub::start(&["--mercure-open", &allowed]);
    let origin = format!("Origin: {PAGE}");
    let stream = hub.listen("match=a&last_event_id=", &[&origin]);
    let exposed = stream.head.field("access-control-expose-headers").unwrap();
    assert!(exposed.contains("Mercure-Last-Event-ID"), "{exposed}");
    let asks = [&*origin, "Access-Control-Request-Method: QUERY"];
    let head = hub.server.ask(get(HUB, &asks).replacen("GET", "OPTIONS", 1)).head();
    assert!(head.field("access-control-allow-methods").unwrap().contains("QUERY"));
    // The body comes in two parts, and what follows a whole one is nobody's.
    let body = format!("match={}&match=b", "x".repeat(4_096));
    let fields = [&*origin, FORM, &format!("Content-Length: {}", body.len())];
    let request = get(HUB, &fields).replacen("GET", "QUERY", 1);
    let mut wire = hub.server.ask(format!("{request}{}", &body[..1_000]));
    wire.send(format!("{}&match=c{}", &body[1_000..], get(HUB, &[])));
    assert_eq!(wire.head().status, 200);
    assert_eq!(hub.publish("topic=c&data=1").1, 0);
    assert_eq!(hub.publish("topic=b&data=1").1, 1);
    assert_eq!(wire.chunk().unwrap(), b":\n");
    assert!(wire.chunk().unwrap().ends_with(b"data: 1\n\n"));
    hub.publish("topic=b&data=2");
    assert!(wire.chunk().unwrap().ends_with(b"data: 2\n\n"), "nothing else is answered");
    let refused = |fields: &[&str]| {
        hub.server.ask(get(HUB, fields).replacen("GET", "QUERY", 1)).head().status
    };
    assert_eq!(refused(&[FORM]), 411);
    assert_eq!(refused(&[FORM, "Content-Length: 20000"]), 413);
    assert_eq!(refused(&["Content-Type: text/plain", "Content-Length: 1"]), 415);
}

/// A signature by a public key is verified elsewhere; the form waits meanwhile.
#[test]
fn form_of_a_query_waits_for_its_token() {
    let files = tempfile::tempdir().unwrap();
    let signer = crate::harness::Signer::new("s");
    signer.write_pem(&files.path().join("s"));
    let key = format!("--mercure-subscribe-key={}", files.path().join("s").display());
    let publish = Hub::key_option(files.path()).replace("--mercure-key", "--mercure-publish-key");
    std::fs::write(files.path().join("key"), super::SECRET).unwrap();
    let server = Server::start(&[&key, &publish, PUBLIC_URL]);
    let hub = Hub { server, _files: files };
    let good = json!({
        "iss": "https://app.example",
        "aud": format!("https://hub.example{HUB}"),
        "exp": 4_102_444_800_u64,
        "authorization_details": [{
            "type": "https://mercure.rocks/authorization-detail",
            "actions": ["subscribe"],
            "topics": [{ "match": "a" }],
        }],
    });
    let body = "match=a";
    let length = format!("Content-Length: {}", body.len());
    let asked = |token: String| {
        let by = format!("Authorization: Bearer {token}");
        get(HUB, &[&by, FORM, &length]).replacen("GET", "QUERY", 1) + body
    };
    let mut stream = begin(&hub.server, asked(signer.signed_as("at+jwt", &good)));
    assert_eq!(hub.publish("topic=a&data=x&private=on").1, 1);
    assert!(stream.chunk().ends_with("data: x\n\n"));
    // This one is verified, and then found to be of the other dialect.
    let old = json!({ "mercure": { "subscribe": ["*"] } });
    let head = hub.server.ask(asked(signer.signed(&old))).head();
    assert_eq!(head.status, 401, "{}", head.text);
    assert!(head.field("www-authenticate").unwrap().contains("resource_metadata"));
}

#[test]
fn longest_pattern_is_heard_as_any_other() {
    let address = format!("https://{}.hub.example", "long.".repeat(40).trim_end_matches('.'));
    let hub = Hub::start(&["--mercure-open", &format!("--public-url={address}")]);
    let set = json!({ "aud": format!("{address}{HUB}") });
    let long = format!("https://a.test/{}", "x".repeat(4_096 - "https://a.test/*".len()));
    let pattern = format!("{long}*");
    let query = format!("match_urlpattern={pattern}");
    let listed = grants("subscribe", &[("urlpattern", &pattern)], &set);
    let other = grants("subscribe", &[("urlpattern", "https://a.test/*")], &set);
    let mut streams = [hub.listen(&query, &[]), hub.listen(&query, &[&other])];
    let form = format!("topic={long}&data=");
    assert_eq!(hub.publish(&format!("{form}1")).1, 2);
    assert_eq!(hub.publish(&format!("{form}2&private=on")).1, 1);
    assert!(streams[0].chunk().ends_with("data: 1\n\n"));
    assert!(streams[1].chunk().ends_with("data: 1\n\n"));
    assert!(streams[1].chunk().ends_with("data: 2\n\n"));
    let mut by_topic = hub.listen("match=*", &[&listed]);
    assert_eq!(hub.publish(&format!("{form}3&private=on")).1, 2);
    assert!(by_topic.chunk().ends_with("data: 3\n\n"));
    assert_eq!(hub.status(&format!("{query}x"), &[]), 400);
}

#[test]
fn patterns_of_anonymous_clients_have_bounds_of_their_own() {
    let hub = Hub::start(&["--mercure-open"]);
    // Each address that an anonymous client calls is one from which patterns are seen.
    let call = |host: String, by: &str| {
        let request =
            format!("GET {HUB}?match_urlpattern=:id HTTP/1.1\r\nHost: {host}\r\n{by}\r\n\r\n");
        let mut wire = hub.server.ask(request);
        (wire.head().status, wire)
    };
    let anonymous: Vec<_> = (0..17).map(|n| call(format!("{n}.test"), "Accept: */*")).collect();
    let statuses: Vec<u16> = anonymous.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [&[200; 16][..], &[429]].concat());
    let aud = format!("http://hub.test{HUB}");
    let by = grants("subscribe", &[("exact", "a")], &json!({ "aud": aud }));
    assert_eq!(call("hub.test".to_owned(), &by).0, 200);
}

/// The statuses of anonymous clients that listen to each of these at the hub.
fn statuses_of_anonymous(
    hub: &Hub,
    queries: impl Iterator<Item = String>,
) -> (Vec<u16>, Vec<Wire>) {
    let ask = |query: String| {
        let mut wire = hub.server.ask(get(&format!("{HUB}?{query}"), &[]));
        (wire.head().status, wire)
    };
    queries.map(ask).unzip()
}

#[test]
fn patterns_that_take_long_have_few_places() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL]);
    // One of any host counts for fifty of 5,000, and a regular expression for one of 64.
    let any = |n: usize| format!("match_urlpattern={}", escape(&format!("https://*.{n}.test/")));
    let (statuses, any_host) = statuses_of_anonymous(&hub, (0..102).map(any));
    assert_eq!(statuses, [&[200; 100][..], &[429; 2]].concat());
    drop(any_host);
    let regex = |n: usize| escape(&format!("https://a.test/{n}/:id(.*[a-f].{{20}}b)"));
    let of = |n: usize| format!("match_urlpattern={}", regex(n));
    let subscribers = || hub.server.api.stats()["mercure"]["subscribers"].clone();
    wait_for("the others have gone", || subscribers() == 0);
    let (statuses, opened) = statuses_of_anonymous(&hub, (0..66).map(of));
    assert_eq!(statuses, [&[200; 64][..], &[429; 2]].concat());
    // One with a token has room.
    let granted = grants("subscribe", &[("exact", "a")], &Value::Null);
    let mut stream = hub.listen(&of(99), &[&granted]);
    let topic = format!("https://a.test/99/{}", "a".repeat(2_000) + "b");
    assert_eq!(hub.publish(&format!("topic={topic}&data=x")).1, 1);
    assert!(stream.chunk().ends_with("data: x\n\n"));
    drop(opened);
}

/// It would be tried on each topic: its client is told instead.
#[test]
fn regular_expression_past_many_topics_is_a_gap() {
    let hub = Hub::start(&["--mercure-open", PUBLIC_URL]);
    let topic = |n: usize| format!("https://a.test/{n}/{}", "a".repeat(3_500));
    let (first, _) = hub.publish(&format!("topic={}&data=first", topic(0)));
    let regex = format!("match_urlpattern={}", escape("https://a.test/:n/:id(.*a)"));
    hub.publish(&format!("topic={}&data=second", topic(1)));
    let place = format!("Last-Event-ID: {first}");
    let mut stream = hub.listen(&regex, &[&place]);
    assert_eq!(stream.head.field("mercure-last-event-id"), Some(&*first));
    assert!(stream.chunk().ends_with("data: second\n\n"));
    (2..80).for_each(|n| drop(hub.publish(&format!("topic={}&data=more", topic(n)))));
    let mut stream = hub.listen(&regex, &[&place]);
    assert_eq!(stream.head.field("mercure-last-event-id"), Some("earliest"));
    assert!(stream.chunk().starts_with("event: gap\n"));
    hub.publish(&format!("topic={}&data=live", topic(90)));
    assert!(stream.chunk().ends_with("data: live\n\n"));
}

#[test]
fn issuer_without_a_key_is_wrong_usage() {
    let run = Program::run(&mut encke(["serve", "--api=127.0.0.1:0", ISSUER]));
    assert_eq!(run.code(), Some(2));
    assert!(run.stderr.contains("give it such a key"), "{}", run.stderr);
}

#[test]
fn stream_of_a_token_of_1_0_ends_with_it() {
    let hub = Hub::start(&[PUBLIC_URL]);
    let ends = sys::clock::unix_ms() / 1000 + 1;
    let by = grants("subscribe", &[("exact", "*")], &json!({ "exp": ends }));
    begin(&hub.server, get(&format!("{HUB}?match=a"), &[&by])).expect_last_chunk();
}
