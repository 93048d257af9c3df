//! Updates flat out, each to one of all subscribers: to plain topics, beside the bare loop or
//! another hub, and to patterns.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use load::{Flood, FloodConfig};
use sys::clock;

use crate::child::{self, Role};
use crate::harness;
use crate::hub::{Hub, all_token, subscribe};
use crate::publish::Order;
use crate::reference::Reference;
use crate::table::{Bound, Table};
use crate::wire::{Shape, Wire, publish_all_by};
use crate::{GRACE, Outcome, Plan, START_MAX};

/// Publishers: as many as `--bench peers` has.
const PUBLISHERS: usize = 64;

/// How long updates are sent that nobody measures.
const WARM_UP_SECONDS: f64 = 0.5;

/// How many times the updates of the reference hub are wanted.
const TIMES_MIN: f64 = 15.0;

/// So many subscribers hear updates beside another hub, as with `compat/mercure/load.py`.
const TOPICS: u32 = 400;

/// Of their first updates so many are on their way at one time: they fit the kernel's buffers.
const AT_ONCE: u32 = 50;

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

/// What is published, and where.
struct Updates {
    wire: Wire,
    address: SocketAddr,
    /// Subscribers that hear some, by their numbers from 0 on.
    ids: u32,
    /// What was published for them before.
    before: u64,
}

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("updates");
    if let Some(reference) = &plan.reference {
        return run_beside(plan, reference, table);
    }
    let bare = bare(plan)?;
    bare.tell("the bare loop", table);
    let run = on_hub(plan, Shape::Plain, plan.connections)?;
    run.tell("updates", table);
    table.take(&name_of_rate(plan), run.rate, "", Bound::None);
    table.take("the same of the bare loop", bare.rate, "", Bound::None);
    table.take("ratio to the bare loop", run.rate / bare.rate, "", Bound::None);
    table.take("processor of an update", run.each_us, "µs", Bound::None);
    table.take("the same of the bare loop", bare.each_us, "µs", Bound::None);
    Ok(())
}

fn name_of_rate(plan: &Plan) -> String {
    format!("updates a second, each to one of {}", plan.connections)
}

/// One hub after the other. Ours is the first, since it ends with its turn: the other one has work
/// behind its own, when its subscribers leave.
fn run_beside(plan: &Plan, reference: &Reference, table: &mut Table) -> Outcome<()> {
    let (users, query) = (plan.connections, Shape::Plain.query());
    let ours = {
        let hub = Hub::start(&[]);
        let listeners = hub.subscribe(&query, 0, users)?;
        let updates = first_updates(hub.server.api.address(), all_token(), users)?;
        measure(plan, updates, listeners, || hub.cpu())?
    };
    ours.tell("updates", table);
    let listeners = reference.subscribe(&query, users)?;
    let updates = first_updates(reference.address, &reference.token, users)?;
    let theirs = measure(plan, updates, listeners, || reference.cpu())?;
    theirs.tell("the reference hub", table);
    table.take(&name_of_rate(plan), ours.rate, "", Bound::None);
    table.take("the same of the reference hub", theirs.rate, "", Bound::None);
    let ratio = ours.rate / theirs.rate;
    table.take("ratio to the reference hub", ratio, "", Bound::AtLeast(TIMES_MIN));
    table.take("processor of an update", ours.each_us, "µs", Bound::None);
    if reference.pid.is_some() {
        table.take("the same of the reference hub", theirs.each_us, "µs", Bound::None);
    }
    Ok(())
}

/// Publishes one update to each of the first subscribers of `users`, to be followed by others.
fn first_updates(address: SocketAddr, token: &str, users: u32) -> Outcome<Updates> {
    let ids = users.min(TOPICS);
    let mut wire = harness::Wire::connect(address);
    for first in (0..ids).step_by(AT_ONCE as usize) {
        let numbers = first..ids.min(first + AT_ONCE);
        let update = |number: u32| (Shape::Plain.topic(number.into()), "first".to_owned());
        publish_all_by(token, &mut wire, &numbers.map(update).collect::<Vec<_>>())?;
    }
    Ok(Updates { wire: Wire::FormBy(token.to_owned()), address, ids, before: ids.into() })
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
        let of_match = run.each_us - plain.each_us;
        let rate = format!("updates a second, one match of {of} patterns, {name}");
        table.take(&rate, run.rate, "", Bound::AtLeast(MATCHES_MIN));
        table.take("processor of a match", of_match, "µs", Bound::AtMost(MATCH_MAX));
    }
    Ok(())
}

fn on_hub(plan: &Plan, shape: Shape, users: u32) -> Outcome<Run> {
    let hub = Hub::start(&[]);
    let crowd = hub.subscribe(&shape.query(), 0, users)?;
    let address = hub.server.api.address();
    let updates = Updates { wire: Wire::Form(shape), address, ids: users, before: 0 };
    measure(plan, updates, crowd, || hub.cpu())
}

fn bare(plan: &Plan) -> Outcome<Run> {
    let (threads, streams) = (std::thread::available_parallelism()?.get(), plan.connections);
    let (program, _input) = child::spawn(&Role::Bare { threads, streams })?;
    let port: u16 = program.line_within(START_MAX)?.parse()?;
    let url = format!("http://127.0.0.1:{port}/stream/{{id}}");
    let crowd = subscribe(FloodConfig { url, users: streams, ..FloodConfig::default() })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cpu = || Ok(clock::process_cpu_of(program.pid())?);
    let updates = Updates { wire: Wire::Send, address, ids: streams, before: 0 };
    measure(plan, updates, crowd, cpu)
}

/// Sends flat out, for a crowd, to a server of which `cpu` is known.
fn measure(
    plan: &Plan,
    updates: Updates,
    mut crowd: Flood,
    cpu: impl Fn() -> Outcome<Duration>,
) -> Outcome<Run> {
    let Updates { wire, address, ids, before } = updates;
    let order = |seconds: f64| Order {
        wire: wire.clone(),
        address,
        publishers: PUBLISHERS,
        ids: ids.into(),
        rate: None,
        seconds,
        seed: 1,
    };
    let warm = child::publish(order(WARM_UP_SECONDS), || Ok(()))?;
    let events = before + warm.sent - warm.refused;
    crowd.wait_until(GRACE, |totals| totals.events >= events);
    crowd.snapshot();
    let mut cpu_before = Duration::ZERO;
    let published = child::publish(order(plan.seconds), || {
        cpu_before = cpu()?;
        Ok(())
    })?;
    let events = events + published.sent - published.refused;
    crowd.wait_until(GRACE, |totals| totals.events >= events);
    let each_us = (cpu()? - cpu_before).as_nanos() as f64 / 1e3 / published.sent as f64;
    let p99_ms = crowd.snapshot().latency.p99_ms;
    let totals = crowd.finish()?.totals;
    let lost_or_more = totals.events.abs_diff(events) + totals.missing() + totals.doubled;
    let faults = warm.refused + published.refused + lost_or_more;
    Ok(Run { rate: published.in_time as f64 / plan.seconds, each_us, p99_ms, faults })
}
