//! The listeners: a crowd in a process of its own, so that its processor time is not the server's.
//! Of SSE it is that of `encke flood`; NATS has no SSE, so its subscribers are in `nats`.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use figures::latency::Quantiles;
use load::{Flood, FloodConfig};
use serde::{Deserialize, Serialize};

use crate::{Outcome, START_MAX, nats};

/// How long what was sent may be on its way.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);

/// Who listens, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Streams {
    /// SSE at this URL, in which `{id}` stands for the number of the listener.
    Sse(String),
    /// A subscription of `s.<number>` on a connection of its own.
    Nats(SocketAddr),
}

/// What the crowd heard since it was asked last.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Heard {
    pub(crate) events: u64,
    /// From when an event was due to be sent until it was heard.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of the crowd.
    pub(crate) cpu_us: f64,
}

/// A crowd that is counted.
pub(crate) trait Load {
    /// Waits until so many are online.
    fn await_online(&self, users: u64) -> Outcome<()>;
    /// Waits until so many events were heard since the start, or for [`ARRIVAL_MAX`].
    fn await_events(&self, events: u64, time: Duration);
    /// What was heard since it was asked last.
    fn heard(&mut self) -> Heard;
}

/// The process: brings the crowd online, says so, and for each line with a number of events waits
/// for these, and tells what it heard. Ends with its standard input.
pub(crate) fn run(streams: &Streams, users: u32) -> Outcome<()> {
    match streams {
        Streams::Sse(url) => {
            let config = FloodConfig { url: url.clone(), users, ..FloodConfig::default() };
            obey(Listeners { flood: Flood::start(config)?, earlier: Heard::default() }, users)
        }
        Streams::Nats(address) => obey(nats::Subscribers::start(*address, users)?, users),
    }
}

fn obey(mut listeners: impl Load, users: u32) -> Outcome<()> {
    listeners.await_online(users.into())?;
    println!("online");
    let mut expected = 0;
    for line in io::stdin().lines() {
        expected += line?.parse::<u64>()?;
        listeners.await_events(expected, ARRIVAL_MAX);
        println!("{}", serde_json::to_string(&listeners.heard())?);
    }
    Ok(())
}

/// Listeners of SSE.
struct Listeners {
    flood: Flood,
    /// Counts up to when it was asked last.
    earlier: Heard,
}

impl Load for Listeners {
    fn await_online(&self, users: u64) -> Outcome<()> {
        if self.flood.wait_until(START_MAX, |totals| totals.open() >= users) {
            return Ok(());
        }
        Err(format!("only {} of {users} listeners are online", self.flood.totals().open()).into())
    }

    fn await_events(&self, events: u64, time: Duration) {
        self.flood.wait_until(time, |totals| totals.events >= events);
    }

    fn heard(&mut self) -> Heard {
        let snapshot = self.flood.snapshot();
        let totals = snapshot.totals;
        let (events, cpu_us) = (totals.events, totals.cpu_ns as f64 / 1e3);
        let now = Heard { events, cpu_us, ..Heard::default() };
        let earlier = std::mem::replace(&mut self.earlier, now);
        now.since(&earlier, snapshot.latency)
    }
}

impl Heard {
    /// Counts since the start, made into what came after `earlier` ones, with its latencies.
    pub(crate) fn since(&self, earlier: &Heard, latency: Quantiles) -> Heard {
        Heard {
            events: self.events - earlier.events,
            p50_us: latency.p50_ms * 1e3,
            p99_us: latency.p99_ms * 1e3,
            cpu_us: self.cpu_us - earlier.cpu_us,
        }
    }
}
