//! One event for many: clients of one channel, beside clients of Encke's own protocol, and beside
//! other servers that speak Pusher's.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use sys::{clock, process};

use crate::app::{AppServer, PATH, hello, room_for, trigger};
use crate::clients::mark;
use crate::crowd::{Crowd, Role};
use crate::harness::{Api, Server};
use crate::{Outcome, Plan};

/// The rate to channels beside that of Encke's own WebSockets, at least.
const RATIO_MIN: f64 = 0.9;

/// Bytes of each event, its mark among them.
const EVENT_BYTES: usize = 100;

/// Those who trigger events flat out.
const SENDERS: usize = 16;

/// A server that speaks Pusher's protocol and has the app of this benchmark: `--beside`.
#[derive(Clone, Debug)]
pub(crate) struct Beside {
    pub(crate) listen: SocketAddr,
    pub(crate) api: SocketAddr,
    pub(crate) pid: u32,
}

/// What a server does.
struct Figures {
    bytes: f64,
    triggers: f64,
    deliveries: f64,
}

impl Figures {
    fn is_ahead_of(&self, other: &Figures) -> bool {
        self.bytes < other.bytes
            && self.triggers > other.triggers
            && self.deliveries > other.deliveries
    }
}

/// A rate to so many clients, and what each delivery takes.
struct Rate {
    per_second: f64,
    cpu_us: f64,
}

/// Whether the rate is not much less than that of Encke's own.
pub(crate) fn run(plan: &Plan) -> Outcome<bool> {
    let room = room_for(plan.clients, plan.clients)?;
    let room = room.each_ref().map(|option| &**option);
    let server = Server::start(&room);
    let role = Role { target: "/stream/all".into(), says: None };
    let own = rate(plan, (&server, &role), &|data: &str| _ = server.api.send("all", data))?;
    drop(server);
    let server = AppServer::start(&room);
    let role = Role { target: PATH.into(), says: Some(|_, _| vec![hello("all")]) };
    let channel = rate(plan, (&server.0, &role), &|data: &str| server.trigger("all", data))?;
    for (what, rate) in [("Encke's own", &own), ("a channel", &channel)] {
        let Rate { per_second, cpu_us } = rate;
        println!(
            "{} WebSockets of {what}: {per_second:.0} deliveries/s, {cpu_us:.2} µs each",
            plan.clients
        );
    }
    let ratio = channel.per_second / own.per_second;
    let is_within = ratio >= RATIO_MIN;
    println!("a channel beside Encke's own: {ratio:.2} of the rate (at least {RATIO_MIN})");
    Ok(is_within)
}

/// The median over all rounds, of which each begins when all have heard the one before.
fn rate(plan: &Plan, of: (&Server, &Role), send: &dyn Fn(&str)) -> Outcome<Rate> {
    let (server, role) = of;
    let mut crowd = Crowd::new(server.listen(), role, plan.clients);
    crowd.open(plan.clients, Duration::ZERO)?;
    let cpu = clock::process_cpu_of(server.pid())?;
    let per_second = deliveries(&crowd, plan, send)?;
    let cpu = (clock::process_cpu_of(server.pid())? - cpu).as_secs_f64() * 1e6;
    let cpu_us = cpu / (plan.rounds * plan.clients) as f64;
    Ok(Rate { per_second, cpu_us })
}

fn deliveries(crowd: &Crowd, plan: &Plan, send: &dyn Fn(&str)) -> Outcome<f64> {
    let mut rates = Vec::new();
    for _ in 0..plan.rounds {
        let (began_ns, before) = (clock::monotonic_ns(), crowd.heard());
        send(&format!("{:x<EVENT_BYTES$}", mark(began_ns)));
        let heard_ns = crowd.await_heard(before + plan.clients as u64)?;
        rates.push(plan.clients as f64 * 1e9 / (heard_ns - began_ns) as f64);
    }
    rates.sort_by(f64::total_cmp);
    Ok(rates[rates.len() / 2])
}

/// Encke, and each server beside it: whether Encke is ahead in everything.
pub(crate) fn peers(plan: &Plan) -> Outcome<bool> {
    if plan.beside.is_empty() && plan.others.is_empty() {
        println!("no other server is measured: name one with --soketi, --sockudo or --beside");
        return Ok(true);
    }
    let room = room_for(plan.clients, plan.clients)?;
    let server = AppServer::start(&room.each_ref().map(|option| &**option));
    let (listen, api, pid) = (server.0.listen(), server.0.api.address(), server.0.pid());
    let ours = figures("Encke", &Beside { listen, api, pid }, plan)?;
    drop(server);
    let mut is_ahead = true;
    for other in &plan.others {
        let started = other.start()?;
        is_ahead &= ours.is_ahead_of(&figures(other.name(), &started.beside, plan)?);
    }
    for other in &plan.beside {
        let name = format!("process {}", other.pid);
        is_ahead &= ours.is_ahead_of(&figures(&name, other, plan)?);
    }
    println!("Encke is ahead in everything: {is_ahead}");
    Ok(is_ahead)
}

fn figures(name: &str, of: &Beside, plan: &Plan) -> Outcome<Figures> {
    let role = Role { target: PATH.into(), says: Some(|_, _| vec![hello("all")]) };
    let first = plan.clients / 10;
    let mut crowd = Crowd::new(of.listen, &role, plan.clients);
    crowd.open(first, Duration::ZERO)?;
    let bytes = || -> Outcome<f64> { Ok(process::resident_of(of.pid)?.anonymous as f64) };
    let before = bytes()?;
    crowd.open(plan.clients - first, Duration::ZERO)?;
    let bytes = (bytes()? - before) / (plan.clients - first) as f64;
    let api = Api::new(of.api);
    let deliveries = deliveries(&crowd, plan, &|data: &str| trigger(&api, "all", data))?;
    let triggers = triggers(of.api, plan.seconds);
    println!(
        "{name}: {bytes:.0} bytes a connection, {triggers:.0} triggers/s, {deliveries:.0} \
         deliveries/s to {} clients",
        plan.clients
    );
    Ok(Figures { bytes, triggers, deliveries })
}

/// Events a second to a channel that nobody hears, from some who send as soon as they are answered.
fn triggers(api: SocketAddr, seconds: f64) -> f64 {
    let (sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                let api = Api::new(api);
                while !is_over.load(Ordering::Relaxed) {
                    trigger(&api, "nobody", "x");
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // It may return before its time.
        let (began, time) = (Instant::now(), Duration::from_secs_f64(seconds));
        while began.elapsed() < time {
            thread::park_timeout(time.saturating_sub(began.elapsed()));
        }
        is_over.store(true, Ordering::Relaxed);
        sent.load(Ordering::Relaxed) as f64 / seconds
    })
}
