//! Processor time of a subscription, with a signature and without; and what a neighbour hears while
//! others subscribe with signatures.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;
use pusher::{Secret, Signed, SocketId};
use serde_json::json;
use sys::clock;

use crate::app::{AppServer, KEY, PATH, SECRET, expect_success, hello, open};
use crate::clients::mark;
use crate::crowd::{Crowd, Role};
use crate::frames::{TEXT, message};
use crate::harness::{Socket, Wire, frame};
use crate::{Outcome, Plan, bounded};

/// Subscriptions that are on their way at one time: their frames fit the kernel's buffers.
const AT_ONCE: u64 = 100;

/// Microseconds that a signature takes, at most.
const SIGNATURE_MAX: f64 = 5.0;

/// Subscriptions a second beside a neighbour, and the connections that make them.
const BESIDE_PER_SECOND: u64 = 10_000;
const BESIDE: usize = 20;

/// How much later a neighbour hears then, at the 99th percentile, at most.
const NEIGHBOUR_MS_MAX: f64 = 5.0;

/// Clients of the neighbour's channel, and events a second there.
const NEIGHBOURS: usize = 100;
const EVENTS_PER_SECOND: u64 = 200;

/// Whether a signature is within its bound.
pub(crate) fn run(plan: &Plan) -> Outcome<bool> {
    let rounds = plan.subscriptions.div_ceil(AT_ONCE);
    let plain = subscribing("news", rounds);
    let signed = subscribing("private-news", rounds);
    Ok(bounded("a signature more", signed - plain, "µs", SIGNATURE_MAX))
}

/// Microseconds of the server's processor time for each subscription to a channel that begins so.
fn subscribing(channel: &str, rounds: u64) -> f64 {
    let server = AppServer::start(&[]);
    let (mut socket, id) = open(&server);
    let frames: Vec<[String; 2]> = (0..AT_ONCE)
        .map(|number| {
            let channel = format!("{channel}-{number}");
            let what = Signed::Channel { channel: &channel, channel_data: None };
            let auth = match channel.starts_with("private-") {
                true => what.auth(KEY, &Secret::new(SECRET.as_bytes()), id),
                false => String::new(),
            };
            let data = json!({ "channel": channel, "auth": auth });
            ["pusher:subscribe", "pusher:unsubscribe"]
                .map(|event| json!({ "event": event, "data": data }).to_string())
        })
        .collect();
    let (cpu, began) = (server.figure("process_cpu_seconds_total"), Instant::now());
    for _ in 0..rounds {
        frames.iter().for_each(|[subscribe, _]| socket.send(subscribe.clone()));
        frames.iter().for_each(|_| expect_success(&mut socket));
        frames.iter().for_each(|[_, unsubscribe]| socket.send(unsubscribe.clone()));
    }
    let (seconds, count) = (began.elapsed().as_secs_f64(), (rounds * AT_ONCE) as f64);
    let cpu = server.figure("process_cpu_seconds_total") - cpu;
    let each = cpu * 1e6 / count;
    println!("{channel}: {:.0} subscriptions/s, {each:.2} µs of processor each", count / seconds);
    each
}

/// What clients of one channel hear, with nothing beside and with subscriptions that have
/// signatures; whether it is not much later.
pub(crate) fn beside(plan: &Plan) -> Outcome<bool> {
    let server = AppServer::start(&[]);
    let role = Role { target: PATH.into(), says: Some(|_, _| vec![hello("news")]) };
    let mut neighbours = Crowd::new(server.0.listen(), &role, NEIGHBOURS);
    neighbours.open(NEIGHBOURS, Duration::ZERO)?;
    let seconds = plan.seconds;
    let quiet = hears(&server, &neighbours, seconds)?;
    let mut clients: Vec<Subscriber> = (0..BESIDE).map(|_| Subscriber::open(&server)).collect();
    let (subscribed, is_over) = (AtomicU64::new(0), AtomicU64::new(0));
    let beside = thread::scope(|scope| {
        for client in &clients {
            let (mut socket, subscribed) = (client.wire.socket(), &subscribed);
            scope.spawn(move || count_successes(&mut socket, subscribed));
        }
        let paced = scope.spawn(|| pace(&clients, &is_over));
        let (began, before) = (Instant::now(), subscribed.load(Ordering::Relaxed));
        let beside = hears(&server, &neighbours, seconds);
        let rate = (subscribed.load(Ordering::Relaxed) - before) as f64;
        println!("{:.0} subscriptions/s with a signature", rate / began.elapsed().as_secs_f64());
        is_over.store(1, Ordering::Relaxed);
        let _ = paced.join();
        for client in &clients {
            let _ = client.wire.socket().shutdown(Shutdown::Both);
        }
        beside
    })?;
    clients.clear();
    println!("a neighbour hears at p99: {quiet:.2} ms, and {beside:.2} ms beside them");
    Ok(bounded("a neighbour hears later at p99", beside - quiet, "ms", NEIGHBOUR_MS_MAX))
}

/// The 99th percentile, in milliseconds, of what the crowd hears from when it was due.
fn hears(server: &AppServer, crowd: &Crowd, seconds: f64) -> Outcome<f64> {
    let (began_ns, before) = (clock::monotonic_ns(), crowd.heard());
    let events = (EVENTS_PER_SECOND as f64 * seconds) as u64;
    crowd.latency();
    for event in 0..events {
        let due_ns = began_ns + event * 1_000_000_000 / EVENTS_PER_SECOND;
        let now_ns = clock::monotonic_ns();
        thread::park_timeout(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
        server.trigger("news", &mark(due_ns));
    }
    crowd.await_heard(before + events * NEIGHBOURS as u64)?;
    Ok(crowd.latency().p99_ms)
}

/// A connection that subscribes to a channel and leaves it again, by these frames.
struct Subscriber {
    wire: Wire,
    frames: Vec<u8>,
}

impl Subscriber {
    fn open(server: &AppServer) -> Subscriber {
        let mut wire = Socket::raw(server.0.listen(), PATH);
        let head = wire.take(2).expect("it is told what it is called");
        let len = match head[1] {
            126 => {
                let len = wire.take(2).expect("a frame has a length");
                usize::from(u16::from_be_bytes([len[0], len[1]]))
            }
            len => usize::from(len),
        };
        let first = wire.take(len).expect("a frame is whole");
        let id = crate::app::id_of(&first);
        let frames = ["pusher:subscribe", "pusher:unsubscribe"].map(|event| {
            let data = json!({ "channel": "private-news", "auth": auth("private-news", id) });
            frame(TEXT, json!({ "event": event, "data": data }).to_string().as_bytes())
        });
        Subscriber { wire, frames: frames.concat() }
    }
}

fn auth(channel: &str, id: SocketId) -> String {
    let what = Signed::Channel { channel, channel_data: None };
    what.auth(KEY, &Secret::new(SECRET.as_bytes()), id)
}

/// Has the clients subscribe in turn, at even intervals.
fn pace(clients: &[Subscriber], is_over: &AtomicU64) {
    let (began_ns, mut said) = (clock::monotonic_ns(), 0);
    while is_over.load(Ordering::Relaxed) == 0 {
        let elapsed_ns = clock::monotonic_ns() - began_ns;
        let due = (u128::from(elapsed_ns) * u128::from(BESIDE_PER_SECOND) / 1_000_000_000) as u64;
        for number in said..due {
            let Subscriber { wire, frames } = &clients[number as usize % clients.len()];
            if wire.socket().write_all(frames).is_err() {
                return;
            }
        }
        said = said.max(due);
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Counts successes until the connection is over.
fn count_successes(socket: &mut &TcpStream, subscribed: &AtomicU64) {
    let (mut buffer, mut partial) = (vec![0; 64 * 1024], Vec::new());
    while let Ok(len @ 1..) = socket.read(&mut buffer) {
        partial.extend_from_slice(&buffer[..len]);
        let mut rest = &partial[..];
        while let Some((text, behind)) = message(rest) {
            rest = behind;
            let is_one = |text: &[u8]| memmem::find(text, b"subscription_succeeded").is_some();
            subscribed.fetch_add(u64::from(text.is_some_and(is_one)), Ordering::Relaxed);
        }
        let left = rest.len();
        partial.drain(..partial.len() - left);
    }
}
