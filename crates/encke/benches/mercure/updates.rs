//! Updates flat out, each to one of all subscribers: to plain topics, beside the bare loop, and to
//! patterns.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use load::{Flood, FloodConfig};
use sys::clock;

use crate::child::{self, Role};
use crate::hub::{Hub, subscribe};
use crate::publish::Order;
use crate::table::{Bound, Table};
use crate::wire::{Shape, Wire};
use crate::{GRACE, Outcome, Plan, START_MAX};

/// Publishers: as many as `--bench peers` has.
const PUBLISHERS: usize = 64;

/// How long updates are sent that nobody measures.
const WARM_UP_SECONDS: f64 = 0.5;

/// Updates a second of the reference hub to one of 15,000, on two cores (Mercure 0.24.2).
const REFERENCE: f64 = 1_558.0;

/// How many times that is wanted.
const TIMES_MIN: f64 = 15.0;

/// Updates a second, each with one match of 10,000 patterns, at least.
const MATCHES_MIN: f64 = 10_000.0;

/// Microseconds of a match, at most.
const MATCH_MAX: f64 = 2.0;

/// What came of a measurement.
struct Run {
    /// Updates a second.
    rate: f64,
    /// Microseconds of the server's processor time for each.
    each_us: f64,
    p99_ms: f64,
    /// Updates that were refused, or sent and not heard, or heard twice.
    faults: u64,
}

impl Run {
    fn tell(&self, name: &str, table: &mut Table) {
        let Run { rate, each_us, p99_ms, faults } = self;
        println!("  {name}: {rate:.0}/s, {each_us:.1} µs each, heard p99 {p99_ms:.1} ms");
        if *faults > 0 {
            table.fault(name, format!("{faults} refused, lost or doubled"));
        }
    }
}

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("updates");
    let bare = bare(plan)?;
    bare.tell("the bare loop", table);
    let run = on_hub(plan, Shape::Plain, plan.connections)?;
    run.tell("updates", table);
    let of = plan.connections;
    let name = format!("updates a second, each to one of {of}");
    table.take(&name, run.rate, "", Bound::AtLeast(TIMES_MIN * REFERENCE));
    table.take("the same of the bare loop", bare.rate, "", Bound::None);
    table.take("ratio to the bare loop", run.rate / bare.rate, "", Bound::None);
    table.take("processor of an update", run.each_us, "µs", Bound::None);
    table.take("the same of the bare loop", bare.each_us, "µs", Bound::None);
    Ok(())
}

pub(crate) fn run_patterns(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("patterns");
    let of = plan.patterns;
    let plain = on_hub(plan, Shape::Plain, of)?;
    plain.tell("plain topics", table);
    for (shape, name) in
        [(Shape::Scattered, "each begins differently"), (Shape::Alike, "all begin alike")]
    {
        let run = on_hub(plan, shape, of)?;
        run.tell(name, table);
        let bound = |bound: Bound| if shape == Shape::Scattered { bound } else { Bound::None };
        let of_match = run.each_us - plain.each_us;
        let rate = format!("updates a second, one match of {of} patterns, {name}");
        table.take(&rate, run.rate, "", bound(Bound::AtLeast(MATCHES_MIN)));
        table.take("processor of a match", of_match, "µs", bound(Bound::AtMost(MATCH_MAX)));
    }
    Ok(())
}

fn on_hub(plan: &Plan, shape: Shape, users: u32) -> Outcome<Run> {
    let hub = Hub::start(&[]);
    let crowd = hub.subscribe(&shape.query(), 0, users)?;
    measure(plan, Wire::Form(shape), hub.server.api.address(), (crowd, users), || hub.cpu())
}

fn bare(plan: &Plan) -> Outcome<Run> {
    let (threads, streams) = (std::thread::available_parallelism()?.get(), plan.connections);
    let (program, _input) = child::spawn(&Role::Bare { threads, streams })?;
    let port: u16 = program.line_within(START_MAX)?.parse()?;
    let url = format!("http://127.0.0.1:{port}/stream/{{id}}");
    let crowd = subscribe(FloodConfig { url, users: streams, ..FloodConfig::default() })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cpu = || Ok(clock::process_cpu_of(program.pid())?);
    measure(plan, Wire::Send, address, (crowd, streams), cpu)
}

/// Sends flat out, to a crowd of so many, to a server of which `cpu` is known.
fn measure(
    plan: &Plan,
    wire: Wire,
    address: SocketAddr,
    (mut crowd, users): (Flood, u32),
    cpu: impl Fn() -> Outcome<Duration>,
) -> Outcome<Run> {
    let order = |seconds: f64| Order {
        wire,
        address,
        publishers: PUBLISHERS,
        ids: users.into(),
        rate: None,
        seconds,
        seed: 1,
    };
    let warm = child::publish(order(WARM_UP_SECONDS), || Ok(()))?;
    let events = warm.sent - warm.refused;
    crowd.wait_until(GRACE, |totals| totals.events >= events);
    crowd.snapshot();
    let mut before = Duration::ZERO;
    let published = child::publish(order(plan.seconds), || {
        before = cpu()?;
        Ok(())
    })?;
    let events = events + published.sent - published.refused;
    crowd.wait_until(GRACE, |totals| totals.events >= events);
    let each_us = (cpu()? - before).as_nanos() as f64 / 1e3 / published.sent as f64;
    let p99_ms = crowd.snapshot().latency.p99_ms;
    let totals = crowd.finish()?.totals;
    let lost_or_more = totals.events.abs_diff(events) + totals.missing() + totals.doubled;
    let faults = warm.refused + published.refused + lost_or_more;
    Ok(Run { rate: published.in_time as f64 / plan.seconds, each_us, p99_ms, faults })
}
