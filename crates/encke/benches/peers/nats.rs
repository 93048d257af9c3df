//! Subscribers of NATS over plain TCP (docs.nats.io, "Client Protocol"): one thread, one epoll, and
//! a connection with one subscription for each.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use figures::latency::Latencies;
use load::stamp::StampFinder;
use memchr::memchr;
use sys::epoll::{Epoll, Events};
use sys::{clock, socket};

use crate::Outcome;
use crate::listeners::{Heard, Load};

/// The answer to a `PING`, either way.
pub(crate) const PONG: &[u8] = b"PONG\r\n";

/// How long a server may take to answer a new client.
const HELLO_MAX: Duration = Duration::from_secs(10);

/// Subscribers at work, in a thread that ends with the process.
pub(crate) struct Subscribers {
    online: u64,
    counts: Arc<Mutex<Counts>>,
    earlier: Heard,
}

#[derive(Default)]
struct Counts {
    events: u64,
    /// Since somebody asked last.
    latencies: Latencies,
    cpu_us: f64,
}

struct Subscriber {
    socket: OwnedFd,
    /// What came of a message that is not whole.
    partial: Vec<u8>,
}

/// A connection that says hello and `then`, and hears that both were taken.
pub(crate) fn connect(address: SocketAddr, then: &str) -> io::Result<OwnedFd> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO_MAX))?;
    let hello = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";
    stream.write_all(format!("{hello}{then}PING\r\n").as_bytes())?;
    let mut answer = Vec::new();
    while !answer.ends_with(PONG) {
        let mut piece = [0; 4096];
        match stream.read(&mut piece)? {
            0 => return Err(io::Error::other("the server has ended a new connection")),
            len => answer.extend_from_slice(&piece[..len]),
        }
    }
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}

impl Subscribers {
    /// Connects and subscribes one after the other, and then listens.
    pub(crate) fn start(address: SocketAddr, users: u32) -> Outcome<Subscribers> {
        sys::limits::raise_descriptors()?;
        let epoll = Epoll::new()?;
        let mut subscribers = Vec::new();
        for user in 0..users {
            let socket = connect(address, &format!("SUB s.{user} 1\r\n"))?;
            epoll.add_stream(&socket, user.into())?;
            subscribers.push(Subscriber { socket, partial: Vec::new() });
        }
        let counts = Arc::<Mutex<Counts>>::default();
        let shared = Arc::clone(&counts);
        thread::spawn(move || {
            let error = listen(&epoll, &mut subscribers, &shared).err();
            // Who waits for what is heard would wait in vain.
            eprintln!("the subscribers end: {error:?}");
            std::process::exit(1);
        });
        Ok(Subscribers { online: users.into(), counts, earlier: Heard::default() })
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(epoll: &Epoll, subscribers: &mut [Subscriber], counts: &Mutex<Counts>) -> Outcome<()> {
    let (mut events, mut buffer) = (Events::with_capacity(1024), vec![0; 64 * 1024]);
    let (finder, mut latencies_ns) = (StampFinder::default(), Vec::new());
    loop {
        epoll.wait(&mut events, None)?;
        for event in events.iter().filter(|event| event.readable()) {
            let Subscriber { socket, partial } = &mut subscribers[event.token as usize];
            let bytes = match socket::receive(socket, &mut buffer) {
                Ok(0) => return Err("the server has ended a subscription".into()),
                Ok(len) => &buffer[..len],
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            partial.extend_from_slice(bytes);
            let (now_ns, mut at) = (clock::monotonic_ns(), 0);
            while let Some(Message { line, payload, len }) = message(&partial[at..])? {
                if line == b"PING" {
                    // There is room: nothing else is sent.
                    socket::send(socket, PONG)?;
                }
                let stamp = finder.find(payload);
                latencies_ns.extend(stamp.map(|s| now_ns.saturating_sub(s.intended_ns)));
                at += len;
            }
            partial.drain(..at);
        }
        let mut counts = lock(counts);
        counts.events += latencies_ns.len() as u64;
        latencies_ns.drain(..).for_each(|ns| counts.latencies.record(ns));
        counts.cpu_us = clock::thread_cpu().as_nanos() as f64 / 1e3;
    }
}

/// What the server says.
struct Message<'b> {
    line: &'b [u8],
    payload: &'b [u8],
    /// Bytes of both, line ends included.
    len: usize,
}

/// What `bytes` begin with; `None` when it is not all there yet.
fn message(bytes: &[u8]) -> Outcome<Option<Message<'_>>> {
    let Some(end) = memchr(b'\n', bytes) else { return Ok(None) };
    let line = bytes[..end].trim_ascii_end();
    if line.starts_with(b"-ERR") {
        return Err(String::from_utf8_lossy(line).into());
    }
    if !line.starts_with(b"MSG ") {
        return Ok(Some(Message { line, payload: b"", len: end + 1 }));
    }
    let size = line.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    let size: usize = std::str::from_utf8(size)?.parse()?;
    let len = end + 1 + size + b"\r\n".len();
    let whole = || Message { line, payload: &bytes[end + 1..end + 1 + size], len };
    Ok((bytes.len() >= len).then(whole))
}

impl Load for Subscribers {
    fn await_online(&self, users: u64) -> Outcome<()> {
        // Each was answered as it began.
        (self.online == users).then_some(()).ok_or_else(|| "not all are online".into())
    }

    fn await_events(&self, events: u64, time: Duration) {
        let end = Instant::now() + time;
        while lock(&self.counts).events < events && Instant::now() < end {
            thread::park_timeout(Duration::from_millis(2));
        }
    }

    fn heard(&mut self) -> Heard {
        let mut counts = lock(&self.counts);
        let latency = counts.latencies.quantiles();
        counts.latencies.clear();
        let earlier = self.earlier;
        self.earlier = Heard { events: counts.events, cpu_us: counts.cpu_us, ..Heard::default() };
        self.earlier.since(&earlier, latency)
    }
}
