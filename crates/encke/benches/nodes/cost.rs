//! What a stream costs a node of a cluster, beside a server that is alone, in turn on one machine.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::Options;
use crate::harness::Server;
use crate::programs::{Flood, wait_open};
use crate::table::Table;
use crate::world::{World, cpu_seconds};

/// Streams before memory is looked at, so that what is made with the first ones does not count, and
/// those behind them.
const FIRST: u64 = 5_000;
const MORE: u64 = 10_000;

/// How often each is measured: the median counts.
const ROUNDS: usize = 3;

struct Cost {
    bytes_per_stream: f64,
    connect_us: f64,
    idle_percent: f64,
}

/// A log-in and an idle stream: memory and processor.
pub(crate) fn cost(options: &Options, table: &mut Table) {
    let idle = Duration::from_secs(options.seconds);
    let (mut alone, mut member) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let options = ["--keepalive=0"];
        let server = Server::start(&options);
        alone.push(measure(&server, idle));
        drop(server);
        let world = World::new();
        let node = world.start_node("a", &options);
        member.push(measure(&node, idle));
    }
    let line = |table: &mut Table, what: &str, of: fn(&Cost) -> f64, unit: &str| {
        let [alone, member] = [&alone, &member].map(|costs| median(costs, of));
        let values = format!("{alone:.1}, {member:.1} {unit}; ratio {:.2}", member / alone);
        table.shown(what, values);
        (alone, member)
    };
    let memory = line(table, "memory of a stream: alone, member", |c| c.bytes_per_stream, "bytes");
    let connect = line(table, "processor of a log-in: alone, member", |c| c.connect_us, "µs");
    let idle = |cost: &Cost| cost.idle_percent;
    let idle = line(table, "15,000 idle streams: alone, member", idle, "% of a core");
    table.most("memory, ratio", memory.1 / memory.0, 1.1, "");
    table.most("log-in, ratio", connect.1 / connect.0, 1.1, "");
    // A member beats four times a second and hears the others do so, whoever is online.
    table.shown("a member's beats and counting", format!("{:.2} % of a core", idle.1 - idle.0));
}

fn measure(server: &Server, idle: Duration) -> Cost {
    let first = Flood::start(server, 0, FIRST, &[]);
    wait_open(server, FIRST);
    sleep(Duration::from_secs(1));
    let (memory, cpu) = (server.anonymous_bytes(), cpu_seconds(server.pid()));
    let more = Flood::start(server, FIRST, MORE, &[]);
    wait_open(server, FIRST + MORE);
    let connect_us = (cpu_seconds(server.pid()) - cpu) * 1e6 / MORE as f64;
    sleep(Duration::from_secs(1));
    let bytes = server.anonymous_bytes().saturating_sub(memory);
    let (cpu, start) = (cpu_seconds(server.pid()), Instant::now());
    sleep(idle);
    let busy = (cpu_seconds(server.pid()) - cpu) / start.elapsed().as_secs_f64();
    drop((first, more));
    Cost { bytes_per_stream: bytes as f64 / MORE as f64, connect_us, idle_percent: busy * 100.0 }
}

fn median(costs: &[Cost], of: fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
