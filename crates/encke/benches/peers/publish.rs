//! The publishers: one thread, one epoll, a connection for each, and never more than one event on
//! its way on any of them. So they cost little, and are not what is measured.

use std::collections::VecDeque;
use std::io::{self, BufRead as _};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use figures::latency::Latencies;
use load::stamp::{RunName, STAMP_LEN, Stamp};
use serde::{Deserialize, Serialize};
use sys::epoll::{Epoll, Events};
use sys::{clock, socket};

use crate::wire::Wire;
use crate::{Outcome, PAYLOAD_BYTES};

/// How long after the time of a row events may go out that were due in it, and how long the last
/// answers may then take.
const BEHIND_NS_MAX: u64 = 10_000_000_000;

/// What a process of publishers is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) wire: Wire,
    pub(crate) address: SocketAddr,
    pub(crate) publishers: usize,
    /// Events are about so many ids, chosen at random.
    pub(crate) ids: u64,
    /// Whether each id has one event alone: behind the last one it is over.
    pub(crate) is_each_once: bool,
    /// Events a second, over all publishers; without it each sends as soon as it is answered.
    pub(crate) rate: Option<f64>,
    pub(crate) seconds: f64,
    pub(crate) seed: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Published {
    /// Events sent; all of them were answered.
    pub(crate) sent: u64,
    /// Those of them whose answer came within the time, and was a good one.
    pub(crate) in_time: u64,
    /// How long it took to send: what the order says, or up to the last answer if each id had its
    /// event by then.
    pub(crate) seconds: f64,
    /// Those whose answer was no good one.
    pub(crate) refused: u64,
    /// From when an event was due (at a rate), or sent, to its answer.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Processor time of the publishers.
    pub(crate) cpu_us: f64,
}

/// Carries out an order: connects, says so, waits for a line, sends, and prints what came of it.
pub(crate) fn run(order: &Order) -> Outcome<()> {
    // Or every time-out comes 50 µs late.
    clock::set_timer_slack(1)?;
    let mut crew = Crew::connect(order)?;
    println!("ready");
    io::stdin().lock().read_line(&mut String::new())?;
    let cpu = clock::process_cpu();
    crew.send_all()?;
    let cpu_us = (clock::process_cpu() - cpu).as_nanos() as f64 / 1e3;
    let latencies = crew.latencies.quantiles();
    let published = Published {
        sent: crew.sent,
        in_time: crew.in_time,
        seconds: crew.seconds(),
        refused: crew.refused,
        p50_us: latencies.p50_ms * 1e3,
        p99_us: latencies.p99_ms * 1e3,
        cpu_us,
    };
    println!("{}", serde_json::to_string(&published)?);
    Ok(())
}

/// All publishers of the process.
struct Crew<'o> {
    order: &'o Order,
    epoll: Epoll,
    publishers: Vec<Publisher>,
    /// Those that wait for an event to be due, longest first.
    free: VecDeque<usize>,
    run: RunName,
    /// How many events there were about each id.
    numbers: Vec<u32>,
    /// The ids that have no event yet, if each has one alone.
    left: Vec<u64>,
    random: fastrand::Rng,
    start_ns: u64,
    /// When the last answer came.
    last_ns: u64,
    sent: u64,
    in_time: u64,
    refused: u64,
    latencies: Latencies,
    payload: Vec<u8>,
    request: Vec<u8>,
}

struct Publisher {
    socket: OwnedFd,
    /// When the event on its way was due.
    due_ns: u64,
    /// What came of an answer that is not whole.
    partial: Vec<u8>,
}

impl Crew<'_> {
    fn connect(order: &Order) -> Outcome<Crew<'_>> {
        let epoll = Epoll::new()?;
        let mut publishers = Vec::new();
        for token in 0..order.publishers {
            let socket = order.wire.connect(order.address)?;
            epoll.add_stream(&socket, token as u64)?;
            publishers.push(Publisher { socket, due_ns: 0, partial: Vec::new() });
        }
        let mut random = fastrand::Rng::with_seed(order.seed);
        let mut left: Vec<u64> = (0..order.ids).filter(|_| order.is_each_once).collect();
        random.shuffle(&mut left);
        Ok(Crew {
            order,
            epoll,
            free: (0..publishers.len()).collect(),
            publishers,
            run: RunName::new(clock::monotonic_ns()),
            numbers: vec![0; order.ids as usize],
            left,
            random,
            start_ns: 0,
            last_ns: 0,
            sent: 0,
            in_time: 0,
            refused: 0,
            latencies: Latencies::default(),
            payload: Vec::new(),
            request: Vec::new(),
        })
    }

    fn send_all(&mut self) -> Outcome<()> {
        self.start_ns = clock::monotonic_ns();
        let end_ns = self.start_ns + (self.order.seconds * 1e9) as u64;
        let mut events = Events::with_capacity(self.publishers.len());
        let last_ns = end_ns + BEHIND_NS_MAX;
        loop {
            let now_ns = clock::monotonic_ns();
            let mut next_ns = self.due_ns(now_ns);
            let is_over = now_ns >= last_ns;
            while next_ns <= now_ns && next_ns < end_ns && !is_over && !self.is_done() {
                let Some(place) = self.free.pop_front() else { break };
                self.send(place, next_ns)?;
                next_ns = self.due_ns(now_ns);
            }
            let is_over = is_over || next_ns >= end_ns || self.is_done();
            if is_over && self.free.len() == self.publishers.len() {
                return Ok(());
            }
            if now_ns > last_ns + BEHIND_NS_MAX {
                return Err("events were not answered for 10 s".into());
            }
            let may_send = !self.free.is_empty() && !is_over;
            let until_ns = if may_send { next_ns } else { last_ns + BEHIND_NS_MAX };
            self.epoll.wait_ns(&mut events, until_ns.saturating_sub(now_ns) + 1)?;
            for event in events.iter().filter(|event| event.readable()) {
                self.read(event.token as usize, end_ns)?;
            }
        }
    }

    /// Whether each id has had its event.
    fn is_done(&self) -> bool {
        self.order.is_each_once && self.left.is_empty()
    }

    /// For how long events were sent.
    fn seconds(&self) -> f64 {
        let took = self.last_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        if self.is_done() { took.min(self.order.seconds) } else { self.order.seconds }
    }

    /// When the next event is due.
    fn due_ns(&self, now_ns: u64) -> u64 {
        match self.order.rate {
            None => now_ns,
            Some(rate) => self.start_ns + (self.sent as f64 / rate * 1e9) as u64,
        }
    }

    fn send(&mut self, place: usize, due_ns: u64) -> Outcome<()> {
        let subject = match self.order.is_each_once {
            true => self.left.pop().ok_or("an id is left for each event")?,
            false => self.random.u64(0..self.order.ids),
        };
        let number = &mut self.numbers[subject as usize];
        *number += 1;
        let stamp =
            Stamp { run: self.run, sender: 0, subject, number: *number, intended_ns: due_ns };
        self.payload.clear();
        self.payload.push(b'"');
        stamp.push(&mut self.payload);
        self.payload.resize(PAYLOAD_BYTES - 1, b'x');
        self.payload.push(b'"');
        self.request.clear();
        self.order.wire.push(subject, &self.payload, &mut self.request);
        let publisher = &mut self.publishers[place];
        publisher.due_ns = due_ns;
        // The one before was answered, so there is room.
        if socket::send(&publisher.socket, &self.request)? != self.request.len() {
            return Err("no room for a request".into());
        }
        self.sent += 1;
        Ok(())
    }

    /// Reads an answer, or what has come of it.
    fn read(&mut self, place: usize, end_ns: u64) -> Outcome<()> {
        let mut buffer = [0; 4096];
        let publisher = &mut self.publishers[place];
        let bytes = match socket::receive(&publisher.socket, &mut buffer) {
            Ok(0) => return Err("the server has closed a publisher's connection".into()),
            Ok(len) => &buffer[..len],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let whole;
        let bytes = if publisher.partial.is_empty() {
            bytes
        } else {
            publisher.partial.extend_from_slice(bytes);
            whole = std::mem::take(&mut publisher.partial);
            &whole
        };
        let Some(answer) = self.order.wire.answer(bytes)? else {
            publisher.partial = bytes.to_vec();
            return Ok(());
        };
        if answer.len != bytes.len() {
            return Err("more than one answer".into());
        }
        let now_ns = clock::monotonic_ns();
        self.latencies.record(now_ns.saturating_sub(publisher.due_ns));
        self.in_time += u64::from(now_ns <= end_ns && answer.is_good);
        self.last_ns = now_ns;
        if !answer.is_good && self.refused == 0 {
            eprintln!("an event was refused: {}", String::from_utf8_lossy(bytes));
        }
        self.refused += u64::from(!answer.is_good);
        self.free.push_back(place);
        Ok(())
    }
}

const _: () = assert!(STAMP_LEN + 2 <= PAYLOAD_BYTES);
