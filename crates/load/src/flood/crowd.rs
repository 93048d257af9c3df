//! One thread of the crowd: an epoll loop over its share of the listeners.
//!
//! A turn: begin connections that are due, wait, read what can be read (one recv(2) for each
//! connection, into the thread's one buffer), publish the counts. Once all are online, a silent
//! crowd costs nothing but a wake-up a second.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proto::Transport;
use sys::epoll::{Epoll, Events};
use sys::waker::Waker;
use sys::{clock, socket, table};

use crate::flood::listener::{Listener, Outcome, Phase};
use crate::flood::tally::{Board, Tally};
use crate::flood::{Closure, Failure, FloodConfig};
use crate::target::Target;

const BUFFER_BYTES: usize = 64 * 1024;
const REPORTS_PER_TURN: usize = 1024;
/// Connections begun before the loop looks at the others again.
const BEGUN_PER_TURN: u64 = 64;
const WAIT_MS_MAX: u64 = 1_000;
/// A listener that lost its stream, or did not get one, comes back after this.
const RECONNECT_AFTER_MS: u64 = 1_000;
/// Receive buffer of listeners that do not read: small, so that the server soon notices.
const DEAF_BUFFER_BYTES: usize = 4_096;
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

/// What a thread of the crowd is to do.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) config: Arc<FloodConfig>,
    pub(super) target: Arc<Target>,
    pub(super) sources: Arc<[IpAddr]>,
    pub(super) thread: u32,
    pub(super) threads: u32,
    /// Listeners of this thread.
    pub(super) listeners: u32,
    pub(super) streams_max: usize,
}

/// Runs the thread until its time is over or it is told to stop.
pub(super) fn run(task: Task, link: &Link) -> io::Result<()> {
    // Where the table cannot be private (a container may forbid it), the crowd still works, within
    // the limit of the one table; a full one is counted as such.
    let _ = table::make_private(&[&link.waker]);
    let mut crowd = Crowd::new(task)?;
    crowd.epoll.add_edges(&link.waker, WAKER_TOKEN)?;
    let result = crowd.run(link);
    crowd.tally.totals.cpu_ns = clock::thread_cpu().as_nanos() as u64;
    crowd.tally.publish(&link.board);
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
            pace: Pace { rate, start_ns: clock::monotonic_ns(), begun: 0 },
            opening: 0,
            opening_max: config.opening_max.div_ceil(task.threads),
            begun: VecDeque::new(),
            again: VecDeque::new(),
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
            self.tally.totals.cpu_ns = clock::thread_cpu().as_nanos() as u64;
            self.tally.publish(&link.board);
        }
        Ok(())
    }

    /// How long the loop may sleep, seen from `now_ns`.
    fn wait_ms(&self, now_ns: u64) -> u64 {
        let may_begin = self.opening < self.opening_max;
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
        next_ms.min(again_ms).min(WAIT_MS_MAX)
    }

    /// Begins connections that are due, as many as a turn and the limit of open ends allow.
    fn begin_due(&mut self, now_ns: u64) {
        let now_ms = now_ns / 1_000_000;
        let due = self.pace.due(now_ns).min(BEGUN_PER_TURN);
        for _ in 0..due {
            if self.opening >= self.opening_max {
                return;
            }
            let slot = match self.again.front() {
                Some(&(due_ms, slot)) if due_ms <= now_ms => {
                    self.again.pop_front();
                    slot
                }
                _ if self.next < self.task.listeners => {
                    self.next += 1;
                    self.next - 1
                }
                _ => return,
            };
            self.pace.begun += 1;
            self.begin(slot, now_ms);
        }
    }

    fn begin(&mut self, slot: u32, now_ms: u64) {
        let index = self.task.index(slot);
        let sources = &self.task.sources;
        let source = (!sources.is_empty()).then(|| sources[index as usize % sources.len()]);
        self.tally.totals.begun += 1;
        self.opening += 1;
        let listener = &mut self.listeners[slot as usize];
        listener.attempt = listener.attempt.wrapping_add(1);
        let token = u64::from(listener.attempt) << 32 | u64::from(slot);
        match socket::connect_from(source, self.task.target.address) {
            Err(error) => self.over(slot, Outcome::failed(&error)),
            Ok(socket) => {
                if self.task.is_deaf(index) {
                    // Only a wish: with the default buffer the server notices later.
                    let _ = socket::set_receive_buffer(&socket, DEAF_BUFFER_BYTES);
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
        self.task.request(slot, &mut self.request);
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
        let listener = &mut self.listeners[slot as usize];
        if matches!(listener.phase, Phase::Deaf) && !hung_up {
            return;
        }
        let transport = self.task.config.transport;
        loop {
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
                    self.tally.totals.bytes += len as u64;
                    let bytes = &self.buffer[..len];
                    listener.read(slot, bytes, transport, now_ns, &mut self.tally)
                }
                Err(ref error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) if was_open => Outcome::Closed(Closure::Reset),
                Err(ref error) => Outcome::failed(error),
            };
            if !was_open && listener.is_open() {
                self.opening -= 1;
                self.tally.totals.opened += 1;
                self.tally.totals.opened_after_ns = now_ns - self.pace.start_ns;
                if self.task.is_deaf(self.task.index(slot)) {
                    listener.phase = Phase::Deaf;
                }
            }
            if outcome != Outcome::On {
                return self.over(slot, outcome);
            }
            if matches!(read, Ok(len) if len < BUFFER_BYTES) && !hung_up {
                return;
            }
        }
    }

    /// The connection of `slot` is over.
    fn over(&mut self, slot: u32, outcome: Outcome) {
        let listener = &mut self.listeners[slot as usize];
        listener.socket = None;
        listener.phase = Phase::Offline;
        match outcome {
            Outcome::Failed(reason, words) => {
                self.tally.failure(reason, || words);
                self.opening -= 1;
            }
            Outcome::Closed(reason) => self.tally.closure(reason),
            Outcome::On => unreachable!("that is no end"),
        }
        if self.task.config.reconnect {
            self.again.push_back((clock::monotonic_ms() + RECONNECT_AFTER_MS, slot));
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

impl Task {
    /// The number of the listener in the whole crowd.
    fn index(&self, slot: u32) -> u32 {
        slot * self.threads + self.thread
    }

    /// Whether the listener is one of those that do not read: they are spread evenly.
    fn is_deaf(&self, index: u32) -> bool {
        let before = |count: u32| (f64::from(count) * self.config.slow) as u32;
        before(index + 1) > before(index)
    }

    fn request(&self, slot: u32, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(b"GET ");
        let id = self.config.first_id + u64::from(self.index(slot));
        self.target.push_path(id, out);
        out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        out.extend_from_slice(self.target.host.as_bytes());
        out.extend_from_slice(match self.config.transport {
            Transport::Sse => b"\r\nAccept: text/event-stream\r\n\r\n".as_slice(),
            Transport::Ndjson => b"\r\nAccept: application/x-ndjson\r\n\r\n",
            Transport::Classic => b"\r\nAccept: text/html\r\n\r\n",
        });
    }
}

/// The rate at which connections begin.
struct Pace {
    /// A second; 0 is without limit.
    rate: f64,
    start_ns: u64,
    begun: u64,
}

impl Pace {
    /// How many may begin now.
    fn due(&self, now_ns: u64) -> u64 {
        if self.rate == 0.0 {
            return u64::MAX;
        }
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(self.start_ns)).as_secs_f64();
        ((elapsed * self.rate) as u64 + 1).saturating_sub(self.begun)
    }

    /// Milliseconds until the next may begin.
    fn wait_ms(&self, now_ns: u64) -> u64 {
        if self.due(now_ns) > 0 {
            return 0;
        }
        let due_ns = self.start_ns + (self.begun as f64 / self.rate * 1e9) as u64;
        due_ns.saturating_sub(now_ns).div_ceil(1_000_000)
    }
}
