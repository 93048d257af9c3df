//! What is measured of a system: each row one way of sending, to a crowd that is online.

use std::io::Write as _;
use std::process::ChildStdin;
use std::time::Duration;

use figures::numbers::grouped;
use sys::clock;

use crate::child::{self, Role};
use crate::harness::Program;
use crate::listeners::Heard;
use crate::publish::{Order, Published};
use crate::systems::{Running, System};
use crate::{Outcome, Plan, START_MAX};

/// Publishers, but for [`Row::Alone`].
const PUBLISHERS: usize = 64;

/// How long a crowd that is online hears events that nobody measures.
const WARM_UP_SECONDS: f64 = 0.5;

/// What may come on top of the time of a row: the last answers, the last events.
const GRACE: Duration = Duration::from_secs(30);

/// One way of sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Row {
    /// Each publisher sends as soon as it is answered.
    Flat,
    /// All together send at a rate.
    Paced,
    /// One caller.
    Alone,
    /// A tenth of the rate, to fewer.
    Users,
}

/// One figure of one run.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: f64,
}

impl Row {
    pub(crate) const ALL: [Row; 4] = [Row::Flat, Row::Paced, Row::Alone, Row::Users];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::Flat => "flat",
            Row::Paced => "paced",
            Row::Alone => "alone",
            Row::Users => "users",
        }
    }

    fn streams(self, plan: &Plan) -> u32 {
        if self == Row::Users { 10_000 } else { plan.connections }
    }

    /// Events a second, where that is not left to the server.
    fn rate(self) -> Option<f64> {
        match self {
            Row::Flat | Row::Alone => None,
            Row::Paced => Some(10_000.0),
            Row::Users => Some(1_000.0),
        }
    }

    fn figures(self, run: &Run) -> Vec<Figure> {
        let Run { published, heard, server_us, seconds } = run;
        let server_us_a_send = server_us / published.sent as f64;
        let values = match self {
            Row::Flat => vec![
                ("flat: sends/s", published.in_time as f64 / seconds),
                ("flat: µs of the server a send", server_us_a_send),
                ("flat: answer p50, µs", published.p50_us),
                ("flat: answer p99, µs", published.p99_us),
            ],
            Row::Paced => vec![
                ("10,000/s: µs of the server a send", server_us_a_send),
                ("10,000/s: answer p50, µs", published.p50_us),
                ("10,000/s: answer p99, µs", published.p99_us),
                ("10,000/s: heard p50, µs", heard.p50_us),
                ("10,000/s: heard p99, µs", heard.p99_us),
            ],
            Row::Alone => vec![
                ("alone: answer p50, µs", published.p50_us),
                ("alone: answer p99, µs", published.p99_us),
                ("alone: µs of the server a send", server_us_a_send),
            ],
            Row::Users => vec![
                ("1,000/s to 10,000: % of a core", server_us / (seconds * 1e4)),
                ("1,000/s to 10,000: answer p99, µs", published.p99_us),
            ],
        };
        values.into_iter().map(|(name, value)| Figure { name, value }).collect()
    }
}

/// Measures the rows of the plan on a system that is started for it, and ends it.
pub(crate) fn measure(system: System, plan: &Plan, seed: u64) -> Outcome<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut world: Option<World> = None;
    for row in Row::ALL.into_iter().filter(|row| plan.rows.contains(row)) {
        let streams = row.streams(plan);
        let mut at_work = match world.take() {
            Some(world) if world.streams == streams => world,
            // What is there ends before the next begins.
            old => {
                drop(old);
                World::start(system, plan, streams)?
            }
        };
        let publishers = if row == Row::Alone { 1 } else { PUBLISHERS };
        let run = at_work.publish(publishers, row.rate(), plan.seconds, seed)?;
        run.tell(system, row);
        figures.extend(row.figures(&run));
        world = Some(at_work);
    }
    Ok(figures)
}

/// A system and its crowd.
struct World {
    streams: u32,
    system: Running,
    listeners: Program,
    to_listeners: ChildStdin,
}

/// What came of a row.
struct Run {
    published: Published,
    heard: Heard,
    /// Processor time of the server.
    server_us: f64,
    seconds: f64,
}

impl World {
    fn start(system: System, plan: &Plan, streams: u32) -> Outcome<World> {
        let system = system.start(plan, streams)?;
        let role = Role::Load { streams: system.streams.clone(), users: streams };
        let (listeners, to_listeners) = child::spawn(&role)?;
        // Its own time is less, so that it can tell who is not online.
        listeners.line_within(START_MAX + GRACE)?;
        let mut world = World { streams, system, listeners, to_listeners };
        world.publish(PUBLISHERS, None, WARM_UP_SECONDS, 0)?;
        Ok(world)
    }

    fn publish(
        &mut self,
        publishers: usize,
        rate: Option<f64>,
        seconds: f64,
        seed: u64,
    ) -> Outcome<Run> {
        let (wire, address) = (self.system.wire, self.system.address);
        let ids = u64::from(self.streams);
        let is_each_once = false;
        let order = Order { wire, address, publishers, ids, is_each_once, rate, seconds, seed };
        let (program, mut input) = child::spawn(&Role::Publish(order))?;
        program.line_within(START_MAX)?;
        let before_us = self.system.cpu_us()?;
        writeln!(input, "go")?;
        let line = program.line_within(Duration::from_secs_f64(seconds) + GRACE)?;
        let published: Published = serde_json::from_str(&line)?;
        // An answer may come before the event is heard.
        writeln!(self.to_listeners, "{}", published.sent - published.refused)?;
        let heard = serde_json::from_str(&self.listeners.line_within(GRACE)?)?;
        let server_us = self.system.cpu_us()? - before_us;
        Ok(Run { published, heard, server_us, seconds })
    }
}

impl Run {
    /// A line as it happens, with what the instruments took themselves.
    fn tell(&self, system: System, row: Row) {
        let Run { published, heard, server_us, seconds } = self;
        let sent = published.sent as f64;
        let lost = (published.sent - published.refused).saturating_sub(heard.events);
        let trouble = match (published.refused, lost) {
            (0, 0) => String::new(),
            (refused, lost) => format!("; {refused} REFUSED, {lost} LOST"),
        };
        println!(
            "  {} s: {:<6} {:<6} {:>7}/s, µs a send: server {:.1}, publishers {:.1}, listeners \
             {:.1}{trouble}",
            clock::monotonic_ms() / 1_000,
            system.name(),
            row.name(),
            grouped((published.in_time as f64 / seconds) as u64),
            server_us / sent,
            published.cpu_us / sent,
            heard.cpu_us / sent,
        );
    }
}
