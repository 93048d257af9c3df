//! `--crowds` opens as many connections as are asked for with an id each, which nobody else has,
//! then with two, and as many under one id. It measures memory, log-ins, one event to all, and the
//! end of all of them. What a second id takes is the difference of the first two. Of the one id it
//! also measures what others hear meanwhile; with `--one-id` it is the only crowd.
//!
//! Those others are 20 more clients, each with an id of its own, who hear 500 events a second. The
//! bare loop knows no ids: its rows differ by nothing but the length of the request, and its 500
//! events a second go to 16 sockets each, of anybody. The crowd reads on the same cores, so what an
//! innocent one hears later than in a quiet time has that in it, in both rows.

use load::{Flood, FloodConfig};
use sys::clock;

use crate::child::Child;
use crate::encke::CELEBRITY;
use crate::rounds::await_events;
use crate::{Outcome, Plan, TIMEOUT};
use crate::{await_online, heading, line, per_second};

/// The clients who are not of the crowd, and what they are sent in a second.
const OTHERS: u32 = 20;
const OTHERS_RATE: u64 = 500;

/// How long they are listened to before the crowd has its event, and from then on.
const SECONDS: u64 = 3;

/// What the second id of a connection is greater by.
const SECOND_ID: &str = "7000000";

/// Under which ids the crowd is logged in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    OwnId,
    TwoIds,
    OneId,
}

/// What one server did.
#[derive(Default)]
struct Figures {
    connects_per_second: f64,
    cpu_us_per_connect: f64,
    idle_bytes: f64,
    deliveries_per_second: f64,
    cpu_us_per_delivery: f64,
    closes_per_second: f64,
    cpu_us_per_close: f64,
    quiet_p99_ms: f64,
    beside_p99_ms: f64,
}

/// All crowds of both servers, and a table of each.
pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let names = ["an id each", "two ids each", "one id of all"];
    let shapes = [Shape::OwnId, Shape::TwoIds, Shape::OneId].into_iter().zip(names);
    for (listeners, name) in shapes.skip(if plan.one_id { 2 } else { 0 }) {
        let [bare, encke] = plan.of_each(|role| measure(role, plan, listeners))?;
        println!("\n{name}");
        heading(plan);
        let both =
            |name: &str, figure: fn(&Figures) -> f64| line(name, figure(&bare), figure(&encke));
        both("connects/s", |f| f.connects_per_second);
        both("µs of processor per connect", |f| f.cpu_us_per_connect);
        both("user bytes per idle connection", |f| f.idle_bytes);
        both("one event to all, deliveries/s", |f| f.deliveries_per_second);
        both("µs of processor per delivery", |f| f.cpu_us_per_delivery);
        both("closes/s", |f| f.closes_per_second);
        both("µs of processor per close", |f| f.cpu_us_per_close);
        if listeners == Shape::OneId {
            both("others, p99 in ms, before", |f| f.quiet_p99_ms);
            both("others, p99 in ms, while all hear one event", |f| f.beside_p99_ms);
        }
    }
    Ok(())
}

fn measure(role: &str, plan: &Plan, kind: Shape) -> Outcome<Figures> {
    let flags: &[&str] = if kind == Shape::OneId { &["--one-id"] } else { &[] };
    let mut child = Child::spawn_from(&std::env::current_exe()?, role, plan, None, flags)?;
    let (n, mut figures) = (u64::from(plan.connections), Figures::default());
    let mut others = start(&child, OTHERS, format!("{}/{{id}}", base(&child)))?;
    await_online(&others, OTHERS.into())?;
    let url = match kind {
        Shape::OwnId => format!("{}/{{id}}", base(&child)),
        Shape::TwoIds => format!("{}/{{id}}?id={SECOND_ID}{{id}}", base(&child)),
        Shape::OneId => format!("{}/{CELEBRITY}", base(&child)),
    };
    let (memory, cpu) = (child.memory_bytes()?, child.cpu_us()?);
    let started = clock::monotonic_ns();
    let mut listeners = start(&child, plan.connections, url)?;
    await_online(&listeners, n)?;
    figures.connects_per_second = per_second(n, started);
    figures.cpu_us_per_connect = (child.cpu_us()? - cpu) / n as f64;
    figures.idle_bytes = (child.memory_bytes()? - memory) / n as f64;

    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    child.tell("broadcast 1")?;
    await_events(&listeners, n)?;
    figures.deliveries_per_second = per_second(n, started);
    figures.cpu_us_per_delivery = (child.cpu_us()? - cpu) / n as f64;

    if kind == Shape::OneId {
        // Whose events have times in them: the bare loop's go to anybody.
        let p99_ms = |others: &mut Flood, listeners: &mut Flood| {
            let latencies = [others.snapshot(), listeners.snapshot()].map(|of| of.latency.p99_ms);
            latencies.into_iter().fold(0.0, f64::max)
        };
        let order = format!("{OTHERS_RATE} {SECONDS} {OTHERS}");
        child.tell(&format!("paced {order}"))?;
        child.done()?;
        figures.quiet_p99_ms = p99_ms(&mut others, &mut listeners);
        let heard = listeners.totals().events;
        child.tell(&format!("beside {order}"))?;
        child.done()?;
        await_events(&listeners, heard + n)?;
        figures.beside_p99_ms = p99_ms(&mut others, &mut listeners);
    }
    others.finish()?;
    child.await_open(n)?;
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    listeners.finish()?;
    child.await_open(0)?;
    figures.closes_per_second = per_second(n, started);
    figures.cpu_us_per_close = (child.cpu_us()? - cpu) / n as f64;
    Ok(figures)
}

fn base(child: &Child) -> String {
    format!("http://127.0.0.1:{}/stream", child.port)
}

fn start(child: &Child, users: u32, url: String) -> Outcome<Flood> {
    debug_assert!(!child.is_tls, "what is compared is the memory of ids");
    Ok(Flood::start(FloodConfig { url, users, open_timeout: TIMEOUT, ..FloodConfig::default() })?)
}
