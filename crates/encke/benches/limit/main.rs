//! `cargo bench --bench limit`: Encke's data plane beside a bare loop, in one run.
//!
//! The bare loop is the least code that could do the same on this kernel: accept, answer, and
//! `send` the same bytes to the same sockets. Both run as child processes of their own, so that
//! their memory and processor time can be told apart from the crowd's, with the same number of
//! workers, under the same crowd on the same cores. What is printed are figures of this machine at
//! this hour, and their ratio, which is what to compare.
//!
//! Options, after `--`: `--connections N` (default 10,000), `--rounds N` (default 20),
//! `--workers N` (default: as many as cores), `--times N` (default 3: the median of each counts).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

mod bare;
mod child;
mod encke;

use std::time::Duration;

use child::Child;
use load::{Flood, FloodConfig};
use sys::clock;

/// Payload of each event, as JSON: 100 bytes, the size that others publish.
const DATA: &str = concat!(
    "\"0123456789012345678901234567890123456789012345678",
    "9012345678901234567890123456789012345678901234567\""
);

/// How long any one step may take.
const PATIENCE: Duration = Duration::from_secs(120);

struct Plan {
    connections: u32,
    rounds: u32,
    workers: usize,
    times: usize,
}

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

fn main() -> Result<(), Box<dyn std::error::Error>> {
    sys::limits::raise_descriptors()?;
    let arguments: Vec<String> = std::env::args().collect();
    let value = |name: &str, default: u32| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1)).map_or(Ok(default), |text| text.parse())
    };
    let cores = std::thread::available_parallelism()?.get();
    let plan = Plan {
        connections: value("--connections", 10_000)?,
        rounds: value("--rounds", 20)?,
        workers: value("--workers", cores as u32)? as usize,
        times: value("--times", 3)? as usize,
    };
    match arguments.get(1).map(String::as_str) {
        Some("child-bare") => return child::serve(bare::Bare::start(plan.workers)?),
        Some("child-encke") => return child::serve(encke::Encke::start(plan.workers)?),
        _ => {}
    }
    println!(
        "{} connections, {} workers, {cores} cores, events of {} bytes, median of {} runs",
        plan.connections,
        plan.workers,
        DATA.len(),
        plan.times
    );
    let (mut bare, mut encke) = (Vec::new(), Vec::new());
    for _ in 0..plan.times {
        bare.push(measure("child-bare", &plan)?);
        encke.push(measure("child-encke", &plan)?);
    }
    report(&bare, &encke);
    Ok(())
}

fn measure(role: &str, plan: &Plan) -> Result<Figures, Box<dyn std::error::Error>> {
    let idle_bytes = idle_bytes_slope(role, plan)?;
    let mut child = Child::spawn(role, plan.workers)?;
    let (n, mut figures) = (u64::from(plan.connections), Figures::default());
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    let crowd = bring_online(&child, plan.connections, 0)?;
    figures.connects_per_second = per_second(n, started);
    figures.cpu_us_per_connect = (child.cpu_us()? - cpu) / n as f64;

    // One broadcast at a time: each connection is written to once per event, as in the bare loop.
    let mut heard = 0;
    let deliveries = n * u64::from(plan.rounds);
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    for _ in 0..plan.rounds {
        child.tell("broadcast 1")?;
        heard += n;
        await_events(&crowd, heard)?;
    }
    figures.broadcast_per_second = per_second(deliveries, started);
    figures.cpu_us_per_broadcast_delivery = (child.cpu_us()? - cpu) / deliveries as f64;

    // Single deliveries to random connections, as fast as they go.
    let (cpu, started) = (child.cpu_us()?, clock::monotonic_ns());
    child.tell(&format!("unicast {deliveries}"))?;
    heard += deliveries;
    await_events(&crowd, heard)?;
    figures.unicast_per_second = per_second(deliveries, started);
    figures.cpu_us_per_unicast = (child.cpu_us()? - cpu) / deliveries as f64;

    // Broadcasts without waiting for the last: whoever joins what meets in a socket wins.
    let started = clock::monotonic_ns();
    child.tell(&format!("broadcast {}", plan.rounds))?;
    heard += deliveries;
    await_events(&crowd, heard)?;
    figures.flat_out_per_second = per_second(deliveries, started);
    crowd.finish()?;
    figures.idle_bytes = idle_bytes;
    Ok(figures)
}

/// Bytes of user memory that one more idle connection costs: the slope from 1,000 to 15,000, so
/// that what a server needs to stand at all does not count.
fn idle_bytes_slope(role: &str, plan: &Plan) -> Result<f64, Box<dyn std::error::Error>> {
    let mut child = Child::spawn(role, plan.workers)?;
    let few = bring_online(&child, 1_000, 0)?;
    let first = child.memory_bytes()?;
    let more = bring_online(&child, 4_000, 1_000)?;
    let middle = child.memory_bytes()?;
    let most = bring_online(&child, 10_000, 5_000)?;
    let last = child.memory_bytes()?;
    println!(
        "  {role}: {:.0} bytes a connection from 1,000 to 5,000, {:.0} from 5,000 to 15,000",
        (middle - first) / 4_000.0,
        (last - middle) / 10_000.0
    );
    for crowd in [few, more, most] {
        crowd.finish()?;
    }
    Ok((last - first) / 14_000.0)
}

fn bring_online(
    child: &Child,
    users: u32,
    first_id: u64,
) -> Result<Flood, Box<dyn std::error::Error>> {
    let url = format!("http://127.0.0.1:{}/stream/{{id}}", child.port);
    let crowd =
        Flood::start(FloodConfig { url, users, first_id, threads: 1, ..FloodConfig::default() })?;
    if !crowd.wait_until(PATIENCE, |totals| totals.open() == u64::from(users)) {
        return Err("the crowd did not get online".into());
    }
    Ok(crowd)
}

fn await_events(crowd: &Flood, events: u64) -> Result<(), Box<dyn std::error::Error>> {
    if crowd.wait_until(PATIENCE, |totals| totals.events >= events) {
        return Ok(());
    }
    Err("events were lost".into())
}

fn per_second(count: u64, started_ns: u64) -> f64 {
    count as f64 * 1e9 / (clock::monotonic_ns() - started_ns) as f64
}

fn report(bare: &[Figures], encke: &[Figures]) {
    println!("\n{:<44} {:>12} {:>12} {:>8}", "", "bare loop", "encke", "ratio");
    let line = |name: &str, figure: fn(&Figures) -> f64| {
        let median = |runs: &[Figures]| {
            let mut values: Vec<f64> = runs.iter().map(figure).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (bare, encke) = (median(bare), median(encke));
        println!("{name:<44} {bare:>12.1} {encke:>12.1} {:>8.2}", encke / bare);
    };
    line("connects/s", |f| f.connects_per_second);
    line("µs of processor per connect", |f| f.cpu_us_per_connect);
    line("broadcast, deliveries/s", |f| f.broadcast_per_second);
    line("broadcast, µs of processor per delivery", |f| f.cpu_us_per_broadcast_delivery);
    line("single events, deliveries/s", |f| f.unicast_per_second);
    line("single events, µs of processor per delivery", |f| f.cpu_us_per_unicast);
    line("broadcasts flat out, deliveries/s", |f| f.flat_out_per_second);
    line("user bytes per idle connection (slope)", |f| f.idle_bytes);
}
