//! One thread of the crowd: an epoll loop over its share of the listeners.
//!
//! A turn: begin connections that are due, wait, read what can be read (one recv(2) for each
//! connection, into the thread's one buffer), publish the counts. Once all are online, a silent
//! crowd costs nothing but a wake-up a second, and a request for each poll that runs out. A storm
//! is gone through in slices, between which steady listeners are read, or the tool's own work would
//! show as the server's delay.

mod opening;
mod polling;
mod reading;
mod sending;
mod storm;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::Transport;
use sys::epoll::{Epoll, Events};
use sys::waker::Waker;
use sys::{clock, table};

use self::polling::Polls;
use crate::flood::listener::Listener;
use crate::flood::secured::Secured;
use crate::flood::tally::{Published, Tally};
use crate::flood::task::{Pace, Task};
use crate::flood::trouble::Bounds;
use crate::shared::Shared;

const BUFFER_BYTES: usize = 64 * 1024;
const REPORTS_PER_TURN: usize = 1024;
const WAIT_MS_MAX: u64 = 1_000;
/// How long a turn waits while nobody can know yet when the trouble begins.
const WAIT_MS_DEFAULT: u64 = 100;
const WAKER_TOKEN: u64 = u64::MAX;

/// What a thread of the crowd shares with the [`Flood`](crate::flood::Flood) that started it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) waker: Waker,
    pub(super) stop: AtomicBool,
    pub(super) shared: Shared<Published>,
}

impl Link {
    pub(super) fn new() -> io::Result<Link> {
        Ok(Link { waker: Waker::new()?, stop: AtomicBool::new(false), shared: Shared::default() })
    }
}

/// Runs the thread until its time is over or it is told to stop.
pub(super) fn run(task: Task, link: &Link) -> io::Result<()> {
    // Where the table cannot be private (a container may forbid it), the crowd still works, within
    // the limit of the one table; a full one is counted as such.
    let _ = table::make_private(&[&link.waker]);
    let mut listeners = Listeners::new(task)?;
    listeners.epoll.add_edges(&link.waker, WAKER_TOKEN)?;
    let result = listeners.run(link);
    listeners.publish(link);
    result
}

struct Listeners {
    task: Task,
    epoll: Epoll,
    listeners: Vec<Listener>,
    /// Where TLS is spoken.
    secured: Option<Secured>,
    /// Listeners that were never begun start here.
    next: u32,
    pace: Pace,
    /// Begun and not yet open or failed.
    opening: u32,
    opening_max: u32,
    /// Those that were begun, in their order, with those that have opened since.
    begun: VecDeque<Begun>,
    /// Listeners to come back, in the order of their time.
    again: VecDeque<(u64, u32)>,
    /// Listeners whom the storm has yet to reset; `None` before it breaks out.
    doomed: Option<Vec<u32>>,
    /// Listeners that come back from it, and when, in nanoseconds: in the order of that time.
    back: VecDeque<(u64, u32)>,
    /// Listeners that resume on a further connection, and when that was made: milliseconds on the
    /// monotonic clock, cut to 32 bits.
    came_back_ms: HashMap<u32, u32>,
    /// Where polls are what it listens by.
    polls: Polls,
    buffer: Box<[u8]>,
    request: Vec<u8>,
    /// What goes out of it, where TLS is spoken.
    sealed: Vec<u8>,
    tally: Tally,
}

struct Begun {
    slot: u32,
    attempt: u32,
    deadline_ms: u64,
}

impl Listeners {
    fn new(task: Task) -> io::Result<Listeners> {
        let config = &task.config;
        let rate = config.connect_rate / f64::from(task.threads);
        let trusted = config.trust.as_ref().zip(task.target.tls_name.clone());
        let secured =
            trusted.map(|(trust, name)| Secured::new(trust.config().clone(), name, task.listeners));
        let polls = config.transport == Transport::Poll;
        let late_after_ns = u64::try_from(config.late_after.as_nanos()).unwrap_or(u64::MAX);
        Ok(Listeners {
            epoll: Epoll::new()?,
            listeners: (0..task.listeners).map(|_| Listener::default()).collect(),
            secured,
            next: 0,
            pace: Pace::new(rate, clock::monotonic_ns()),
            opening: 0,
            opening_max: config.opening_max.div_ceil(task.threads),
            begun: VecDeque::new(),
            again: VecDeque::new(),
            doomed: None,
            back: VecDeque::new(),
            came_back_ms: HashMap::new(),
            polls: Polls::new(if polls { task.listeners } else { 0 }),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            request: Vec::new(),
            sealed: Vec::new(),
            tally: Tally::new(task.streams_max, late_after_ns),
            task,
        })
    }

    fn run(&mut self, link: &Link) -> io::Result<()> {
        let end_ns = self.task.config.duration.map(|duration| {
            let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
            self.pace.start_ns.saturating_add(ns)
        });
        let mut reports = Events::with_capacity(REPORTS_PER_TURN);
        // Ordering: the flag carries no data with it.
        while !link.stop.load(Ordering::Relaxed) {
            let now_ns = clock::monotonic_ns();
            if end_ns.is_some_and(|end_ns| now_ns >= end_ns) {
                break;
            }
            let planned = self.task.trouble.is_planned();
            self.tally.bounds = planned.then(|| Bounds::of(&self.task.trouble));
            self.storm(now_ns);
            self.begin_due(now_ns);
            self.poll_due(now_ns / 1_000_000);
            let until_end = end_ns.map_or(u64::MAX, |end_ns| (end_ns - now_ns).div_ceil(1_000_000));
            let timeout_ms = self.wait_ms(clock::monotonic_ns()).min(until_end);
            self.epoll.wait(&mut reports, Some(timeout_ms))?;
            for report in reports.iter() {
                if report.token == WAKER_TOKEN {
                    continue;
                }
                let (slot, attempt) = (report.token as u32, (report.token >> 32) as u32);
                let listener = &self.listeners[slot as usize];
                if listener.attempt != attempt || listener.socket.is_none() {
                    continue;
                }
                if report.writable() {
                    self.writable(slot);
                }
                if report.readable() {
                    self.readable(slot, report.hung_up());
                }
            }
            self.expire(clock::monotonic_ms());
            self.publish(link);
        }
        Ok(())
    }

    fn publish(&mut self, link: &Link) {
        self.tally.cpu_ns = clock::thread_cpu().as_nanos() as u64;
        self.tally.publish(&link.shared);
    }

    /// How long the loop may sleep, seen from `now_ns`.
    fn wait_ms(&self, now_ns: u64) -> u64 {
        let may_begin = self.opening < self.opening_max;
        if self.doomed.as_ref().is_some_and(|doomed| !doomed.is_empty()) {
            return 0;
        }
        let back_ms = match self.back.front() {
            Some((due_ns, _)) if may_begin => due_ns.saturating_sub(now_ns).div_ceil(1_000_000),
            _ => WAIT_MS_MAX,
        };
        let next_ms = if self.next < self.task.listeners && may_begin {
            self.pace.wait_ms(now_ns)
        } else {
            WAIT_MS_MAX
        };
        let again_ms = match self.again.front() {
            Some((due_ms, _)) if may_begin => {
                due_ms.saturating_sub(now_ns / 1_000_000).max(self.pace.wait_ms(now_ns))
            }
            _ => WAIT_MS_MAX,
        };
        let trouble = &self.task.trouble;
        let storm_ms = match trouble.storm_ns() {
            _ if !trouble.is_planned() || self.doomed.is_some() => WAIT_MS_MAX,
            None => WAIT_MS_DEFAULT,
            Some(at_ns) => at_ns.saturating_sub(now_ns).div_ceil(1_000_000),
        };
        let poll_ms = match self.polls.due_ms() {
            Some(due_ms) => due_ms.saturating_sub(now_ns / 1_000_000),
            None => WAIT_MS_MAX,
        };
        next_ms.min(again_ms).min(back_ms).min(storm_ms).min(poll_ms).min(WAIT_MS_MAX)
    }
}
