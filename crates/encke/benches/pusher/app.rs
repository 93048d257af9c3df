//! A server with an app, what its backend signs, and clients of it one by one.

use md5::{Digest, Md5};
use pusher::{Secret, Signed, SocketId};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::Outcome;
use crate::harness::{Answer, Api, Server, Socket};

pub(crate) const KEY: &str = "app-1";
pub(crate) const SECRET: &str = "a-secret-of-some-length";

/// Where clients of the app connect.
pub(crate) const PATH: &str = "/app/app-1?protocol=7&client=js&version=8.6.0";

/// The settings for at most so many clients, of whom `there` keep a descriptor: as many workers as
/// those take, each with a table of its own.
pub(crate) fn room_for(most: usize, there: usize) -> Outcome<[String; 2]> {
    let descriptors = sys::limits::descriptors()?.soft;
    let cores = std::thread::available_parallelism()?.get();
    let workers = engine::workers::workers_for(there as u64, descriptors, cores);
    Ok([format!("--max-connections={}", most + 1_000), format!("--workers={workers}")])
}

/// A server, and the folder of its file of apps.
pub(crate) struct AppServer(pub(crate) Server, #[expect(dead_code, reason = "removed")] TempDir);

impl AppServer {
    pub(crate) fn start(options: &[&str]) -> AppServer {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("apps.json");
        let app = json!({ "id": "1", "key": KEY, "secret": SECRET, "max_members": 10_000 });
        std::fs::write(&path, json!([app]).to_string()).expect("the file can be written");
        let apps = format!("--pusher-apps={}", path.display());
        AppServer(Server::start(&[&[&*apps], options].concat()), folder)
    }

    /// Has an event told to a channel.
    pub(crate) fn trigger(&self, channel: &str, data: &str) {
        trigger(&self.0.api, channel, data);
    }

    /// What the API says of a path below the app.
    pub(crate) fn ask(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        self.0.api.get(&signed("GET", path, parameters, "")).ok()
    }

    /// A figure of the server's, summed over its labels.
    pub(crate) fn figure(&self, name: &str) -> f64 {
        let body = self.0.api.get("/metrics").body;
        let of_name = body.lines().filter_map(|line| {
            let (labelled, value) = line.rsplit_once(' ')?;
            let is_it = labelled == name || labelled.starts_with(&format!("{name}{{"));
            is_it.then(|| value.parse::<f64>().expect("a figure is a number"))
        });
        of_name.sum()
    }
}

/// Has an event told to a channel by the API of any server that has the app.
pub(crate) fn trigger(api: &Api, channel: &str, data: &str) {
    let body = json!({ "name": "n", "channel": channel, "data": data }).to_string();
    let path = signed("POST", "/events", &[], &body);
    let answer: Answer = api
        .request("POST", &path, Some("application/json"), body.as_bytes())
        .expect("the API answers");
    answer.ok();
}

/// `/apps/1{path}` with these parameters, signed as libraries do it.
pub(crate) fn signed(method: &str, path: &str, parameters: &[(&str, &str)], body: &str) -> String {
    let path = format!("/apps/1{path}");
    let now = sys::clock::unix_ms() / 1000;
    let mut all = vec![
        ("auth_key", KEY.to_owned()),
        ("auth_timestamp", now.to_string()),
        ("auth_version", "1.0".to_owned()),
    ];
    if !body.is_empty() {
        let digest = Md5::digest(body);
        all.push(("body_md5", digest.iter().map(|byte| format!("{byte:02x}")).collect()));
    }
    all.extend(parameters.iter().map(|&(key, value)| (key, value.to_owned())));
    all.sort();
    let query: Vec<String> = all.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let query = query.join("&");
    let text = format!("{method}\n{path}\n{query}");
    let signature = Secret::new(SECRET.as_bytes()).sign(&[text.as_bytes()]);
    format!("{path}?{query}&auth_signature={signature}")
}

/// A connection, and what it is called.
pub(crate) fn open(server: &AppServer) -> (Socket, SocketId) {
    let mut socket = Socket::open(server.0.listen(), PATH);
    let first = answer(&mut socket).to_string();
    (socket, id_of(first.as_bytes()))
}

/// What the first message calls the connection.
pub(crate) fn id_of(first: &[u8]) -> SocketId {
    let id = || {
        let first: Value = serde_json::from_slice(first).ok()?;
        let data: Value = serde_json::from_str(first["data"].as_str()?).ok()?;
        SocketId::parse(data["socket_id"].as_str()?).ok()?
    };
    id().expect("a connection is told what it is called")
}

/// What subscribes to a channel that everybody may hear.
pub(crate) fn hello(channel: &str) -> String {
    json!({ "event": "pusher:subscribe", "data": { "channel": channel } }).to_string()
}

/// What subscribes to a private channel, or to a presence channel with what it says of the member.
pub(crate) fn signed_hello(channel: &str, id: SocketId, member: Option<&Value>) -> String {
    let channel_data = member.map(Value::to_string);
    let what = Signed::Channel { channel, channel_data: channel_data.as_deref() };
    let auth = what.auth(KEY, &Secret::new(SECRET.as_bytes()), id);
    let mut data = json!({ "channel": channel, "auth": auth });
    if let Some(channel_data) = channel_data {
        data["channel_data"] = channel_data.into();
    }
    json!({ "event": "pusher:subscribe", "data": data }).to_string()
}

pub(crate) fn subscribe(socket: &mut Socket, channel: &str) {
    socket.send(hello(channel));
    expect_success(socket);
}

/// The next message is the answer to a subscription.
pub(crate) fn expect_success(socket: &mut Socket) {
    let heard = answer(socket);
    assert_eq!(heard["event"], "pusher_internal:subscription_succeeded", "{heard}");
}

/// The next message that answers something: what tells that the server lives comes unasked, as
/// often as `--keepalive` says.
fn answer(socket: &mut Socket) -> Value {
    std::iter::repeat_with(|| socket.json())
        .find(|heard| heard["event"] != "pusher:pong")
        .expect("messages come without end")
}
