//! Orders in a row: broadcasts and single deliveries as fast as they go, and memory as a slope.

use load::Flood;
use proto::Transport;
use sys::clock;

use crate::child::Child;
use crate::{Outcome, Plan, TIMEOUT};
use crate::{await_online, heading, line, per_second, start_listeners};

/// What one server did in one run.
#[derive(Clone, Copy, Default)]
struct Figures {
    connects_per_second: f64,
    cpu_us_per_connect: f64,
    broadcast_per_second: f64,
    cpu_us_per_broadcast_delivery: f64,
    unicast_per_second: f64,
    cpu_us_per_unicast: f64,
    flat_out_per_second: f64,
    idle_bytes: f64,
}

/// Runs both servers in turn and prints their medians.
pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let [(first, _), (second, _)] = plan.roles();
    let (mut bare, mut encke) = (Vec::new(), Vec::new());
    for _ in 0..plan.times {
        bare.push(measure(first, plan)?);
        encke.push(measure(second, plan)?);
    }
    report(plan, &bare, &encke);
    Ok(())
}

fn measure(role: &str, plan: &Plan) -> Outcome<Figures> {
    let idle_bytes = idle_bytes_slope(role, plan)?;
    let mut child = Child::spawn(role, plan, None)?;
    let (n, mut figures) = (u64::from(plan.connections), Figures::default());
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    let listeners = bring_online(&mut child, plan, plan.connections, 0)?;
    figures.connects_per_second = per_second(n, started);
    figures.cpu_us_per_connect = (child.cpu_us()? - cpu) / n as f64;
    figures.idle_bytes = idle_bytes;
    if plan.transport == Transport::Poll {
        listeners.finish()?;
        return Ok(figures);
    }

    // One broadcast at a time: each connection is written to once per event, as in the bare loop.
    let mut heard = 0;
    let deliveries = n * u64::from(plan.rounds);
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    for _ in 0..plan.rounds {
        child.tell("broadcast 1")?;
        heard += n;
        await_events(&listeners, heard)?;
    }
    figures.broadcast_per_second = per_second(deliveries, started);
    figures.cpu_us_per_broadcast_delivery = (child.cpu_us()? - cpu) / deliveries as f64;

    // Single deliveries to random connections, as fast as they go.
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    child.tell(&format!("unicast {deliveries}"))?;
    heard += deliveries;
    await_events(&listeners, heard)?;
    figures.unicast_per_second = per_second(deliveries, started);
    figures.cpu_us_per_unicast = (child.cpu_us()? - cpu) / deliveries as f64;

    // Broadcasts without waiting for the last: whoever joins what meets in a socket wins.
    let started = clock::monotonic_ns();
    child.tell(&format!("broadcast {}", plan.rounds))?;
    heard += deliveries;
    await_events(&listeners, heard)?;
    figures.flat_out_per_second = per_second(deliveries, started);
    listeners.finish()?;
    Ok(figures)
}

/// Bytes of user memory that one more idle connection costs: the slope from 1,000 to 15,000, so
/// that what a server needs to stand at all does not count.
fn idle_bytes_slope(role: &str, plan: &Plan) -> Outcome<f64> {
    let mut child = Child::spawn(role, plan, None)?;
    let few = bring_online(&mut child, plan, 1_000, 0)?;
    let first = child.memory_bytes()?;
    let more = bring_online(&mut child, plan, 4_000, 1_000)?;
    let middle = child.memory_bytes()?;
    let most = bring_online(&mut child, plan, 10_000, 5_000)?;
    let last = child.memory_bytes()?;
    println!(
        "  {role}: {:.0} bytes a connection from 1,000 to 5,000, {:.0} from 5,000 to 15,000",
        (middle - first) / 4_000.0,
        (last - middle) / 10_000.0
    );
    if plan.tls.is_some() {
        after_deliveries(role, &mut child, &[&few, &more, &most], first)?;
    }
    for listeners in [few, more, most] {
        listeners.finish()?;
    }
    Ok((last - first) / 14_000.0)
}

/// The same slope after ten deliveries to each connection, and after ten more.
fn after_deliveries(role: &str, child: &mut Child, loads: &[&Flood; 3], first: f64) -> Outcome<()> {
    let mut slopes = [0.0; 2];
    for (times, slope) in (1..).zip(&mut slopes) {
        for round in 1..=10 {
            child.tell("broadcast 1")?;
            for (listeners, users) in loads.iter().zip([1_000, 4_000, 10_000]) {
                await_events(listeners, users * ((times - 1) * 10 + round))?;
            }
        }
        *slope = (child.memory_bytes()? - first) / 14_000.0;
    }
    let [ten, twenty] = slopes;
    println!("  {role}: {ten:.0} after ten deliveries to each, {twenty:.0} after twenty");
    Ok(())
}

pub(crate) fn bring_online(
    child: &mut Child,
    plan: &Plan,
    users: u32,
    first_id: u64,
) -> Outcome<Flood> {
    let listeners = start_listeners(child, plan, users, first_id, 1)?;
    await_online(&listeners, users.into())?;
    if plan.transport == Transport::Poll {
        child.await_polls(first_id + u64::from(users))?;
    }
    Ok(listeners)
}

pub(crate) fn await_events(listeners: &Flood, events: u64) -> Outcome<()> {
    if listeners.wait_until(TIMEOUT, |totals| totals.events >= events) {
        return Ok(());
    }
    Err("events were lost".into())
}

fn report(plan: &Plan, bare: &[Figures], encke: &[Figures]) {
    heading(plan);
    let median = |runs: &[Figures], figure: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(figure).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let medians = |name: &str, figure: fn(&Figures) -> f64| {
        line(name, median(bare, figure), median(encke, figure));
    };
    medians("connects/s", |f| f.connects_per_second);
    medians("µs of processor per connect", |f| f.cpu_us_per_connect);
    medians("user bytes per idle connection (slope)", |f| f.idle_bytes);
    if plan.transport == Transport::Poll {
        return;
    }
    medians("broadcast, deliveries/s", |f| f.broadcast_per_second);
    medians("broadcast, µs of processor per delivery", |f| f.cpu_us_per_broadcast_delivery);
    medians("single events, deliveries/s", |f| f.unicast_per_second);
    medians("single events, µs of processor per delivery", |f| f.cpu_us_per_unicast);
    medians("broadcasts flat out, deliveries/s", |f| f.flat_out_per_second);
}
