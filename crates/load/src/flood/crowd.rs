//! One thread of the crowd: an epoll loop over its share of the listeners.
//!
//! A turn: begin connections that are due, wait, read what can be read (one recv(2) for each
//! connection, into the thread's one buffer), publish the counts. Once all are online, a silent
//! crowd costs nothing but a wake-up a second, and a request for each poll that runs out. A storm
//! is gone through in slices, between which steady listeners are read, or the tool's own work would
//! show as the server's delay.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::Transport;
use proto::client::{Reply, push_reply, push_text};
use sys::epoll::{Epoll, Events};
use sys::waker::Waker;
use sys::{clock, socket, table};

use crate::flood::listener::{Arrival, Listener, Moment, Outcome, Phase};
use crate::flood::role::Role;
use crate::flood::tally::{Board, Tally};
use crate::flood::task::{Pace, Task};
use crate::flood::trouble::Bounds;
use crate::flood::{Closure, Failure};
use crate::order::mix;

const BUFFER_BYTES: usize = 64 * 1024;
const REPORTS_PER_TURN: usize = 1024;
/// Connections begun before the loop looks at the others again.
const BEGUN_PER_TURN: u64 = 64;
/// Connections that a storm resets before the loop looks at the others again.
const RESETS_PER_TURN: usize = 64;
const WAIT_MS_MAX: u64 = 1_000;
/// The same while nobody can know yet when the trouble begins.
const WAIT_MS_UNTOLD: u64 = 100;
/// A listener that lost its stream, or did not get one, comes back after this.
const RECONNECT_AFTER_MS: u64 = 1_000;
const WAKER_TOKEN: u64 = u64::MAX;

/// What a thread of the crowd shares with the [`Flood`](crate::flood::Flood) that started it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) waker: Waker,
    pub(super) stop: AtomicBool,
    pub(super) board: Board,
}

impl Link {
    pub(super) fn new() -> io::Result<Link> {
        Ok(Link { waker: Waker::new()?, stop: AtomicBool::new(false), board: Board::default() })
    }
}

/// Runs the thread until its time is over or it is told to stop.
pub(super) fn run(task: Task, link: &Link) -> io::Result<()> {
    // Where the table cannot be private (a container may forbid it), the crowd still works, within
    // the limit of the one table; a full one is counted as such.
    let _ = table::make_private(&[&link.waker]);
    let mut crowd = Crowd::new(task)?;
    crowd.epoll.add_edges(&link.waker, WAKER_TOKEN)?;
    let result = crowd.run(link);
    crowd.publish(link);
    result
}

struct Crowd {
    task: Task,
    epoll: Epoll,
    listeners: Vec<Listener>,
    /// Listeners that were never begun start here.
    next: u32,
    pace: Pace,
    /// Begun and not yet open or failed.
    opening: u32,
    opening_max: u32,
    /// The same in the order of their beginning, with those that have opened since.
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
    buffer: Box<[u8]>,
    request: Vec<u8>,
    tally: Tally,
}

struct Begun {
    slot: u32,
    attempt: u32,
    deadline_ms: u64,
}

impl Crowd {
    fn new(task: Task) -> io::Result<Crowd> {
        let config = &task.config;
        let rate = config.connect_rate / f64::from(task.threads);
        let late_after_ns = u64::try_from(config.late_after.as_nanos()).unwrap_or(u64::MAX);
        Ok(Crowd {
            epoll: Epoll::new()?,
            listeners: (0..task.listeners).map(|_| Listener::default()).collect(),
            next: 0,
            pace: Pace::new(rate, clock::monotonic_ns()),
            opening: 0,
            opening_max: config.opening_max.div_ceil(task.threads),
            begun: VecDeque::new(),
            again: VecDeque::new(),
            doomed: None,
            back: VecDeque::new(),
            came_back_ms: HashMap::new(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            request: Vec::new(),
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
                if report.writable() && matches!(listener.phase, Phase::Connecting) {
                    self.connected(slot);
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
        self.tally.publish(&link.board);
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
            None => WAIT_MS_UNTOLD,
            Some(at_ns) => at_ns.saturating_sub(now_ns).div_ceil(1_000_000),
        };
        next_ms.min(again_ms).min(back_ms).min(storm_ms).min(WAIT_MS_MAX)
    }

    /// Goes on with the storm, once it has broken out, by a slice.
    fn storm(&mut self, now_ns: u64) {
        let is_time = || self.task.trouble.storm_ns().is_some_and(|at_ns| now_ns >= at_ns);
        if self.doomed.is_none() && is_time() {
            let taken =
                |&slot: &u32| matches!(self.task.role(slot), Role::Vanishing | Role::Returning);
            let mut doomed: Vec<u32> = (0..self.task.listeners).filter(taken).collect();
            // In any order, so that those who vanish and those who come back go together.
            doomed.sort_unstable_by_key(|&slot| mix(slot.into()));
            self.doomed = Some(doomed);
        }
        for _ in 0..RESETS_PER_TURN {
            let Some(slot) = self.doomed.as_mut().and_then(Vec::pop) else { return };
            self.reset(slot);
        }
    }

    /// The storm takes `slot`: an open stream is reset. One that is not open is left as it is.
    fn reset(&mut self, slot: u32) {
        let (role, config) = (self.task.role(slot), &self.task.config);
        let now_ns = clock::monotonic_ns();
        let away = config.storm.map_or(Duration::ZERO, |storm| storm.away);
        let due_ns = now_ns + away.as_nanos() as u64;
        let listener = &mut self.listeners[slot as usize];
        let open = listener.is_open();
        if let Some(socket) = listener.socket.take_if(|_| open) {
            // Fails only on a connection that is broken already.
            let _ = socket::reset_on_close(&socket);
            drop(socket);
            listener.phase = Phase::Offline;
            listener.returning = role == Role::Returning;
            let resumes = listener.returning && config.resume;
            listener.due = resumes.then(|| Moment::at(due_ns));
            self.tally.of(role).reset += 1;
        }
        self.task.trouble.resets.step(now_ns);
        if listener.returning {
            self.back.push_back((due_ns, slot));
        } else if role == Role::Returning {
            self.task.trouble.returns.step(now_ns);
        }
    }

    /// Begins connections that are due, as many as a turn and the limit of open ends allow.
    fn begin_due(&mut self, now_ns: u64) {
        for _ in 0..BEGUN_PER_TURN {
            if self.opening >= self.opening_max {
                return;
            }
            let Some(slot) = self.next_to_begin(now_ns) else { return };
            self.begin(slot, now_ns / 1_000_000);
        }
    }

    /// Whoever comes back from the storm is in a hurry; the others keep the pace.
    fn next_to_begin(&mut self, now_ns: u64) -> Option<u32> {
        if let Some((_, slot)) = self.back.pop_front_if(|&mut (due_ns, _)| due_ns <= now_ns) {
            return Some(slot);
        }
        let again = self.again.front().filter(|&&(due_ms, _)| due_ms <= now_ns / 1_000_000);
        let slot = match again {
            Some(&(_, slot)) => slot,
            None if self.next < self.task.listeners => self.next,
            None => return None,
        };
        let is_again = again.is_some();
        if !self.pace.take(now_ns) {
            return None;
        }
        if is_again {
            self.again.pop_front();
        } else {
            self.next += 1;
        }
        Some(slot)
    }

    fn begin(&mut self, slot: u32, now_ms: u64) {
        let role = self.task.role(slot);
        self.tally.of(role).begun += 1;
        self.opening += 1;
        let listener = &mut self.listeners[slot as usize];
        listener.attempt = listener.attempt.wrapping_add(1);
        let token = u64::from(listener.attempt) << 32 | u64::from(slot);
        match socket::connect_from(self.task.source(slot), self.task.target.address) {
            Err(error) => self.over(slot, Outcome::failed(&error)),
            Ok(socket) => {
                if let (Role::Slow, bytes @ 1..) = (role, self.task.config.slow_buffer_bytes) {
                    // Only a wish: with the default buffer the server notices later.
                    let _ = socket::set_receive_buffer(&socket, bytes);
                }
                let added = self.epoll.add_stream(&socket, token);
                listener.socket = Some(socket);
                listener.phase = Phase::Connecting;
                let attempt = listener.attempt;
                let timeout_ms = self.task.config.open_timeout.as_millis() as u64;
                self.begun.push_back(Begun { slot, attempt, deadline_ms: now_ms + timeout_ms });
                if let Err(error) = added {
                    self.over(slot, Outcome::failed(&error));
                }
            }
        }
    }

    /// The connection is made, or it could not be.
    fn connected(&mut self, slot: u32) {
        let listener = &mut self.listeners[slot as usize];
        let Some(socket) = &listener.socket else {
            return;
        };
        if let Ok(Some(error)) | Err(error) = socket::connect_error(socket) {
            return self.over(slot, Outcome::failed(&error));
        }
        if !self.task.config.resume {
            listener.cursor = None;
        } else if listener.attempt > 1 {
            self.came_back_ms.insert(slot, clock::monotonic_ms() as u32);
        }
        self.task.request(slot, listener.cursor, &mut self.request);
        // A few hundred bytes fit into the empty buffer of a new socket, or nothing does.
        match socket::send(socket, &self.request) {
            Ok(len) if len == self.request.len() => listener.phase = Phase::Head(None),
            Ok(_) => self.over(slot, Outcome::failed(&io::ErrorKind::WriteZero.into())),
            Err(error) => self.over(slot, Outcome::failed(&error)),
        }
    }

    /// Reads what there is. After a short read there was no more, and whatever comes later is
    /// reported anew; only after a hang-up the end itself must still be read.
    fn readable(&mut self, slot: u32, hung_up: bool) {
        let role = self.task.role(slot);
        let (transport, resumes) = (self.task.config.transport, self.task.config.resume);
        if role == Role::Slow {
            self.stop_reading(slot);
        }
        let listener = &mut self.listeners[slot as usize];
        if matches!(listener.phase, Phase::Deaf) && !hung_up {
            return;
        }
        loop {
            let listener = &mut self.listeners[slot as usize];
            let Some(socket) = &listener.socket else {
                return;
            };
            let read = socket::receive(socket, &mut self.buffer);
            let now_ns = clock::monotonic_ns();
            let was_open = listener.is_open();
            let outcome = match read {
                Ok(0) if was_open => Outcome::Closed(listener.end_of_connection()),
                Ok(0) => Outcome::failed(&io::ErrorKind::ConnectionReset.into()),
                Ok(len) => {
                    self.tally.of(role).bytes += len as u64;
                    let came_back = resumes.then(|| self.came_back_ms.get(&slot)).flatten();
                    let came_back_ms = came_back.copied();
                    let arrival = Arrival { slot, role, transport, now_ns, resumes, came_back_ms };
                    listener.read(arrival, &self.buffer[..len], &mut self.tally)
                }
                Err(ref error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if was_open => Outcome::Closed(Closure::Reset),
                Err(ref error) => Outcome::failed(error),
            };
            if let Some(reply) = listener.take_reply() {
                self.reply(slot, &reply, now_ns);
            }
            if !was_open && self.listeners[slot as usize].is_open() {
                self.opened(slot, role, now_ns);
            }
            match outcome {
                Outcome::On => {}
                Outcome::Answered => self.poll_on(slot),
                Outcome::Failed(..) | Outcome::Closed(_) => return self.over(slot, outcome),
            }
            if matches!(read, Ok(len) if len < BUFFER_BYTES) && !hung_up {
                return;
            }
        }
    }

    /// Answers a ping, or the close frame.
    fn reply(&mut self, slot: u32, reply: &Reply, now_ns: u64) {
        self.request.clear();
        push_reply(reply, (mix(now_ns) as u32).to_ne_bytes(), &mut self.request);
        self.send_request(slot);
    }

    /// Sends the next poll.
    fn poll_on(&mut self, slot: u32) {
        let cursor = self.listeners[slot as usize].cursor;
        self.task.poll(slot, false, cursor, &mut self.request);
        self.send_request(slot);
    }

    /// Asks where the stream of a WebSocket stands, which SSE says by itself.
    fn ask_position(&mut self, slot: u32, now_ns: u64) {
        self.request.clear();
        push_text("{\"ping\":1}", (mix(now_ns) as u32).to_ne_bytes(), &mut self.request);
        self.send_request(slot);
    }

    /// Sends something short on an open stream. Where there is no room for it the server does not
    /// read, and would not miss it; a connection that is broken shows when it is read.
    fn send_request(&self, slot: u32) {
        if let Some(socket) = &self.listeners[slot as usize].socket {
            let _ = socket::send(socket, &self.request);
        }
    }

    /// The stream of `slot` has opened.
    fn opened(&mut self, slot: u32, role: Role, now_ns: u64) {
        self.opening -= 1;
        let totals = self.tally.of(role);
        totals.opened += 1;
        totals.opened_after_ns = now_ns - self.pace.start_ns;
        let listener = &mut self.listeners[slot as usize];
        if listener.attempt == 1 {
            self.task.trouble.tried.step(now_ns);
        }
        if std::mem::take(&mut listener.returning) {
            totals.returned += 1;
            self.task.trouble.returns.step(now_ns);
        }
        let config = &self.task.config;
        // The answer tells one where its stream begins, and one that comes back that it has heard
        // what it missed, be it nothing.
        let asks = config.resume && (listener.cursor.is_none() || listener.due.is_some());
        if asks && config.transport == Transport::WebSocket {
            self.ask_position(slot, now_ns);
        }
        if role == Role::Slow {
            self.stop_reading(slot);
        }
    }

    /// A slow listener whose time has come reads its open stream no more.
    fn stop_reading(&mut self, slot: u32) {
        let is_time =
            self.task.trouble.slow_ns().is_some_and(|at_ns| clock::monotonic_ns() >= at_ns);
        let listener = &mut self.listeners[slot as usize];
        if is_time && listener.is_open() {
            listener.phase = Phase::Deaf;
        }
    }

    /// The connection of `slot` is over.
    fn over(&mut self, slot: u32, outcome: Outcome) {
        let (role, now_ns) = (self.task.role(slot), clock::monotonic_ns());
        let trouble = &self.task.trouble;
        let listener = &mut self.listeners[slot as usize];
        let was_deaf = matches!(listener.phase, Phase::Deaf);
        listener.socket = None;
        listener.phase = Phase::Offline;
        let first = listener.attempt == 1;
        if role == Role::Slow && first {
            trouble.endings.step(now_ns);
        }
        match outcome {
            Outcome::Failed(reason, words) => {
                if first {
                    trouble.tried.step(now_ns);
                }
                self.tally.failure(role, reason, || words);
                self.opening -= 1;
            }
            Outcome::Closed(reason) => {
                if was_deaf {
                    let now_ms = (now_ns / 1_000_000) as u32;
                    let open_ns = u64::from(now_ms.wrapping_sub(listener.opened_ms)) * 1_000_000;
                    let since_ns = now_ns.saturating_sub(trouble.slow_ns().unwrap_or(now_ns));
                    self.tally.slow_lasted(open_ns.min(since_ns));
                }
                self.tally.closure(role, reason);
            }
            Outcome::On | Outcome::Answered => unreachable!("that is no end"),
        }
        if self.task.config.reconnect || listener.returning {
            self.again.push_back((now_ns / 1_000_000 + RECONNECT_AFTER_MS, slot));
        }
    }

    /// Gives up what has not opened in time.
    fn expire(&mut self, now_ms: u64) {
        while let Some(&Begun { slot, attempt, deadline_ms }) = self.begun.front() {
            let listener = &self.listeners[slot as usize];
            let opening = matches!(listener.phase, Phase::Connecting | Phase::Head(_));
            let waiting = opening && listener.attempt == attempt;
            if waiting && now_ms < deadline_ms {
                return;
            }
            self.begun.pop_front();
            if waiting {
                self.over(slot, Outcome::failed(&io::ErrorKind::TimedOut.into()));
            }
        }
    }
}

impl Outcome {
    fn failed(error: &io::Error) -> Outcome {
        Outcome::Failed(Failure::of(error), error.to_string())
    }
}
