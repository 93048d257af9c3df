//! What clients publish to rooms of ten, beside what an application sends to the same.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use figures::latency::Latencies;
use sys::clock;

use crate::crowd::Crowd;
use crate::harness::Server;
use crate::{Outcome, Plan, ROOM};

/// Clients who have published and are not answered yet, flat out: more than the server's turns
/// need, and fewer than there are rooms.
const AT_ONCE: usize = 256;

/// Connections of the application.
const SENDERS: usize = 64;

/// The longest wait for what was sent.
const ARRIVAL_NS: u64 = 10_000_000_000;

/// What stands before the time in an event, and its digits.
const BEFORE_TIME: &[u8] = b"\"data\":\"";
const TIME_DIGITS: usize = 20;

/// What came of it.
#[derive(Default)]
struct Run {
    sent: u64,
    heard: u64,
    refused: u64,
    latencies: Latencies,
}

/// All clients, each in its room.
struct Publishers {
    crowd: Crowd,
    /// Who may publish next: it was answered.
    free: VecDeque<usize>,
    run: Run,
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let server = Server::start(&["--client-send", "--client-send-rate=0"]);
    let mut crowd = Crowd::new(server.listen())?;
    for client in 0..plan.clients {
        crowd.join(&format!("/stream/room:{}", client / ROOM))?;
    }
    let free = (0..plan.clients).collect();
    let mut publishers = Publishers { crowd, free, run: Run::default() };
    publishers.publish(plan.seconds.min(1.0), None)?;
    let cpu = clock::process_cpu_of(server.pid())?;
    let flat = publishers.publish(plan.seconds, None)?;
    let flat_us = us_a_send(&server, cpu, &flat)?;
    let rate = flat.sent as f64 / plan.seconds;
    println!("publish: {} clients in rooms of {ROOM}", plan.clients);
    println!("  flat: {rate:.0} sends/s, {:.0} deliveries/s", flat.heard as f64 / plan.seconds);
    println!("  flat: {flat_us:.1} µs of the server a send");
    let cpu = clock::process_cpu_of(server.pid())?;
    let half = publishers.publish(plan.seconds, Some(rate / 2.0))?;
    let half_us = us_a_send(&server, cpu, &half)?;
    let heard = half.latencies.quantiles();
    println!(
        "  at half: {:.0} sends/s, {half_us:.1} µs of the server a send, heard p50 {:.2} ms, p99 \
         {:.2} ms",
        half.sent as f64 / plan.seconds,
        heard.p50_ms,
        heard.p99_ms
    );
    let cpu = clock::process_cpu_of(server.pid())?;
    let sent = publishers.beside_api(&server, plan)?;
    let api_us = us_a_send(&server, cpu, &sent)?;
    println!(
        "  by the API, {SENDERS} connections: {:.0} sends/s, {:.0} deliveries/s, {api_us:.1} µs of \
         the server a send",
        sent.sent as f64 / plan.seconds,
        sent.heard as f64 / plan.seconds
    );
    println!("  a client's send takes {:.2} of an API's", flat_us / api_us);
    Ok(())
}

fn us_a_send(server: &Server, before: Duration, run: &Run) -> Outcome<f64> {
    let cpu = clock::process_cpu_of(server.pid())? - before;
    Ok(cpu.as_nanos() as f64 / 1e3 / run.sent as f64)
}

impl Publishers {
    /// Publishes for `seconds`, at `rate` or flat out; each event has to be heard by all others of
    /// its room.
    fn publish(&mut self, seconds: f64, rate: Option<f64>) -> Outcome<Run> {
        let start_ns = clock::monotonic_ns();
        let end_ns = start_ns + (seconds * 1e9) as u64;
        loop {
            let now_ns = clock::monotonic_ns();
            let due = match rate {
                Some(rate) => ((now_ns - start_ns) as f64 / 1e9 * rate) as u64,
                None => self.run.sent + AT_ONCE.saturating_sub(self.waiting()) as u64,
            };
            while now_ns < end_ns && self.run.sent < due {
                let Some(client) = self.free.pop_front() else { break };
                let due_ns = match rate {
                    Some(rate) => start_ns + (self.run.sent as f64 / rate * 1e9) as u64,
                    None => now_ns,
                };
                let send = format!(
                    "{{\"send\":{{\"about\":\"room:{}\",\"data\":\"{due_ns:020}{:x<78}\"}},\
                     \"ref\":1}}",
                    client / ROOM,
                    ""
                );
                self.crowd.say(client, &send)?;
                self.run.sent += 1;
            }
            let is_all = self.run.heard == self.run.sent * (ROOM as u64 - 1);
            if now_ns >= end_ns && (is_all && self.waiting() == 0) {
                break;
            }
            if now_ns > end_ns + ARRIVAL_NS {
                return Err(format!("{} of {} sends", self.run.heard, self.run.sent).into());
            }
            self.hear(if rate.is_some() { 200_000 } else { 5_000_000 })?;
        }
        self.finish()
    }

    /// How many have published and are not answered.
    fn waiting(&self) -> usize {
        self.all() - self.free.len()
    }

    fn all(&self) -> usize {
        self.crowd.len()
    }

    fn hear(&mut self, wait_ns: u64) -> Outcome<()> {
        let Publishers { crowd, free, run } = self;
        crowd.hear(wait_ns, |client, message| {
            if message.starts_with(b"{\"id\"") {
                run.heard += 1;
                if let Some(at) = memchr::memmem::find(message, BEFORE_TIME) {
                    let digits = &message[at + BEFORE_TIME.len()..][..TIME_DIGITS];
                    let due_ns = str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
                    let due_ns: u64 = due_ns.unwrap_or_default();
                    run.latencies.record(clock::monotonic_ns().saturating_sub(due_ns));
                }
            } else {
                run.refused += u64::from(!message.starts_with(b"{\"ok\""));
                free.push_back(client);
            }
        })
    }

    fn finish(&mut self) -> Outcome<Run> {
        match std::mem::take(&mut self.run) {
            run if run.refused == 0 => Ok(run),
            run => Err(format!("{} sends were refused", run.refused).into()),
        }
    }

    /// Hears what an application sends to the rooms, each of its connections as soon as it is
    /// answered. All ten of a room hear it, which is one more than of a client's.
    fn beside_api(&mut self, server: &Server, plan: &Plan) -> Outcome<Run> {
        let (is_over, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (api, rooms) = (server.api.address(), plan.clients.div_ceil(ROOM));
        let senders: Vec<_> = (0..SENDERS)
            .map(|first| {
                let (is_over, sent) = (Arc::clone(&is_over), Arc::clone(&sent));
                thread::spawn(move || -> std::io::Result<()> {
                    let mut socket = TcpStream::connect(api)?;
                    socket.set_nodelay(true)?;
                    let mut buffer = [0; 4096];
                    let mut room = first;
                    while !is_over.load(Ordering::Relaxed) {
                        room = (room + SENDERS) % rooms;
                        let body = format!(
                            "{{\"about\":\"room:{room}\",\"data\":\"{:020}{:x<78}\"}}",
                            clock::monotonic_ns(),
                            ""
                        );
                        let head = format!(
                            "POST /send HTTP/1.1\r\nHost: localhost\r\n\
                             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                            body.len()
                        );
                        socket.write_all((head + &body).as_bytes())?;
                        // An answer comes whole: it is shorter than a segment.
                        let read = socket.read(&mut buffer)?;
                        assert!(buffer[..read].starts_with(b"HTTP/1.1 200"), "a send was refused");
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let end_ns = clock::monotonic_ns() + (plan.seconds * 1e9) as u64;
        while clock::monotonic_ns() < end_ns {
            self.hear(5_000_000)?;
        }
        is_over.store(true, Ordering::Relaxed);
        for sender in senders {
            sender.join().map_err(|_| "a sender failed")??;
        }
        self.run.sent = sent.load(Ordering::Relaxed);
        while self.run.heard < self.run.sent * ROOM as u64 {
            if clock::monotonic_ns() > end_ns + ARRIVAL_NS {
                return Err(format!("{} of {} sends", self.run.heard, self.run.sent).into());
            }
            self.hear(5_000_000)?;
        }
        self.finish()
    }
}
