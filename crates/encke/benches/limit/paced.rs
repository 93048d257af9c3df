//! A crowd of any size at fixed rates: what a connect, the idle crowd and a delivery cost, and the
//! highest rate that the machine bears, clients included.
//!
//! The events are about random users. Encke looks their followers up in the stored graph and in the
//! directory. The bare loop sends to as many random sockets of random workers.

use std::path::Path;
use std::time::Duration;

use graph::Graph;
use graph::{GraphOptions, LoadOptions};
use load::Flood;
use load::graph_model::BarabasiAlbert;
use sys::clock;

use crate::child::Child;
use crate::{AUDIENCE, Outcome, Plan, TIMEOUT};
use crate::{await_online, heading, line, per_second, start_listeners};

/// Events a second about each user: everybody hears one a minute.
const MINUTE_RATE_PER_USER: f64 = 1.0 / 60.0 / AUDIENCE as f64;

/// Events a second at which the search for the highest rate begins, and what it goes up by.
const LADDER: std::ops::RangeInclusive<u64> = 3_000..=12_000;
const LADDER_STEP: u64 = 500;
const LADDER_SECONDS: u64 = 8;

/// A rate is borne when this share of what was due arrives and the latency stays under the bound.
const BORNE_SHARE: f64 = 0.97;
const BORNE_P99_MS: f64 = 100.0;

/// What one server did.
#[derive(Default)]
struct Figures {
    connects_per_second: f64,
    last_connects_per_second: f64,
    cpu_us_per_connect: f64,
    idle_user_bytes: f64,
    idle_machine_bytes: f64,
    traffic_user_bytes: f64,
    minute: Pace,
    highest: Pace,
}

/// What came of one rate.
#[derive(Clone, Copy, Default)]
struct Pace {
    deliveries_per_second: f64,
    cpu_us_per_delivery: f64,
    listener_us_per_delivery: f64,
    p50_ms: f64,
    p99_ms: f64,
}

/// Runs both servers in turn and prints what they did.
pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let dir = tempfile::tempdir()?;
    make_graph(plan.connections, dir.path())?;
    let [bare, encke] = plan.of_each(|role| measure(role, plan, dir.path()))?;
    heading(plan);
    let both = |name: &str, figure: fn(&Figures) -> f64| line(name, figure(&bare), figure(&encke));
    both("connects/s", |f| f.connects_per_second);
    both("connects/s, the last tenth", |f| f.last_connects_per_second);
    both("µs of processor per connect", |f| f.cpu_us_per_connect);
    both("user bytes per idle connection", |f| f.idle_user_bytes);
    both("whole machine, bytes per connection, both ends", |f| f.idle_machine_bytes);
    both("user bytes per connection after traffic", |f| f.traffic_user_bytes);
    both("an event a minute for all, deliveries/s", |f| f.minute.deliveries_per_second);
    both("  µs of processor per delivery", |f| f.minute.cpu_us_per_delivery);
    both("  µs of the crowd's per delivery", |f| f.minute.listener_us_per_delivery);
    both("  p50, ms", |f| f.minute.p50_ms);
    both("  p99, ms", |f| f.minute.p99_ms);
    both("highest rate borne, deliveries/s", |f| f.highest.deliveries_per_second);
    both("  µs of processor per delivery", |f| f.highest.cpu_us_per_delivery);
    both("  µs of the crowd's per delivery", |f| f.highest.listener_us_per_delivery);
    both("  p50, ms", |f| f.highest.p50_ms);
    both("  p99, ms", |f| f.highest.p99_ms);
    Ok(())
}

/// A Barabási–Albert graph loaded one way: nearly everybody has 15 followers.
fn make_graph(users: u32, dir: &Path) -> Outcome<()> {
    let model = BarabasiAlbert { users, edges_per_user: AUDIENCE as u32 - 1, seed: 1 };
    let mut file = Vec::new();
    model.generate(&mut file, &mut |_, _| {})?;
    let graph = Graph::open(dir, &GraphOptions::default())?;
    let (options, bytes) = (LoadOptions::default(), file.len() as u64);
    graph.load("the graph", &mut file.as_slice(), bytes, options, &mut |_| {})?;
    Ok(())
}

fn measure(role: &str, plan: &Plan, graph: &Path) -> Outcome<Figures> {
    let mut child = Child::spawn(role, plan, Some(graph))?;
    let (users, mut figures) = (u64::from(plan.connections), Figures::default());
    let (available, memory) = (available_bytes()?, child.memory_bytes()?);
    let own = sys::process::resident()?.anonymous as f64;
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    let listeners = start_listeners(&child, plan, plan.connections, 0, 0)?;
    let last_tenth = users / 10;
    await_online(&listeners, users - last_tenth)?;
    let middle = clock::monotonic_ns();
    await_online(&listeners, users)?;
    figures.last_connects_per_second = per_second(last_tenth, middle);
    figures.connects_per_second = per_second(users, started);
    figures.cpu_us_per_connect = (child.cpu_us()? - cpu) / users as f64;
    figures.idle_user_bytes = (child.memory_bytes()? - memory) / users as f64;
    // The crowd's own records are an instrument's, not the machine's.
    let listener_bytes = sys::process::resident()?.anonymous as f64 - own;
    figures.idle_machine_bytes = (available - available_bytes()? - listener_bytes) / users as f64;
    println!("  {role}: online, heap and stacks {:.1} MB", child.memory_bytes()? / 1e6);

    let mut run = Run { child, listeners, users };
    let rate = (users as f64 * MINUTE_RATE_PER_USER).round().max(1.0) as u64;
    figures.minute = run.pace(role, rate, plan.minute)?.1;
    for rate in LADDER.step_by(LADDER_STEP as usize) {
        let (borne, pace) = run.pace(role, rate, LADDER_SECONDS)?;
        if !borne {
            break;
        }
        figures.highest = pace;
    }
    figures.traffic_user_bytes = (run.child.memory_bytes()? - memory) / users as f64;
    println!("  {role}: after traffic, heap and stacks {:.1} MB", run.child.memory_bytes()? / 1e6);
    run.listeners.finish()?;
    Ok(figures)
}

/// A server with its crowd.
struct Run {
    child: Child,
    listeners: Flood,
    users: u64,
}

impl Run {
    /// Holds a rate, waits until all has arrived, and tells whether it was borne.
    fn pace(&mut self, role: &str, rate: u64, seconds: u64) -> Outcome<(bool, Pace)> {
        let before = self.listeners.snapshot().totals.events;
        let (cpu, listener_cpu) = (self.child.cpu_us()?, clock::process_cpu());
        let started_ns = clock::monotonic_ns();
        self.child.tell(&format!("paced {rate} {seconds} {}", self.users))?;
        self.child.done()?;
        let due = rate * seconds * AUDIENCE;
        let deadline_ns = started_ns + (seconds + 1) * 1_000_000_000;
        // The first users of the graph have fewer followers, so what is due is not quite exact.
        let all = before + due - due / 1_000;
        let left_ns = deadline_ns.saturating_sub(clock::monotonic_ns());
        self.listeners.wait_until(Duration::from_nanos(left_ns), |totals| totals.events >= all);
        let took = (clock::monotonic_ns() - started_ns) as f64 / 1e9;
        let in_time = self.listeners.snapshot();
        let events = (in_time.totals.events - before) as f64;
        let pace = Pace {
            deliveries_per_second: events / took.max(seconds as f64),
            cpu_us_per_delivery: (self.child.cpu_us()? - cpu) / events,
            listener_us_per_delivery: (clock::process_cpu() - listener_cpu).as_micros() as f64
                / events,
            p50_ms: in_time.latency.p50_ms,
            p99_ms: in_time.latency.p99_ms,
        };
        let share = events / due as f64;
        println!(
            "  {role}: {rate} events/s: {:.0} deliveries/s ({:.1} %), p50 {:.2} ms, p99 {:.2} ms, \
             {:.1} µs a delivery, the crowd {:.1} µs",
            pace.deliveries_per_second,
            share * 100.0,
            pace.p50_ms,
            pace.p99_ms,
            pace.cpu_us_per_delivery,
            pace.listener_us_per_delivery,
        );
        // What comes after its time must not count for the next rate.
        self.listeners.wait_until(TIMEOUT, |totals| totals.events >= all);
        Ok((share >= BORNE_SHARE && pace.p99_ms < BORNE_P99_MS, pace))
    }
}

/// Memory that the kernel could still give.
fn available_bytes() -> Outcome<f64> {
    Ok(tune::machine_memory().ok_or("no figure of the machine's memory")?.free as f64)
}
