//! `cargo bench --bench pusher`: what clients of Pusher Channels cost a server, which is the
//! `encke` of the same profile.
//!
//! - bytes of an idle connection, in no channel, in one, and for each of four further channels:
//!   the server's memory (`RssAnon`), between crowds of connections;
//! - processor time of a subscription, with a signature and without: one connection subscribes and
//!   leaves, flat out, and the difference is what a signature takes.
//!
//! A figure that is past its bound makes the exit code 1.
//!
//! Options, after `--`: `--connections N` (default 20,000), `--subscriptions N` (default 200,000).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a run that cannot go on should panic")]

#[expect(dead_code, unused_imports, reason = "a part of what the tests stand on")]
#[path = "../../tests/it/harness/mod.rs"]
mod harness;

use std::process::ExitCode;
use std::time::Instant;

use harness::{Server, Socket};
use pusher::{Secret, Signed, SocketId};
use serde_json::{Value, json};
use sys::process;

const SECRET: &str = "a-secret-of-some-length";
const PATH: &str = "/app/app-1?protocol=7&client=js&version=8.6.0";

/// Channels that each connection subscribes to beside the first one.
const FURTHER: u64 = 4;

/// Subscriptions that are on their way at one time: their frames fit the kernel's buffers.
const AT_ONCE: u64 = 100;

/// Bytes of an idle connection in one channel, at most.
const IN_ONE_MAX: f64 = 150.0;

/// Bytes of each further channel, at most.
const FURTHER_MAX: f64 = 40.0;

/// Microseconds that a signature takes, at most.
const SIGNATURE_MAX: f64 = 5.0;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<ExitCode> {
    sys::limits::raise_descriptors()?;
    let (connections, subscriptions) = plan()?;
    let mut is_within = idle(connections)?;
    let rounds = subscriptions / AT_ONCE;
    let plain = subscribing("news", rounds);
    let signed = subscribing("private-news", rounds);
    is_within &= bounded("a signature more", signed - plain, "µs", SIGNATURE_MAX);
    Ok(if is_within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// How many connections and subscriptions.
fn plan() -> Outcome<(u64, u64)> {
    let (mut connections, mut subscriptions) = (20_000, 200_000);
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{option} takes a value"));
        match option.as_str() {
            "--connections" => connections = value?.parse()?,
            "--subscriptions" => subscriptions = value?.parse()?,
            _ => return Err(format!("there is no option {option}").into()),
        }
    }
    if connections == 0 || subscriptions < AT_ONCE {
        return Err(format!("at least 1 connection and {AT_ONCE} subscriptions").into());
    }
    Ok((connections, subscriptions))
}

/// Prints a figure, and says whether it is within its bound.
fn bounded(name: &str, figure: f64, unit: &str, bound: f64) -> bool {
    let is_within = figure <= bound;
    let past = if is_within { "" } else { ", which it is past" };
    println!("{name}: {figure:.1} {unit} (bound: {bound}{past})");
    is_within
}

/// A server with an app, and the folder of its file.
fn server() -> (Server, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("apps.json");
    let apps = json!([{ "id": "1", "key": "app-1", "secret": SECRET }]);
    std::fs::write(&path, apps.to_string()).unwrap();
    (Server::start(&[&format!("--pusher-apps={}", path.display())]), folder)
}

/// Bytes of connections that say nothing; whether they are within their bounds.
fn idle(connections: u64) -> Outcome<bool> {
    let (server, _folder) = server();
    // What the first of them make the server reserve is no connection's.
    let mut warm: Vec<Socket> = (0..1_000).map(|_| open(&server).0).collect();
    warm.iter_mut().for_each(|socket| subscribe(socket, "c-0"));
    let bytes = || -> Outcome<f64> { Ok(process::resident_of(server.pid())?.anonymous as f64) };
    let before = bytes()?;
    let mut crowd: Vec<Socket> = (0..connections).map(|_| open(&server).0).collect();
    let in_none = bytes()?;
    println!(
        "an idle connection in no channel: {:.1} bytes",
        (in_none - before) / connections as f64
    );
    crowd.iter_mut().for_each(|socket| subscribe(socket, "c-0"));
    let in_one = bytes()?;
    for channel in 1..=FURTHER {
        crowd.iter_mut().for_each(|socket| subscribe(socket, &format!("c-{channel}")));
    }
    let further = (bytes()? - in_one) / (connections * FURTHER) as f64;
    let in_one = (in_one - before) / connections as f64;
    let is_within = bounded("an idle connection in one channel", in_one, "bytes", IN_ONE_MAX);
    Ok(bounded("each further channel", further, "bytes", FURTHER_MAX) && is_within)
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
