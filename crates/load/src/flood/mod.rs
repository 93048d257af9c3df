//! The listener crowd: opens streams by the hundred thousand, counts and times what comes.
//!
//! Works against any server that streams over HTTP. Of events that `spam` made it also knows what
//! should have come. Within one run of `spam`, the events about one subject are numbered 1, 2, 3, …
//! A stream that hears a subject must hear every number, once, in order. So on each stream
//! - a skipped number is **missing**, unless it comes later and was **overtaken**. That covers
//!   everything between the first and the last event heard of a subject. For streams that were open
//!   before the run began, it covers everything before the first one too;
//! - a number that comes again is **doubled**;
//! - an event whose latency, counted from the time at which it was to be sent, is over
//!   `late_after` is **late**.
//!
//! What is lost behind the last event of a subject no listener can know. `spam` does: the server
//! told it how many deliveries each event had, so its `delivered` minus what flood heard of its run
//! is all that was lost ([`crate::report::RunReport`]). What of this makes a run a failure, and
//! what nobody has checked, [`crate::findings`] says.
//!
//! Part of the listeners can make trouble ([`Role`]). In a storm some reset their connections for
//! good and some come back at full speed. Slow listeners stop reading. What the steady rest hears
//! before, during and after it is told apart ([`TroubleSnapshot`]). What others missed while they
//! were away is no loss: a stream begins where it opened. Unless they *resume*: then all
//! connections of a listener are one stream, in which nothing may be missing. On one connection
//! polls are always one stream: each goes on where the answer before it ended.
//!
//! It takes for granted that subscriptions do not change during a run and that one process of
//! `spam` makes it (several have their own runs and are told apart).
//!
//! Cost: 80 bytes a listener and no buffer, 4 more where it polls and 104 where it speaks TLS; one
//! recv(2) and about 0.2 µs of user time an event.

mod coarse_time;
mod config;
mod cursor;
mod listener;
mod listeners;
mod plan;
mod reason;
mod report;
mod role;
mod secured;
mod snapshot;
mod tally;
mod task;
mod tokens;
mod trouble;

pub use config::{FloodConfig, FloodError, Storm};
pub use reason::{Closure, Failure};
pub use report::{SlowReport, SteadyReport, StormReport, TroubleReport};
pub use role::Role;
pub use snapshot::{FloodSnapshot, TroubleSnapshot};
pub use tally::{Runs, Totals};
pub use tokens::Tokens;
pub use trouble::Span;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use figures::latency::Latencies;
use sys::clock;

use crate::order::STREAMS_MAX;
use crate::target::Target;
use listeners::Link;
use plan::Plan;
use role::Roles;
use tally::Troubled;
use task::Task;
use trouble::Trouble;

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

impl Flood {
    /// Starts a crowd. It raises the process' descriptor limit as far as it may.
    pub fn start(config: FloodConfig) -> Result<Flood, FloodError> {
        config::check(&config)?;
        let target = Arc::new(Target::parse(&config.url)?);
        config::check_token(&config, &target)?;
        config::check_trust(&config, &target)?;
        let limit = sys::limits::raise_descriptors()?;
        let cores = sys::machine::cores() as u32;
        let plan = Plan::new(&config, target.address, limit.soft, cores)?;
        let config = Arc::new(config);
        let sources: Arc<[IpAddr]> = plan.sources.clone().into();
        let (roles, start_ns) = (Roles::new(&config), clock::monotonic_ns());
        let mut flood = Flood {
            config: config.clone(),
            trouble: Arc::new(Trouble::new(&config, roles, start_ns)),
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
                roles,
                thread,
                threads: plan.threads,
                listeners: plan.share(config.users, thread),
                streams_max: STREAMS_MAX / plan.threads as usize,
            };
            let builder = std::thread::Builder::new().name(format!("flood {thread}"));
            let shared = link.clone();
            // The stack holds no buffers.
            let join =
                builder.stack_size(256 * 1024).spawn(move || listeners::run(task, &shared))?;
            flood.threads.push(Thread { link, join: Some(join) });
        }
        Ok(flood)
    }

    /// How the crowd is doing; the latencies are those since the snapshot before.
    pub fn snapshot(&mut self) -> FloodSnapshot {
        let (mut totals, mut latencies) = (Totals::default(), Latencies::default());
        let (mut runs, mut first_failure) = (Runs::default(), None);
        for thread in &self.threads {
            thread.link.shared.with(|published| {
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
            thread.link.shared.with(|published| totals.add(&published.totals));
        }
        totals
    }

    /// Waits until `done` says so of a snapshot's counts, or `timeout` is over; returns whether it
    /// did. The latencies stay for the next [`snapshot`](Flood::snapshot).
    pub fn wait_until(&self, timeout: Duration, done: impl Fn(&Totals) -> bool) -> bool {
        let deadline_ms = clock::monotonic_ms() + timeout.as_millis() as u64;
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
        let mut totals = [Totals::default(); Role::COUNT];
        let mut troubled = Troubled::default();
        for thread in &self.threads {
            thread.link.shared.with(|published| {
                totals.iter_mut().zip(&published.roles).for_each(|(into, from)| into.add(from));
                published.troubled.iter().for_each(|of_thread| troubled.add(of_thread));
            });
        }
        let seconds =
            |from_ns, to_ns: u64| Duration::from_nanos(to_ns.saturating_sub(from_ns)).as_secs_f64();
        let trouble = &self.trouble;
        let roles = Roles::new(&self.config);
        let since_storm = |done_ns: Option<u64>| Some(seconds(trouble.storm_ns()?, done_ns?));
        TroubleSnapshot {
            roles: totals,
            counts: Role::ALL.map(|role| roles.count(role)),
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
