//! Pusher Channels: the protocol line by line over raw sockets, the HTTP API, the file of apps, and
//! the clients and libraries that Pusher's users have; and several nodes.

mod apps;
mod clients;
mod conformance;
mod counts;
mod faults;
mod graph;
mod hooks;
mod http;
mod missed;
mod node_bounds;
mod node_hooks;
mod nodes;
mod secure;
mod shared_ids;
mod upgrade;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use ::pusher::{Secret, Signed, SocketId};
use md5::{Digest, Md5};
use serde_json::{Value, json};
use tempfile::TempDir;
use testing::tried_again;

use crate::harness::{Answer, Api, Server, Socket, wait_for};

const SECRET: &str = "a-secret-of-some-length";

/// Why an answer that is asked of several nodes has too little: the machine stood still.
const LATE: &str = "a node's part came too late for an answer";

/// A server with apps: 1 has client events, 2 has none and few places, 3 is disabled.
struct AppServer {
    server: Server,
    files: TempDir,
}

impl AppServer {
    fn start(options: &[&str]) -> AppServer {
        AppServer::of(&apps(), options)
    }

    /// One with these apps, of which the first is called 1.
    fn of(apps: &Value, options: &[&str]) -> AppServer {
        let files = tempfile::tempdir().unwrap();
        let option = option_of(files.path(), apps);
        let server = Server::start(&[&[option.as_str()], options].concat());
        AppServer { server, files }
    }

    fn client(&self, app: &str) -> Client {
        Client::open(&self.server, &format!("/app/app-{app}?protocol=7&client=js&version=8.6.0"))
    }

    /// Waits until the app has no connection and no channel any more.
    fn wait_empty(&self, app: &str) {
        wait_for("all clients have gone", || {
            let ask = |path: &str| get(&self.server.api, app, path, &[]).ok();
            // Who has left is a member until that was told.
            ask("/connections")["connections"] == 0
                && ask("/channels")["channels"] == json!({})
                && ask("/channels/presence-r/users")["users"] == json!([])
        });
    }
}

/// Writes the file of the usual apps; the option that names it.
fn option(folder: &Path) -> String {
    option_of(folder, &apps())
}

/// Writes the file of these apps; the option that names it.
fn option_of(folder: &Path, apps: &Value) -> String {
    let path = folder.join("apps.json");
    std::fs::write(&path, apps.to_string()).unwrap();
    format!("--pusher-apps={}", path.display())
}

/// The usual apps.
fn apps() -> Value {
    json!([
        { "id": "1", "key": "app-1", "secret": SECRET, "client_events": true },
        { "id": "2", "key": "app-2", "secret": SECRET, "max_members": 2, "max_connections": 3,
          "max_event_bytes": 20 },
        { "id": "3", "key": "app-3", "secret": SECRET, "enabled": false },
    ])
}

/// An app called 1, with these members beside what each has.
fn app_with(members: &Value) -> Value {
    let mut app = json!({ "id": "1", "key": "app-1", "secret": SECRET, "client_events": true });
    let more = members.as_object().unwrap().clone();
    app.as_object_mut().unwrap().extend(more);
    app
}

/// A client over a raw WebSocket.
struct Client<S = TcpStream> {
    socket: Socket<S>,
    id: SocketId,
}

impl Client {
    fn open(server: &Server, path: &str) -> Client {
        Client::on(Socket::open(server.listen(), path))
    }
}

impl<S: Read + Write> Client<S> {
    fn on(mut socket: Socket<S>) -> Client<S> {
        let first = socket.json();
        assert_eq!(first["event"], "pusher:connection_established", "{first}");
        let data = data_of(&first);
        assert!((1..=120).contains(&data["activity_timeout"].as_u64().unwrap()), "{first}");
        let id = SocketId::parse(data["socket_id"].as_str().unwrap()).unwrap().unwrap();
        Client { socket, id }
    }

    fn say(&mut self, frame: &Value) {
        self.socket.send(frame.to_string());
    }

    /// The signature of the app `key` for a channel.
    fn auth(&self, key: &str, channel: &str, channel_data: Option<&str>) -> String {
        let what = Signed::Channel { channel, channel_data };
        what.auth(key, &Secret::new(SECRET.as_bytes()), self.id)
    }

    fn auth_of_user(&self, key: &str, user_data: &str) -> String {
        Signed::User { user_data }.auth(key, &Secret::new(SECRET.as_bytes()), self.id)
    }

    /// Subscribes to a channel that is no presence channel, and hears that it is.
    fn subscribe(&mut self, channel: &str) {
        let auth = self.auth("app-1", channel, None);
        self.say(&json!({ "event": "pusher:subscribe",
                          "data": { "channel": channel, "auth": auth } }));
        let heard = self.socket.json();
        assert_eq!(heard["event"], "pusher_internal:subscription_succeeded", "{heard}");
        assert_eq!(heard["channel"], channel);
    }

    /// Subscribes to a channel as one that has heard it up to the event `after`.
    fn subscribe_after(&mut self, channel: &str, after: &str) {
        let auth = self.auth("app-1", channel, None);
        self.say(&json!({ "event": "pusher:subscribe",
                          "data": { "channel": channel, "auth": auth, "after": after } }));
        let heard = self.hear();
        assert_eq!(heard["event"], "pusher_internal:subscription_succeeded", "{heard}");
    }

    /// Takes a place in a presence channel as bob, signs in and hears its user's own channel.
    fn sit_and_sign_in(&mut self) {
        let channel_data = r#"{"user_id":"bob"}"#;
        let auth = self.auth("app-1", "presence-room", Some(channel_data));
        let user_data = r#"{"id":"bob"}"#;
        let signature = self.auth_of_user("app-1", user_data);
        for (event, data, answer) in [
            (
                "pusher:subscribe",
                json!({ "channel": "presence-room", "auth": auth, "channel_data": channel_data }),
                "pusher_internal:subscription_succeeded",
            ),
            (
                "pusher:signin",
                json!({ "auth": signature, "user_data": user_data }),
                "pusher:signin_success",
            ),
            (
                "pusher:subscribe",
                json!({ "channel": "#server-to-user-bob", "auth": "" }),
                "pusher_internal:subscription_succeeded",
            ),
        ] {
            self.say(&json!({ "event": event, "data": data }));
            let heard = self.hear();
            assert_eq!(heard["event"], answer, "{heard}");
        }
    }

    /// The next frame.
    fn hear(&mut self) -> Value {
        self.socket.json()
    }

    /// Checks that nothing has come before the answer to a ping.
    fn hear_nothing(&mut self) {
        self.say(&json!({ "event": "pusher:ping", "data": {} }));
        assert_eq!(self.hear()["event"], "pusher:pong");
    }
}

/// What a frame says in its `data`, which is JSON in a text.
fn data_of(frame: &Value) -> Value {
    serde_json::from_str(frame["data"].as_str().unwrap_or_else(|| panic!("{frame}"))).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// `/apps/{app}{path}` with these parameters, signed as libraries do it.
fn signed(method: &str, app: &str, path: &str, parameters: &[(&str, &str)], body: &str) -> String {
    signed_at(sys::clock::unix_ms() / 1000, [method, app, path], parameters, body)
}

fn signed_at(
    now: u64,
    [method, app, path]: [&str; 3],
    parameters: &[(&str, &str)],
    body: &str,
) -> String {
    let path = format!("/apps/{app}{path}");
    let mut all = vec![
        ("auth_key".to_owned(), format!("app-{app}")),
        ("auth_timestamp".to_owned(), now.to_string()),
        ("auth_version".to_owned(), "1.0".to_owned()),
    ];
    if !body.is_empty() {
        all.push(("body_md5".to_owned(), hex(&Md5::digest(body))));
    }
    all.extend(parameters.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())));
    all.sort();
    let query: Vec<String> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let query = query.join("&");
    let text = format!("{method}\n{path}\n{query}");
    let signature = Secret::new(SECRET.as_bytes()).sign(&[text.as_bytes()]);
    format!("{path}?{query}&auth_signature={signature}")
}

fn post(api: &Api, app: &str, path: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let path = signed("POST", app, path, &[], &body);
    api.request("POST", &path, Some("application/json"), body.as_bytes()).unwrap()
}

fn get(api: &Api, app: &str, path: &str, parameters: &[(&str, &str)]) -> Answer {
    api.get(&signed("GET", app, path, parameters, ""))
}

/// Whether an answer has the parts of all nodes.
fn is_whole(answer: &Answer) -> bool {
    answer.head.field("encke-at-least").is_none()
}

/// An answer that has the parts of all nodes: one that has not is asked for again, and that is
/// told.
#[track_caller]
fn get_whole(api: &Api, app: &str, path: &str, parameters: &[(&str, &str)]) -> Value {
    for _ in 0..4 {
        let answer = get(api, app, path, parameters);
        if is_whole(&answer) {
            return answer.ok();
        }
        tried_again(LATE);
    }
    panic!("{path}: some node never answers in time")
}

/// Checks how many heard what was triggered, and what is told of its channels, where all nodes have
/// counted in time. It cannot be triggered again, so a late one is forgiven and told. Whether they
/// had.
#[track_caller]
fn check_counted(answer: &Answer, delivered: &str, expected: &Value) -> bool {
    let told = answer.ok();
    if is_whole(answer) {
        assert_eq!(answer.head.field("encke-delivered"), Some(delivered), "{answer:?}");
        assert_eq!(told, *expected);
    } else {
        tried_again(LATE);
    }
    is_whole(answer)
}
