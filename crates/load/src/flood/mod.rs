//! The listener crowd: opens streams by the hundred thousand, counts and times what comes.
//!
//! Works against any server that streams over HTTP. Of events that `spam` made it also knows what
//! should have come: within one run of `spam`, the events about one subject are numbered 1, 2, 3, …
//! and a stream that hears a subject must hear every number, once, in order. So on each stream
//! - a skipped number is **missing**, unless it comes later and was **overtaken**; that covers
//!   everything between the first and the last event heard of a subject, and, for streams that
//!   were open before the run began, everything before the first one too;
//! - a number that comes again is **doubled**;
//! - an event whose latency, counted from the time at which it was to be sent, is over
//!   `late_after` is **late**.
//!
//! What is lost behind the last event of a subject no listener can know. `spam` does: the server
//! told it how many deliveries each event had, so its `delivered` minus what flood heard of its run
//! is all that was lost ([`crate::report::RunReport`]). What of this makes a run a failure, and
//! what nobody has checked, [`crate::findings`] says.
//!
//! Part of the crowd can make trouble ([`Role`]): a storm in which some reset their connections for
//! good and some come back at full speed, and slow listeners that stop reading. What the steady
//! rest hears before, during and after it is told apart ([`TroubleSnapshot`]). What others missed
//! while they were away is no loss: a stream begins where it opened. Unless they *resume*: then all
//! connections of a listener are one stream, in which nothing may be missing. On one connection
//! polls are always one stream: each goes on where the answer before it ended.
//!
//! It takes for granted that subscriptions do not change during a run and that one process of
//! `spam` makes it (several have their own runs and are told apart).
//!
//! Cost: 64 bytes a listener and no buffer, one recv(2) and about 0.2 µs of user time an event.

mod crowd;
mod listener;
mod plan;
mod reason;
mod report;
mod role;
mod tally;
mod task;
mod trouble;

pub use reason::{Closure, Failure};
pub use report::{SlowReport, SteadyReport, StormReport, TroubleReport};
pub use role::Role;
pub use tally::{RunName, Runs, Totals};
pub use trouble::{Span, Storm};

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use figures::latency::{Latencies, Quantiles};
use proto::Transport;
use sys::clock;

use crate::order::STREAMS_MAX;
use crate::target::{Target, TargetError};
use crowd::Link;
use plan::Plan;
use role::Cast;
use tally::Troubled;
use task::Task;
use trouble::Trouble;

/// What a crowd is to do.
#[derive(Clone, PartialEq, Debug)]
pub struct FloodConfig {
    /// Where: `http://host:port/path`, in which `{id}` stands for the listener's id.
    pub url: String,
    /// How the listeners hear events.
    pub transport: Transport,
    /// How many listeners.
    pub users: u32,
    /// The id of the first listener; the others follow.
    pub first_id: u64,
    /// Connections begun a second; 0 is as fast as the server takes them.
    pub connect_rate: f64,
    /// Streams that may be on their way to open at one time, so that the server's backlog of
    /// connections not yet accepted does not overflow.
    pub opening_max: u32,
    /// How long a stream may take to open.
    pub open_timeout: Duration,
    /// Threads; 0 is as many as the descriptor limit and the cores ask for.
    pub threads: u32,
    /// Addresses to connect from; empty is as many of 127.0.0.0/8 as it takes when the server is
    /// there, and the system's choice otherwise.
    pub sources: Vec<IpAddr>,
    /// How long, counted from the start; `None` is until stopped.
    pub duration: Option<Duration>,
    /// What part of the crowd does at one moment.
    pub storm: Option<Storm>,
    /// The share of listeners, 0 to 1, that stop reading their stream.
    pub slow: f64,
    /// When they do, counted from when all are online; `None` is as soon as it has opened.
    pub slow_after: Option<Duration>,
    /// Receive buffer of slow listeners: small, so that the server soon notices. 0 is the system's
    /// choice.
    pub slow_buffer_bytes: usize,
    /// Whether a listener that comes back says which event it heard last, and must then hear
    /// every event since. The classic page cannot.
    pub resume: bool,
    /// Whether a listener whose stream ended or failed comes back after a second.
    pub reconnect: bool,
    /// The latency from which on an event is late.
    pub late_after: Duration,
}

impl Default for FloodConfig {
    fn default() -> FloodConfig {
        FloodConfig {
            url: "http://127.0.0.1:8000/stream/{id}".to_owned(),
            transport: Transport::Sse,
            users: 10_000,
            first_id: 0,
            connect_rate: 0.0,
            opening_max: 1_000,
            open_timeout: Duration::from_secs(30),
            threads: 0,
            sources: Vec::new(),
            duration: None,
            storm: None,
            slow: 0.0,
            slow_after: None,
            slow_buffer_bytes: 4_096,
            resume: false,
            reconnect: false,
            late_after: Duration::from_secs(1),
        }
    }
}

/// Why a crowd could not start.
#[derive(Debug, thiserror::Error)]
pub enum FloodError {
    /// The URL cannot be used.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A figure that cannot be.
    #[error("{0}")]
    Config(&'static str),
    /// The threads asked for cannot hold the crowd.
    #[error(
        "{users} listeners do not fit into {threads} threads with room for {room} descriptors \
         each: use --threads {needed}, or raise the limit (ulimit -n)"
    )]
    Descriptors {
        /// Listeners asked for.
        users: u32,
        /// Threads asked for.
        threads: u32,
        /// Threads that it takes.
        needed: u32,
        /// Listeners that one thread can hold.
        room: u32,
    },
    /// A source address is of another family than the server's.
    #[error("cannot connect from {from} to {target}: one is IPv4, the other IPv6")]
    Source {
        /// The source address.
        from: IpAddr,
        /// The server's address.
        target: SocketAddr,
    },
    /// A thread could not start.
    #[error("cannot start a thread of the crowd: {0}")]
    Thread(#[from] io::Error),
}

/// A crowd at work. Dropping it ends it.
#[derive(Debug)]
pub struct Flood {
    config: Arc<FloodConfig>,
    trouble: Arc<Trouble>,
    threads: Vec<Thread>,
    start_ns: u64,
    /// Latencies of earlier snapshots.
    earlier: Latencies,
}

#[derive(Debug)]
struct Thread {
    link: Arc<Link>,
    /// `None` once it was joined.
    join: Option<JoinHandle<io::Result<()>>>,
}

/// How a crowd is doing.
#[derive(Clone, Debug)]
pub struct FloodSnapshot {
    /// Seconds since the start.
    pub seconds: f64,
    /// Listeners asked for.
    pub users: u32,
    /// Counts since the start.
    pub totals: Totals,
    /// Events by the run of `spam` that made them.
    pub runs: Runs,
    /// What the crowd was to do.
    pub config: Arc<FloodConfig>,
    /// Latencies since the snapshot before.
    pub latency: Quantiles,
    /// What the first stream that did not open ran into.
    pub first_failure: Option<String>,
    /// What became of the trouble; only at the end, and when there was to be any.
    pub trouble: Option<Box<TroubleSnapshot>>,
}

/// What became of a storm and of slow listeners. Times are seconds.
#[derive(Clone, Debug)]
pub struct TroubleSnapshot {
    /// Counts by [`Role`].
    pub roles: [Totals; Role::COUNT],
    /// How many listeners have each role.
    pub counts: [u32; Role::COUNT],
    /// From the start to the first of it; `None` when it did not come to that.
    pub began: Option<f64>,
    /// From the storm to its last reset; `None` when there were more to come, or none.
    pub reset_after: Option<f64>,
    /// From the storm to the last return.
    pub returned_after: Option<f64>,
    /// Latencies of steady listeners, by [`Span`].
    pub steady: [Quantiles; Span::COUNT],
    /// From when a listener may come back to the first thing that its resumed stream told, to 5 ms.
    pub caught_up: Quantiles,
    /// How long the streams of slow listeners lasted from when they were not read any more.
    pub slow_lasted: Quantiles,
}

impl FloodSnapshot {
    /// Whether every listener has been online or has failed at least once.
    pub fn all_tried(&self) -> bool {
        self.totals.opened + self.totals.failed_total() >= u64::from(self.users)
    }
}

impl Flood {
    /// Starts a crowd. It raises the process' descriptor limit as far as it may.
    pub fn start(config: FloodConfig) -> Result<Flood, FloodError> {
        check(&config)?;
        let target = Arc::new(Target::parse(&config.url)?);
        let limit = sys::limits::raise_descriptors()?;
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        let plan = Plan::new(&config, target.address, limit.soft, cores)?;
        let config = Arc::new(config);
        let sources: Arc<[IpAddr]> = plan.sources.clone().into();
        let (cast, start_ns) = (Cast::new(&config), clock::monotonic_ns());
        let mut flood = Flood {
            config: config.clone(),
            trouble: Arc::new(Trouble::new(&config, cast, start_ns)),
            threads: Vec::new(),
            start_ns,
            earlier: Latencies::default(),
        };
        for thread in 0..plan.threads {
            let link = Arc::new(Link::new()?);
            let task = Task {
                config: config.clone(),
                target: target.clone(),
                sources: sources.clone(),
                trouble: flood.trouble.clone(),
                cast,
                thread,
                threads: plan.threads,
                listeners: plan.share(config.users, thread),
                streams_max: STREAMS_MAX / plan.threads as usize,
            };
            let builder = std::thread::Builder::new().name(format!("flood {thread}"));
            let shared = link.clone();
            // The stack holds no buffers.
            let join = builder.stack_size(256 * 1024).spawn(move || crowd::run(task, &shared))?;
            flood.threads.push(Thread { link, join: Some(join) });
        }
        Ok(flood)
    }

    /// How the crowd is doing; the latencies are those since the snapshot before.
    pub fn snapshot(&mut self) -> FloodSnapshot {
        let (mut totals, mut latencies) = (Totals::default(), Latencies::default());
        let (mut runs, mut first_failure) = (Runs::default(), None);
        for thread in &self.threads {
            thread.link.board.with(|published| {
                totals.add(&published.totals);
                runs.add(&published.runs);
                latencies.add(&published.latencies);
                published.latencies.clear();
                first_failure = first_failure.take().or_else(|| published.first_failure.clone());
            });
        }
        self.earlier.add(&latencies);
        FloodSnapshot {
            seconds: self.seconds(),
            users: self.config.users,
            totals,
            runs,
            config: self.config.clone(),
            latency: latencies.quantiles(),
            first_failure,
            trouble: None,
        }
    }

    /// The counts since the start: what of a [`snapshot`](Flood::snapshot) costs next to nothing.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for thread in &self.threads {
            thread.link.board.with(|published| totals.add(&published.totals));
        }
        totals
    }

    /// Waits until `done` says so of a snapshot's counts, or `patience` is over; returns whether it
    /// did. The latencies stay for the next [`snapshot`](Flood::snapshot).
    pub fn wait_until(&self, patience: Duration, done: impl Fn(&Totals) -> bool) -> bool {
        let deadline_ms = clock::monotonic_ms() + patience.as_millis() as u64;
        loop {
            if done(&self.totals()) {
                return true;
            }
            if clock::monotonic_ms() >= deadline_ms {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Whether all threads have ended, because their time is over or they were told to.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().filter_map(|thread| thread.join.as_ref()).all(JoinHandle::is_finished)
    }

    /// Tells the crowd to leave, and does not wait for it.
    pub fn stop(&self) {
        for thread in &self.threads {
            // Ordering: the flag carries no data with it.
            thread.link.stop.store(true, Ordering::Relaxed);
            thread.link.waker.ring();
        }
    }

    /// Ends the crowd and tells what it saw: its last snapshot, with the latencies of the whole
    /// time.
    ///
    /// # Errors
    /// A thread had to give up, because epoll failed; its counts up to there are lost.
    pub fn finish(mut self) -> Result<FloodSnapshot, FloodError> {
        let seconds = self.seconds();
        self.end()?;
        let snapshot = self.snapshot();
        let trouble = self.trouble.is_planned().then(|| Box::new(self.trouble_snapshot()));
        Ok(FloodSnapshot { seconds, latency: self.earlier.quantiles(), trouble, ..snapshot })
    }

    fn trouble_snapshot(&self) -> TroubleSnapshot {
        let mut roles = [Totals::default(); Role::COUNT];
        let mut troubled = Troubled::default();
        for thread in &self.threads {
            thread.link.board.with(|published| {
                roles.iter_mut().zip(&published.roles).for_each(|(into, from)| into.add(from));
                published.troubled.iter().for_each(|of_thread| troubled.add(of_thread));
            });
        }
        let seconds =
            |from_ns, to_ns: u64| Duration::from_nanos(to_ns.saturating_sub(from_ns)).as_secs_f64();
        let trouble = &self.trouble;
        let cast = Cast::new(&self.config);
        let since_storm = |done_ns: Option<u64>| Some(seconds(trouble.storm_ns()?, done_ns?));
        TroubleSnapshot {
            roles,
            counts: Role::ALL.map(|role| cast.count(role)),
            began: trouble.begin_ns().map(|begin_ns| seconds(self.start_ns, begin_ns)),
            reset_after: since_storm(trouble.resets.done_ns()),
            returned_after: since_storm(trouble.returns.done_ns()),
            steady: troubled.steady.each_ref().map(Latencies::quantiles),
            caught_up: troubled.caught_up.quantiles(),
            slow_lasted: troubled.slow_lasted.quantiles(),
        }
    }

    fn seconds(&self) -> f64 {
        Duration::from_nanos(clock::monotonic_ns() - self.start_ns).as_secs_f64()
    }

    /// Ends the threads but keeps what they published.
    fn end(&mut self) -> io::Result<()> {
        self.stop();
        let mut result = Ok(());
        for join in self.threads.iter_mut().filter_map(|thread| thread.join.take()) {
            let ended = join.join().unwrap_or_else(|_| Err(io::Error::other("it panicked")));
            result = result.and(ended);
        }
        result
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        // The wakers must be closed here, in the table that made them, so the threads go first.
        let _ = self.end();
    }
}

fn check(config: &FloodConfig) -> Result<(), FloodError> {
    let rate_fits = config.connect_rate.is_finite() && config.connect_rate >= 0.0;
    let (vanish, come_back) =
        config.storm.map_or((0.0, 0.0), |storm| (storm.vanish, storm.come_back));
    let shares_fit = vanish >= 0.0 && come_back >= 0.0 && vanish + come_back + config.slow <= 1.0;
    match config {
        _ if config.users == 0 => Err(FloodError::Config("a crowd needs at least one user")),
        _ if config.first_id.checked_add(config.users.into()).is_none() => {
            Err(FloodError::Config("the ids of the users must fit into 64 bits"))
        }
        _ if config.opening_max == 0 => {
            Err(FloodError::Config("at least one stream must be allowed to open"))
        }
        _ if !rate_fits => Err(FloodError::Config("the rate of connections must be 0 or more")),
        _ if !(0.0..=1.0).contains(&config.slow) => {
            Err(FloodError::Config("the share of slow listeners must be between 0 and 1"))
        }
        _ if !shares_fit => {
            Err(FloodError::Config("listeners that vanish, come back or are slow are at most all"))
        }
        _ => Ok(()),
    }
}
