//! The message generator: events about random users, at a fixed rate, each stamped with the time
//! at which it was to be sent ([`crate::stamp`]).
//!
//! It keeps its rate whatever the server does (see `schedule`). An event whose time has passed is
//! sent at once, and how far behind that was is reported. Latencies count from the intended time.
//! Events about one subject always go over the same connection, in order, so those of one sender
//! about one subject do too.
//!
//! Only the number of events on their way is bounded (`in_flight_max` a connection). A server that
//! falls behind further makes the sender wait, and the waiting shows as being behind.

mod config;
mod message;
mod post;
mod schedule;
mod snapshot;
mod songs;
mod stream;
mod tally;
mod wire;

pub use config::{
    IN_FLIGHT_MOST, PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN, Payload, SpamConfig, SpamError, SpamMode,
};
pub use snapshot::SpamSnapshot;
pub use tally::SpamTotals;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use figures::latency::Latencies;
use proto::ApiKey;
use sys::clock;

use crate::shared::Shared;
use crate::stamp::RunName;
use crate::target::Target;
use message::Messages;
use post::{Connect, RequestSender};
use schedule::{Schedule, Share};
use stream::{Reader, Writer};
use tally::SpamPublished;
use wire::Wire;

/// An API that takes nothing, or owes an answer and sends nothing, for so long is taken for dead.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// From the start of the threads to the first event, so that all are ready.
const HEAD_START_NS: u64 = 5_000_000;

/// What the threads of one connection share with the [`Spam`] that started them.
#[derive(Debug, Default)]
struct SpamLink {
    stop: AtomicBool,
    writer: Shared<SpamPublished>,
    reader: Shared<SpamPublished>,
}

impl SpamLink {
    fn stopped(&self) -> bool {
        // Ordering: the flag carries no data with it.
        self.stop.load(Ordering::Relaxed)
    }

    /// Keeps why the connection ended before its time, by what that side of it saw.
    fn fail(&self, side: Side, words: String) {
        let shared = if side == Side::Reader { &self.reader } else { &self.writer };
        shared.with(|published| published.failure.get_or_insert(words).len());
    }

    /// Events are left that are not sent, since it was told to stop.
    fn stopped_early(&self) {
        self.writer.with(|published| published.stopped = true);
    }
}

/// Who does what on a connection. One that does both counts as a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Writer,
    Reader,
}

/// Sleeps until `due_ns` on the monotonic clock, or until it is told to stop.
fn wait_until(due_ns: u64, link: &SpamLink) {
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= due_ns || link.stopped() {
            return;
        }
        std::thread::park_timeout(Duration::from_nanos(due_ns - now_ns));
    }
}

/// A run at work. Dropping it ends it.
#[derive(Debug)]
pub struct Spam {
    config: SpamConfig,
    connections: Vec<Connection>,
    run: RunName,
    start_ns: u64,
    earlier: Latencies,
    earlier_behind: Latencies,
}

/// What the heads of requests have in common. It has the key, so it has no `Debug`.
struct Head {
    host: String,
    path: String,
    /// A header line with the key, or nothing.
    authorization: String,
}

#[derive(Debug)]
struct Connection {
    link: Arc<SpamLink>,
    threads: Vec<JoinHandle<()>>,
}

impl Spam {
    /// Connects to the API and starts sending.
    pub fn start(config: &SpamConfig) -> Result<Spam, SpamError> {
        config::check(config)?;
        let target = Target::parse(&config.api)?;
        let mut path = Vec::new();
        target.push_path(0, &mut path);
        let path = String::from_utf8_lossy(&path).trim_end_matches('/').to_owned() + "/send";
        let authorization = config.key.as_ref().and_then(ApiKey::authorization);
        let authorization =
            authorization.map_or_else(String::new, |key| format!("Authorization: {key}\r\n"));
        config::check_trust(config, &target)?;
        let trust = config.trust.clone();
        let at = target.clone();
        let connect: Connect = Arc::new(move || Wire::connect(&at, trust.as_ref()));
        let wires: io::Result<Vec<Wire>> = (0..config.connections).map(|_| connect()).collect();
        let wires = wires.map_err(|error| SpamError::Connect { api: config.api.clone(), error })?;
        let schedule = Schedule::new(config);
        let start_ns = clock::monotonic_ns() + HEAD_START_NS;
        let run = RunName::new(start_ns);
        let mut spam = Spam {
            config: config.clone(),
            connections: Vec::new(),
            run,
            start_ns,
            earlier: Latencies::default(),
            earlier_behind: Latencies::default(),
        };
        for (number, wire) in (0..).zip(wires) {
            let share = Share::new(schedule.clone(), number, config.connections);
            let connection = Connection::start(
                config,
                share,
                (wire, connect.clone()),
                (run, start_ns),
                Head {
                    host: target.host.clone(),
                    path: path.clone(),
                    authorization: authorization.clone(),
                },
            );
            spam.connections.push(connection.map_err(SpamError::Thread)?);
        }
        Ok(spam)
    }

    /// The subjects of the first `count` events, counted from 0, in the order of sending. Of a run
    /// with one connection these are the events that were sent.
    pub fn subjects(&self, count: u64) -> impl Iterator<Item = u32> + use<> {
        let schedule = Schedule::new(&self.config);
        (0..count).map_while(move |k| Some(schedule.event(k)?.subject))
    }

    /// How the run is doing; the latencies are those since the snapshot before.
    pub fn snapshot(&mut self) -> SpamSnapshot {
        let (mut totals, mut failure, mut stopped) = (SpamTotals::default(), None, false);
        let (mut latencies, mut behind) = (Latencies::default(), Latencies::default());
        for link in self.connections.iter().map(|connection| &connection.link) {
            // A reader knows better: who writes sees a broken pipe where the API has said why.
            for side in [&link.reader, &link.writer] {
                side.with(|published| {
                    totals.add(&published.totals);
                    stopped |= published.stopped;
                    latencies.add(&published.latencies);
                    behind.add(&published.behind);
                    published.latencies.clear();
                    published.behind.clear();
                    failure = failure.take().or_else(|| published.failure.clone());
                });
            }
        }
        self.earlier.add(&latencies);
        self.earlier_behind.add(&behind);
        let sent_for = Duration::from_nanos(totals.sent_until_ns.saturating_sub(self.start_ns));
        let sending_seconds = sent_for.as_secs_f64() + 1.0 / self.config.rate;
        let seconds = self.seconds();
        SpamSnapshot {
            seconds,
            sending_seconds: sending_seconds.min(seconds),
            run: self.run,
            totals,
            planned: self.config.duration.and(Some(Schedule::new(&self.config).count())),
            stopped,
            late_after: self.config.late_after,
            answer: latencies.quantiles(),
            behind: behind.quantiles(),
            failure,
        }
    }

    /// Whether all events were sent and answered, or all connections failed.
    pub fn is_finished(&self) -> bool {
        self.connections.iter().flat_map(|one| &one.threads).all(JoinHandle::is_finished)
    }

    /// Tells the run to send no more, and does not wait for the answers.
    pub fn stop(&self) {
        for connection in &self.connections {
            // Ordering: the flag carries no data with it.
            connection.link.stop.store(true, Ordering::Relaxed);
            connection.threads.iter().for_each(|join| join.thread().unpark());
        }
    }

    /// Sends no more, waits for the answers to what was sent, and tells of it: the last snapshot,
    /// with the latencies of the whole run. On a run that may finish by itself, wait for
    /// [`is_finished`](Spam::is_finished) first.
    pub fn finish(mut self) -> SpamSnapshot {
        self.end();
        let seconds = self.seconds();
        let snapshot = self.snapshot();
        let (answer, behind) = (self.earlier.quantiles(), self.earlier_behind.quantiles());
        SpamSnapshot { seconds, answer, behind, ..snapshot }
    }

    fn seconds(&self) -> f64 {
        Duration::from_nanos(clock::monotonic_ns().saturating_sub(self.start_ns)).as_secs_f64()
    }

    fn end(&mut self) {
        self.stop();
        for connection in &mut self.connections {
            for join in connection.threads.drain(..) {
                // What a thread that panicked has published stays.
                if join.join().is_err() {
                    connection.link.fail(Side::Writer, "a thread of spam broke down".to_owned());
                }
            }
        }
    }
}

impl Drop for Spam {
    fn drop(&mut self) {
        self.end();
    }
}

impl Connection {
    fn start(
        config: &SpamConfig,
        share: Share,
        (wire, connect): (Wire, Connect),
        (run, start_ns): (RunName, u64),
        head: Head,
    ) -> io::Result<Connection> {
        let link = Arc::new(SpamLink::default());
        let messages = Messages::new(&share, config.first_id, config.payload, run, start_ns);
        let mut threads = Vec::new();
        match config.mode {
            SpamMode::Stream => {
                let (sender, receiver) = sync_channel(config.in_flight_max);
                let reader = Reader { wire: wire.try_clone()?, in_flight: receiver };
                let coalesce_ns = config.coalesce.as_nanos() as u64;
                let in_flight = sender;
                let late_after_ns = late_after_ns(config) + coalesce_ns;
                let writer = Writer {
                    wire,
                    share,
                    messages,
                    start_ns,
                    coalesce_ns,
                    late_after_ns,
                    in_flight,
                };
                threads.push(spawn("spam writer", Side::Writer, &link, move |link| {
                    writer.run(&head, link)
                })?);
                threads
                    .push(spawn("spam reader", Side::Reader, &link, move |link| reader.run(link))?);
            }
            SpamMode::Post => {
                let late_after_ns = late_after_ns(config);
                let request_sender =
                    RequestSender { wire, connect, share, messages, start_ns, late_after_ns };
                threads.push(spawn("spam", Side::Reader, &link, move |link| {
                    request_sender.run(&head, link)
                })?);
            }
        }
        Ok(Connection { link, threads })
    }
}

/// Starts a thread that keeps its failure where reports look for it.
fn spawn(
    name: &str,
    side: Side,
    link: &Arc<SpamLink>,
    run: impl FnOnce(&SpamLink) -> io::Result<()> + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let link = link.clone();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        if let Err(error) = run(&link) {
            link.fail(side, error.to_string());
        }
    })
}

/// Less than the largest number, so that some can be added.
fn late_after_ns(config: &SpamConfig) -> u64 {
    u64::try_from(config.late_after.as_nanos()).map_or(u64::MAX / 2, |ns| ns.min(u64::MAX / 2))
}

fn no_answer() -> io::Error {
    let words = format!("the API has not answered for {} s", ANSWER_TIMEOUT.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, words)
}
