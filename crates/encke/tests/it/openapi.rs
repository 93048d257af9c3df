//! The API and its description, `openapi.json`: each says what the other does.
//!
//! Every operation is called as the description's own example has it, and every member of an answer
//! is compared with its schema. None that is served is not described, and none that is described is
//! never served.

mod schema;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testing::NatsServer;

use self::schema::{described, fits};
use crate::harness::{Authority, Server, TOKEN_SECRET};

const JSON: &str = "/content/application~1json";

/// What the description says that can be asked for.
struct Operation {
    method: String,
    /// As the example has it.
    path: String,
    /// Where it stands in the description.
    place: String,
    /// Its example, for one with a body.
    body: Option<Value>,
}

fn operations(document: &Value) -> Vec<Operation> {
    let operation = |path: &str, method: &str| {
        let place = format!("/paths/{}/{method}", path.replace('/', "~1"));
        let body = document.pointer(&format!("{place}/requestBody{JSON}/example")).cloned();
        let path = path.replace("{id}", "rj");
        Operation { method: method.to_uppercase(), path, place, body }
    };
    // Protocols of others have tests of their own: streams in `durable`, channels in `pusher`,
    // updates in `mercure`.
    let mut paths = document["paths"].as_object().unwrap().clone();
    paths.remove("/v1/stream/{path}").unwrap();
    paths.retain(|path, _| !path.contains("/.well-known/mercure"));
    let is_of_channels = |path: &str| path.starts_with("/apps/") || path.starts_with("/users/");
    paths.retain(|path, _| !is_of_channels(path));
    let methods = |path: &Value| path.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let all = paths.iter().flat_map(|(path, value)| {
        methods(value).into_iter().map(move |method| operation(path, &method))
    });
    all.collect()
}

fn document(server: &Server) -> Value {
    let document = server.api.get("/openapi.json").ok();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1."));
    document
}

#[test]
fn answers_have_all_that_is_described_and_nothing_else() {
    // Who has tokens, TLS and a log has figures of them.
    let authority = Authority::new();
    let pair = authority.issue("own", &["localhost"]).options();
    let key = format!("--token-key={TOKEN_SECRET}");
    let tls = ["--tls-listen=127.0.0.1:0", &pair[0], &pair[1]];
    let hub = format!("--mercure-key={TOKEN_SECRET}");
    let server = Server::start(&[&[key.as_str(), &hub, "--keep=rj=1h"], &tls[..]].concat());
    let document = document(&server);
    let mut met = BTreeSet::new();
    let mut check = |value: &Value, place: &str| match fits(&document, value, place) {
        Ok(members) => met.extend(members),
        Err(error) => panic!("{error}"),
    };
    server.api.subscribe("bob", "rj");
    for Operation { method, path, place, body } in operations(&document) {
        // What browsers do there stands in `keys`; a stream that does not end, in `presence`.
        if path.starts_with("/session") || path == "/presence" {
            continue;
        }
        let text = body.as_ref().map(Value::to_string).unwrap_or_default();
        let kind = body.as_ref().map(|_| "application/json");
        let answer = server.api.request(&method, &path, kind, text.as_bytes()).unwrap();
        assert_eq!(answer.status(), 200, "{method} {path}: {answer:?}");
        if let Some(body) = &body {
            check(body, &format!("{place}/requestBody{JSON}/schema"));
        }
        let kind = answer.head.field("content-type").unwrap().split(';').next().unwrap();
        let content = format!("{place}/responses/200/content/{}", kind.replace('/', "~1"));
        assert!(document.pointer(&content).is_some(), "{method} {path} answers {kind}");
        if kind == "application/json" {
            check(&answer.json(), &format!("{content}/schema"));
        }
        if let Some(example) = document.pointer(&format!("{place}/responses/200{JSON}/example")) {
            check(example, &format!("{content}/schema"));
        }
    }
    for told in [json!({ "online": "1" }), json!({ "offline": "1" }), json!({ "lost": true })] {
        check(&told, "/components/schemas/PresenceEvent");
    }
    let once = json!({ "about": "rj", "data": 1, "key": "8e03978e" });
    let several = json!({ "about": ["rj", 7], "event": "e", "text": "x", "except": "" });
    let durable = json!({ "about": "rj", "data": 1, "durable": true });
    for event in [once, several, durable] {
        check(&event, "/components/schemas/Event");
        check(&server.api.post("/send", &event).ok(), "/components/schemas/Sent");
    }
    let page = server.api.get("/events/rj?limit=1000").ok();
    assert!(page["events"].as_array().unwrap().iter().any(|event| event["also"].is_array()));
    check(&page, "/components/schemas/EventPage");
    let gap = json!({ "events": [], "next": "2F3y6mQsYKmaB3xZ", "gap": true });
    check(&gap, "/components/schemas/EventPage");
    for which in [json!({ "jti": "a", "exp": 1 }), json!({ "sub": "bob", "before": 1 })] {
        check(&which, "/components/schemas/Revocation");
        check(&server.api.post("/tokens/revoke", &which).ok(), "/components/schemas/Revoked");
    }
    server.api.subscribe("bob", "rj");
    server.api.subscribe("eve", "rj");
    let page = server.api.get("/subscribers/rj?limit=1").ok();
    assert!(page["next"].is_string(), "{page}");
    check(&page, "/components/schemas/Page");
    for path in ["/subscriptions/add", "/subscriptions/remove"] {
        let lines = "{\"subscriber\":1,\"subscribee\":2}\nnothing\n";
        let problem = server.api.post_lines(path, lines).problem(400);
        check(&problem, "/components/schemas/Problem");
    }
    // What a cluster says whose node does not answer is tried in `cluster::failures`.
    for (schema, mut answer) in [
        ("Sent", json!({ "delivered": 1, "id": "2F3y6mQsYKmaB3xZ" })),
        ("Connections", json!({ "connections": 1 })),
        ("Closed", json!({ "closed": 1 })),
    ] {
        answer["at_least"] = json!(true);
        check(&answer, &format!("/components/schemas/{schema}"));
    }
    let Some(nats) = testing::nats_current().map(|program| NatsServer::start(&program)) else {
        return;
    };
    let node = Server::start(&["--cluster=c", &format!("--nats={}", nats.url())]);
    check(&node.api.stats(), "/components/schemas/Stats");
    let nodes = node.api.get("/cluster").ok();
    assert_eq!(nodes["nodes"].as_array().unwrap().len(), 1, "{nodes}");
    check(&nodes, "/components/schemas/Cluster");
    let never: Vec<_> =
        described(&document, "/components/schemas").difference(&met).cloned().collect();
    assert_eq!(never, [""; 0], "described and never served");
}

#[test]
fn members_of_a_body_are_those_that_are_described() {
    let server = Server::start(&[]);
    let document = document(&server);
    for Operation { method, path, body, .. } in operations(&document) {
        let Some(body) = body else { continue };
        let (object, is_list) = match &body {
            Value::Array(items) => (items[0].clone(), true),
            body => (body.clone(), false),
        };
        let refused = |object: Value| {
            let body = if is_list { json!([object]) } else { object };
            server.api.post(&path, &body).problem(400);
        };
        for name in object.as_object().unwrap().keys() {
            let mut without = object.clone();
            without.as_object_mut().unwrap().remove(name);
            refused(without);
        }
        let mut more = object.clone();
        more["more"] = json!(1);
        refused(more);
        let text = body.to_string();
        let answer = server.api.request(&method, &path, Some("text/html"), text.as_bytes());
        answer.unwrap().problem(415);
    }
}

#[test]
fn parameters_that_are_described_are_read() {
    let server = Server::start(&[]);
    let document = document(&server);
    for Operation { path, place, body, .. } in operations(&document) {
        let parameters = document.pointer(&format!("{place}/parameters"));
        for parameter in parameters.and_then(Value::as_array).into_iter().flatten() {
            let (name, schema) = (parameter["name"].as_str().unwrap(), &parameter["schema"]);
            match parameter["in"].as_str().unwrap() {
                "query" => {
                    server.api.get(&format!("{path}?{name}=x!")).problem(400);
                    if let Some(usual) = schema.get("default") {
                        let usual = usual.as_str().map_or(usual.to_string(), str::to_owned);
                        server.api.get(&format!("{path}?{name}={usual}")).ok();
                    }
                }
                "path" => {
                    let bad = path.replace("rj", "a%20b");
                    let method = if path.starts_with("/logout") { "POST" } else { "GET" };
                    server.api.request(method, &bad, None, b"").unwrap().problem(400);
                }
                "header" => {
                    let body = body.as_ref().unwrap().to_string();
                    let usual = parameter["example"].as_str().unwrap();
                    let send =
                        |value| server.api.post_with(&path, &format!("{name}: {value}\r\n"), &body);
                    send("x!, \"").problem(400);
                    send(usual).ok();
                }
                other => panic!("{path}: a parameter in {other}"),
            }
        }
    }
}

#[test]
fn methods_that_are_not_described_are_not_there() {
    let server = Server::start(&[]);
    let document = document(&server);
    for (path, methods) in document["paths"].as_object().unwrap() {
        let mut described: BTreeSet<String> =
            methods.as_object().unwrap().keys().map(|method| method.to_uppercase()).collect();
        if described.contains("GET") {
            described.insert("HEAD".to_owned());
        }
        // Ids of these names have subscriptions that can be asked for.
        if path.starts_with("/subscriptions/") && !path.ends_with('}') {
            described.extend(["GET".to_owned(), "HEAD".to_owned()]);
        }
        let answer = server.api.request("BREW", &path.replace("{id}", "rj"), None, b"").unwrap();
        answer.problem(405);
        let allowed = answer.head.field("allow").unwrap().split(',').map(str::trim);
        assert_eq!(allowed.map(str::to_owned).collect::<BTreeSet<_>>(), described, "{path}");
    }
}
