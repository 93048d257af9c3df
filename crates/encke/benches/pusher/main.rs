//! `cargo bench --bench pusher`: what clients of Pusher Channels cost a server, which is the
//! `encke` of the same profile.
//!
//! - bytes of an idle connection, in no channel, in one, and for each of four further channels:
//!   resident memory of the server, between crowds of connections;
//! - processor time of a subscription, with a signature and without: one connection subscribes and
//!   leaves, flat out, and the difference is what a signature takes.
//!
//! Options, after `--`: `--connections N` (default 20,000; `ulimit -n` is to allow it),
//! `--subscriptions N` (default 200,000).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;

use std::time::Instant;

use harness::{Server, Socket};
use pusher::{Secret, Signed, SocketId};
use serde_json::{Value, json};

const SECRET: &str = "a-secret-of-some-length";
const PATH: &str = "/app/app-1?protocol=7&client=js&version=8.6.0";

/// Channels that each connection subscribes to beside the first one.
const FURTHER: u64 = 4;

/// Subscriptions that are on their way at one time: their frames fit the kernel's buffers.
const AT_ONCE: u64 = 100;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let option = |name: &str, default: u64| {
        let place = arguments.iter().position(|argument| argument == name);
        let value = place.and_then(|place| arguments.get(place + 1));
        value.map_or(default, |value| value.parse().unwrap())
    };
    let (connections, subscriptions) =
        (option("--connections", 20_000), option("--subscriptions", 200_000));
    idle(connections);
    let rounds = subscriptions / AT_ONCE;
    let plain = subscribing("news", rounds);
    let signed = subscribing("private-news", rounds);
    println!("a signature takes {:.2} µs more (bound: 5)", signed - plain);
}

/// A server with an app, and the folder of its file.
fn server() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("apps.json");
    let apps = json!([{ "id": "1", "key": "app-1", "secret": SECRET }]);
    std::fs::write(&path, apps.to_string()).unwrap();
    (Server::start(&[&format!("--pusher-apps={}", path.display())]), folder)
}

/// Bytes of connections that say nothing.
fn idle(connections: u64) {
    let (server, _folder) = server();
    // What the first of them make the server reserve is no connection's.
    let mut warm: Vec<Socket> = (0..1_000).map(|_| open(&server).0).collect();
    warm.iter_mut().for_each(|socket| subscribe(socket, "c-0"));
    let before = figure(&server, "process_resident_memory_bytes");
    let mut crowd: Vec<Socket> = (0..connections).map(|_| open(&server).0).collect();
    let mut last = before;
    let mut row = |name: &str, things: u64, bound: &str| {
        let now = figure(&server, "process_resident_memory_bytes");
        println!("{name}: {:.0} bytes{bound}", (now - last) / things as f64);
        last = now;
        now
    };
    row("an idle connection in no channel", connections, "");
    crowd.iter_mut().for_each(|socket| subscribe(socket, "c-0"));
    let in_one = row("its first channel", connections, "");
    for channel in 1..=FURTHER {
        crowd.iter_mut().for_each(|socket| subscribe(socket, &format!("c-{channel}")));
    }
    row("each further channel", connections * FURTHER, " (bound: 40)");
    let in_one = (in_one - before) / connections as f64;
    println!("an idle connection in one channel: {in_one:.0} bytes (bound: 150)");
}

/// Microseconds of the server's processor time for each subscription to a channel that begins so.
fn subscribing(channel: &str, rounds: u64) -> f64 {
    let (server, _folder) = server();
    let (mut socket, id) = open(&server);
    let frames: Vec<[String; 2]> = (0..AT_ONCE)
        .map(|number| {
            let channel = format!("{channel}-{number}");
            let what = Signed::Channel { channel: &channel, channel_data: None };
            let auth = match channel.starts_with("private-") {
                true => what.auth("app-1", &Secret::new(SECRET.as_bytes()), id),
                false => String::new(),
            };
            let data = json!({ "channel": channel, "auth": auth });
            ["pusher:subscribe", "pusher:unsubscribe"]
                .map(|event| json!({ "event": event, "data": data }).to_string())
        })
        .collect();
    let (cpu, began) = (figure(&server, "process_cpu_seconds_total"), Instant::now());
    for _ in 0..rounds {
        frames.iter().for_each(|[subscribe, _]| socket.send(subscribe.clone()));
        frames.iter().for_each(|_| expect_success(&socket.json()));
        frames.iter().for_each(|[_, unsubscribe]| socket.send(unsubscribe.clone()));
    }
    let (seconds, count) = (began.elapsed().as_secs_f64(), (rounds * AT_ONCE) as f64);
    let cpu = figure(&server, "process_cpu_seconds_total") - cpu;
    let each = cpu * 1e6 / count;
    println!("{channel}: {:.0} subscriptions/s, {each:.2} µs of processor each", count / seconds);
    each
}

/// A connection, and what it is called.
fn open(server: &Server) -> (Socket, SocketId) {
    let mut socket = Socket::open(server.listen(), PATH);
    let data: Value = serde_json::from_str(socket.json()["data"].as_str().unwrap()).unwrap();
    let id = SocketId::parse(data["socket_id"].as_str().unwrap()).unwrap().unwrap();
    (socket, id)
}

fn subscribe(socket: &mut Socket, channel: &str) {
    let frame = json!({ "event": "pusher:subscribe", "data": { "channel": channel } });
    socket.send(frame.to_string());
    expect_success(&socket.json());
}

fn expect_success(heard: &Value) {
    assert_eq!(heard["event"], "pusher_internal:subscription_succeeded", "{heard}");
}

/// A figure of the server's, summed over its labels.
fn figure(server: &Server, name: &str) -> f64 {
    let body = server.api.get("/metrics").body;
    let of_name = body.lines().filter_map(|line| {
        let (labelled, value) = line.rsplit_once(' ')?;
        let is_it = labelled == name || labelled.starts_with(&format!("{name}{{"));
        is_it.then(|| value.parse::<f64>().unwrap())
    });
    of_name.sum()
}
