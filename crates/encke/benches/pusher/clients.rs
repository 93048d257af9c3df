//! The clients of one thread of a [crowd](crate::crowd).

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use memchr::memmem::{self, Finder};
use pusher::SocketId;
use serde_json::Value;
use sys::epoll::{Epoll, Events};
use sys::{clock, socket, table};

use crate::Outcome;
use crate::crowd::{Counts, Role};
use crate::frames::{TEXT, message};
use crate::harness::frame;

/// What stands in an event whose time is measured, before and behind the time at which it was due,
/// in nanoseconds and with so many digits.
const MARK: &[u8] = b"@@";
const MARK_DIGITS: usize = 20;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 * 1024;

/// Clients of a thread that are on their way to be online.
const OPENING_MAX: usize = 512;

/// Clients that come from one address of this machine: a small part of its ports. The kernel looks
/// for a free one among every other one first. Where those 14,116 are taken, that search was half
/// of all that server and clients did (`perf record -a`).
const CLIENTS_OF_ADDRESS: usize = 2_000;

/// How long a client stays away for which the server has no place, as pusher-js does.
const FULL_NS: u64 = 1_000_000_000;

/// How long a thread waits for what comes before it looks for orders.
const LOOK_MS: u64 = 1;

/// What a thread is told.
pub(crate) enum Order {
    /// Clients come, from the number `first` to before `last`.
    Open { first: usize, last: usize, over: Duration },
    /// All are cut off.
    Cut(#[expect(dead_code, reason = "dropped when it is done")] mpsc::SyncSender<()>),
    /// How many do not know of so many members?
    Count { members: i64, wrong: mpsc::SyncSender<usize> },
}

/// How far a client has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Connecting,
    /// It waits for the head of the answer.
    Asked,
    /// It waits to be told what it is called.
    Open,
    /// It waits for so many successes.
    Subscribing(usize),
    Ready,
    /// There was no place for it. It comes again.
    Refused,
}

struct Client {
    socket: OwnedFd,
    phase: Phase,
    /// What of a message has come.
    partial: Vec<u8>,
    /// Of its presence channel.
    members: i64,
}

/// Those of one thread.
pub(crate) struct Clients {
    address: SocketAddr,
    role: Role,
    /// Which thread this is, of how many.
    index: usize,
    threads: usize,
    counts: Arc<Counts>,
    epoll: Epoll,
    events: Events,
    buffer: Vec<u8>,
    /// By their place: each has the number `place * threads + index`.
    clients: Vec<Client>,
    /// When the next ones are to come.
    due: VecDeque<u64>,
    /// When those come again that were refused, by their places.
    again: VecDeque<(u64, usize)>,
    opening: usize,
    words: Words,
    took_ns: Vec<u64>,
}

/// What is looked for in each message, made ready once.
struct Words {
    mark: Finder<'static>,
    established: Finder<'static>,
    full: Finder<'static>,
    succeeded: Finder<'static>,
    added: Finder<'static>,
    removed: Finder<'static>,
    error: Finder<'static>,
    count: Finder<'static>,
}

impl Words {
    fn new() -> Words {
        Words {
            mark: Finder::new(MARK),
            established: Finder::new("pusher:connection_established"),
            full: Finder::new("\\\"code\\\":4100"),
            succeeded: Finder::new("pusher_internal:subscription_succeeded"),
            added: Finder::new("pusher_internal:member_added"),
            removed: Finder::new("pusher_internal:member_removed"),
            error: Finder::new("error"),
            count: Finder::new("\\\"count\\\":"),
        }
    }

    /// How many members a success lists, if it is of a presence channel.
    fn members(&self, text: &[u8]) -> Option<i64> {
        let digits = &text[self.count.find(text)? + self.count.needle().len()..];
        let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&digits[..len]).ok()?.parse().ok()
    }
}

impl Clients {
    pub(crate) fn new(
        (address, role): (SocketAddr, Role),
        (index, threads): (usize, usize),
        counts: Arc<Counts>,
    ) -> Outcome<Clients> {
        table::make_private(&[])?;
        Ok(Clients {
            address,
            role,
            index,
            threads,
            counts,
            epoll: Epoll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; READ_BYTES],
            clients: Vec::new(),
            due: VecDeque::new(),
            again: VecDeque::new(),
            opening: 0,
            words: Words::new(),
            took_ns: Vec::new(),
        })
    }

    /// Obeys until nobody is there who could give orders.
    pub(crate) fn run(mut self, orders: &mpsc::Receiver<Order>) -> Outcome<()> {
        loop {
            match orders.try_recv() {
                Ok(order) => self.obey(order)?,
                Err(mpsc::TryRecvError::Disconnected) => return Ok(()),
                Err(mpsc::TryRecvError::Empty) => {}
            }
            self.begin_due()?;
            self.epoll.wait(&mut self.events, Some(LOOK_MS))?;
            for at in 0..self.events.len() {
                if let Some(event) = self.events.at(at) {
                    self.serve(event.token as usize)?;
                }
            }
            self.counts.take_heard(clock::monotonic_ns(), &mut self.took_ns);
        }
    }

    fn obey(&mut self, order: Order) -> Outcome<()> {
        match order {
            Order::Open { first, last, over } => {
                let (now_ns, many) = (clock::monotonic_ns(), (last - first).max(1) as u64);
                let own = (first..last).filter(|number| number % self.threads == self.index);
                let over_ns = over.as_nanos() as u64;
                self.due
                    .extend(own.map(|number| now_ns + over_ns * (number - first) as u64 / many));
            }
            Order::Cut(_) => {
                for client in self.clients.drain(..) {
                    // The server is told nothing but that it is over.
                    socket::reset_on_close(&client.socket)?;
                }
                self.again.clear();
                self.opening = 0;
            }
            Order::Count { members, wrong } => {
                let is_wrong = |client: &&Client| client.members != members;
                wrong.send(self.clients.iter().filter(is_wrong).count())?;
            }
        }
        Ok(())
    }

    fn begin_due(&mut self) -> Outcome<()> {
        let now_ns = clock::monotonic_ns();
        while self.opening < OPENING_MAX
            && self.due.pop_front_if(|due_ns| *due_ns <= now_ns).is_some()
        {
            let client = self.begin(self.clients.len())?;
            self.clients.push(client);
        }
        while self.opening < OPENING_MAX
            && let Some((_, place)) = self.again.pop_front_if(|(due_ns, _)| *due_ns <= now_ns)
        {
            self.clients[place] = self.begin(place)?;
        }
        Ok(())
    }

    /// The client of this place connects.
    fn begin(&mut self, place: usize) -> Outcome<Client> {
        let number = place * self.threads + self.index;
        let [high, low] = u16::try_from(number / CLIENTS_OF_ADDRESS + 1)?.to_be_bytes();
        let from = Ipv4Addr::new(127, 1, high, low);
        let socket = socket::connect_from(Some(IpAddr::V4(from)), self.address)?;
        self.epoll.add_stream(&socket, place as u64)?;
        self.opening += 1;
        let (phase, partial) = (Phase::Connecting, Vec::new());
        Ok(Client { socket, phase, partial, members: 0 })
    }

    fn serve(&mut self, place: usize) -> Outcome<()> {
        let Some(client) = self.clients.get_mut(place) else { return Ok(()) };
        if client.phase == Phase::Connecting {
            if let Some(error) = socket::connect_error(&client.socket)? {
                return Err(format!("client {place}: {error}").into());
            }
            let target = &self.role.target;
            let request = format!(
                "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n\
                 Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            );
            say(&client.socket, request.as_bytes())?;
            client.phase = Phase::Asked;
        }
        while self.clients[place].phase != Phase::Refused {
            match socket::receive(&self.clients[place].socket, &mut self.buffer) {
                Ok(0) => return Err(format!("client {place} was closed").into()),
                Ok(len) => self.read(place, len)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads the first `len` bytes of the buffer.
    fn read(&mut self, place: usize, len: usize) -> Outcome<()> {
        let partial = std::mem::take(&mut self.clients[place].partial);
        // Most messages come whole.
        let buffer = std::mem::take(&mut self.buffer);
        let joined = match partial.is_empty() {
            true => Vec::new(),
            false => [&partial[..], &buffer[..len]].concat(),
        };
        let bytes = if partial.is_empty() { &buffer[..len] } else { &joined[..] };
        let rest = self.read_all(place, bytes)?;
        self.clients[place].partial = rest.to_vec();
        self.buffer = buffer;
        Ok(())
    }

    /// What is left that is not whole.
    fn read_all<'b>(&mut self, place: usize, bytes: &'b [u8]) -> Outcome<&'b [u8]> {
        let mut rest = bytes;
        if self.clients[place].phase == Phase::Asked {
            let Some(end) = memmem::find(rest, b"\r\n\r\n") else { return Ok(rest) };
            // A full server that has not read the request yet answers no WebSocket.
            if rest.starts_with(b"HTTP/1.1 503") {
                self.is_refused(place);
                return Ok(&[]);
            }
            if !rest.starts_with(b"HTTP/1.1 101") {
                return Err(String::from_utf8_lossy(&rest[..end]).into());
            }
            rest = &rest[end + 4..];
            self.clients[place].phase = Phase::Open;
            if self.role.says.is_none() {
                self.is_ready(place);
            }
        }
        while let Some((text, behind)) = message(rest) {
            rest = behind;
            if let Some(text) = text {
                self.hear(place, text)?;
            }
        }
        Ok(rest)
    }

    fn hear(&mut self, place: usize, text: &[u8]) -> Outcome<()> {
        let (client, words) = (&mut self.clients[place], &self.words);
        if let Some(at) = words.mark.find(text) {
            let digits = text.get(at + MARK.len()..at + MARK.len() + MARK_DIGITS);
            let due_ns: u64 =
                std::str::from_utf8(digits.ok_or("a mark without a time")?)?.parse()?;
            self.took_ns.push(clock::monotonic_ns().saturating_sub(due_ns));
            return Ok(());
        }
        let has = |word: &Finder<'_>| word.find(text).is_some();
        match client.phase {
            Phase::Open if has(&words.established) => {
                let said = said(&self.role, place * self.threads + self.index, text)?;
                let frames: Vec<u8> =
                    said.iter().flat_map(|text| frame(TEXT, text.as_bytes())).collect();
                say(&client.socket, &frames)?;
                client.phase = Phase::Subscribing(said.len());
                if said.is_empty() {
                    self.is_ready(place);
                }
            }
            Phase::Open if has(&words.full) => self.is_refused(place),
            Phase::Subscribing(left) if has(&words.succeeded) => {
                client.members = words.members(text).unwrap_or(client.members);
                client.phase = Phase::Subscribing(left - 1);
                if left == 1 {
                    self.is_ready(place);
                }
            }
            _ if has(&words.added) => client.members += 1,
            _ if has(&words.removed) => client.members -= 1,
            _ if has(&words.error) => return Err(String::from_utf8_lossy(text).into()),
            _ => {}
        }
        Ok(())
    }

    fn is_refused(&mut self, place: usize) {
        self.clients[place].phase = Phase::Refused;
        self.opening -= 1;
        self.again.push_back((clock::monotonic_ns() + FULL_NS, place));
        self.counts.is_refused();
    }

    fn is_ready(&mut self, place: usize) {
        self.clients[place].phase = Phase::Ready;
        self.opening -= 1;
        self.counts.is_ready();
    }
}

/// The mark of an event that is due then.
pub(crate) fn mark(due_ns: u64) -> String {
    format!("@@{due_ns:020}")
}

/// What a client says that has just been told what it is called.
fn said(role: &Role, number: usize, text: &[u8]) -> Outcome<Vec<String>> {
    let first: Value = serde_json::from_slice(text)?;
    let data: Value = serde_json::from_str(first["data"].as_str().unwrap_or_default())?;
    let id = data["socket_id"].as_str().map(SocketId::parse);
    let id = id.and_then(Result::ok).flatten().ok_or("a connection without an id")?;
    Ok(role.says.map(|says| says(number, id)).unwrap_or_default())
}

/// Says something for which the kernel has room: what was said before was answered.
fn say(socket: &OwnedFd, bytes: &[u8]) -> Outcome<()> {
    match socket::send(socket, bytes)? == bytes.len() {
        true => Ok(()),
        false => Err("the kernel has no room for what a client says".into()),
    }
}
