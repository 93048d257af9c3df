//! Updates flat out, each to one of all subscribers: to plain topics, beside the bare loop or
//! another hub, and to patterns.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use load::delivery::Delivery;
use load::flood::Totals;
use load::{Flood, FloodConfig};
use sys::clock;

use crate::child::{self, Role};
use crate::hub::{Hub, subscribe};
use crate::publish::Order;
use crate::table::{Bound, Table};
use crate::wire::{Shape, Wire};
use crate::{GRACE, Outcome, Plan, START_MAX, beside};

/// Publishers: as many as `--bench peers` has.
const PUBLISHERS: usize = 64;

/// How long updates are sent that nobody measures.
const WARM_UP_SECONDS: f64 = 0.5;

/// Updates a second, each with one match of 10,000 patterns, at least.
const MATCHES_MIN: f64 = 10_000.0;

/// Microseconds of a match, at most.
const MATCH_MAX: f64 = 2.0;

/// What came of a measurement.
pub(crate) struct Run {
    /// Updates a second that were taken and heard.
    pub(crate) rate: f64,
    /// Microseconds of the server's processor time for each.
    pub(crate) each_us: f64,
    p99_ms: f64,
    /// How many there were.
    heard: u64,
    /// Updates that were refused, or taken and not heard, or heard twice.
    faults: u64,
}

impl Run {
    pub(crate) fn tell(&self, name: &str, table: &mut Table) {
        let Run { rate, each_us, p99_ms, heard, faults } = self;
        println!(
            "  {name}: {rate:.0}/s, {heard} heard, {each_us:.1} µs each, heard p99 {p99_ms:.1} ms"
        );
        if *faults > 0 {
            table.fault(name, format!("{faults} refused, lost or doubled"));
        }
    }
}

/// Publishers before a server, and the subscribers behind it.
pub(crate) struct Stand<'s> {
    wire: Wire,
    address: SocketAddr,
    flood: Flood,
    /// The server's processor time so far.
    cpu: &'s dyn Fn() -> Outcome<Duration>,
    /// Updates that were taken: the subscribers are to hear as many.
    taken: u64,
}

impl<'s> Stand<'s> {
    pub(crate) fn new(
        wire: Wire,
        address: SocketAddr,
        flood: Flood,
        cpu: &'s dyn Fn() -> Outcome<Duration>,
    ) -> Stand<'s> {
        Stand { wire, address, flood, cpu, taken: 0 }
    }

    /// Others have published so many for the subscribers.
    pub(crate) fn were_taken(&mut self, updates: u64) {
        self.taken += updates;
    }

    /// Sends flat out, each update to any of the first `ids` subscribers.
    pub(crate) fn measure(&mut self, ids: u32, seconds: f64) -> Outcome<Run> {
        let before = self.run(ids, false, WARM_UP_SECONDS)?;
        let run = self.run(ids, false, seconds)?;
        Ok(Run { faults: before.faults + run.faults, ..run })
    }

    /// Sends flat out, one update to each of the first `ids` subscribers in random order, for so
    /// long at most.
    pub(crate) fn measure_once(&mut self, ids: u32, seconds: f64) -> Outcome<Run> {
        self.run(ids, true, seconds)
    }

    fn run(&mut self, ids: u32, is_each_once: bool, seconds: f64) -> Outcome<Run> {
        let order = Order {
            wire: self.wire.clone(),
            address: self.address,
            publishers: PUBLISHERS,
            ids: ids.into(),
            is_each_once,
            rate: None,
            seconds,
            seed: 1,
        };
        let before = self.hear_all();
        self.flood.snapshot();
        let mut cpu_before = Duration::ZERO;
        let published = child::publish(order, || {
            cpu_before = (self.cpu)()?;
            Ok(())
        })?;
        self.taken += published.sent - published.refused;
        let now = self.hear_all();
        let cpu = (self.cpu)()? - cpu_before;
        let delivery = Delivery {
            sent: published.sent,
            refused: published.refused,
            in_time: published.in_time,
            heard: now.events - before.events,
            seconds: published.seconds,
        };
        let disorder = wrong(&now).saturating_sub(wrong(&before));
        Ok(Run {
            rate: delivery.rate(),
            each_us: cpu.as_nanos() as f64 / 1e3 / published.sent as f64,
            p99_ms: self.flood.snapshot().latency.p99_ms,
            heard: delivery.heard,
            faults: delivery.faults() + disorder,
        })
    }

    /// Waits until all updates are heard, or no longer.
    fn hear_all(&self) -> Totals {
        self.flood.wait_until(GRACE, |totals| totals.events >= self.taken);
        self.flood.totals()
    }

    /// Says so if the subscribers have not heard each update once.
    pub(crate) fn finish(self, name: &str, table: &mut Table) -> Outcome<()> {
        let totals = self.flood.finish()?.totals;
        let faults = totals.events.abs_diff(self.taken) + wrong(&totals);
        if faults > 0 {
            table.fault(name, format!("{faults} lost or doubled in all"));
        }
        Ok(())
    }
}

fn wrong(totals: &Totals) -> u64 {
    totals.missing() + totals.doubled
}

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("updates");
    if let Some(reference) = &plan.reference {
        return beside::run(plan, reference, table);
    }
    let bare = bare(plan, table)?;
    bare.tell("the bare loop", table);
    let run = on_hub(plan, (Shape::Plain, plan.connections), table)?;
    run.tell("updates", table);
    let name = format!("updates a second, each to one of {}", plan.connections);
    table.take(&name, run.rate, "", Bound::None);
    table.take("the same of the bare loop", bare.rate, "", Bound::None);
    table.take("ratio to the bare loop", run.rate / bare.rate, "", Bound::None);
    table.take("processor of an update", run.each_us, "µs", Bound::None);
    table.take("the same of the bare loop", bare.each_us, "µs", Bound::None);
    Ok(())
}

pub(crate) fn run_patterns(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("patterns");
    let of = plan.patterns;
    let plain = on_hub(plan, (Shape::Plain, of), table)?;
    plain.tell("plain topics", table);
    for (shape, name) in
        [(Shape::Scattered, "each begins differently"), (Shape::Alike, "all begin alike")]
    {
        let run = on_hub(plan, (shape, of), table)?;
        run.tell(name, table);
        let of_match = run.each_us - plain.each_us;
        let rate = format!("updates a second, one match of {of} patterns, {name}");
        table.take(&rate, run.rate, "", Bound::AtLeast(MATCHES_MIN));
        table.take("processor of a match", of_match, "µs", Bound::AtMost(MATCH_MAX));
    }
    Ok(())
}

fn on_hub(plan: &Plan, (shape, users): (Shape, u32), table: &mut Table) -> Outcome<Run> {
    let hub = Hub::start(&[]);
    let flood = hub.subscribe(&shape.query(), 0, users)?;
    let cpu = || hub.cpu();
    let mut stand = Stand::new(Wire::Form(shape), hub.server.api.address(), flood, &cpu);
    let run = stand.measure(users, plan.seconds)?;
    stand.finish("a hub's subscribers", table)?;
    Ok(run)
}

fn bare(plan: &Plan, table: &mut Table) -> Outcome<Run> {
    let (threads, streams) = (std::thread::available_parallelism()?.get(), plan.connections);
    let (program, _input) = child::spawn(&Role::Bare { threads, streams })?;
    let port: u16 = program.line_within(START_MAX)?.parse()?;
    let url = format!("http://127.0.0.1:{port}/stream/{{id}}");
    let flood = subscribe(FloodConfig { url, users: streams, ..FloodConfig::default() })?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let cpu = || Ok(clock::process_cpu_of(program.pid())?);
    let mut stand = Stand::new(Wire::Send, address, flood, &cpu);
    let run = stand.measure(streams, plan.seconds)?;
    stand.finish("the bare loop's subscribers", table)?;
    Ok(run)
}
