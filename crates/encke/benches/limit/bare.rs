//! The bare loop: accept, answer, send, close. No ids, no timers, no limits, no backlog. A client
//! that does not read is not provided for, and the place of one that has left stays empty.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use memchr::memmem;
use proto::poll::{ARRAY_END, Answer};
use proto::websocket::{self, handshake};
use proto::{Carrier, Format, Frame, Transport, Upgrade, response, resume};
use sys::epoll::{Epoll, Events};
use sys::waker::Waker;
use sys::{socket, table};

use crate::child::Server;
use crate::{AUDIENCE, DATA};

pub(crate) struct Bare {
    address: SocketAddr,
    transport: Transport,
    workers: Vec<Arc<Orders>>,
    /// Chooses the audience of each paced event.
    random: u64,
}

/// What a worker is to send, beyond what it has sent.
struct Orders {
    waker: Waker,
    broadcasts: AtomicU64,
    unicasts: AtomicU64,
    /// Polls that wait.
    polls: AtomicU64,
    /// Connections that are open.
    open: AtomicU64,
    /// Single deliveries: the bytes, and a number that chooses the socket.
    letters: Mutex<Vec<(Arc<[u8]>, u64)>>,
}

/// What the crowd's first polls have in their request, which want an answer at once.
const NOW: &[u8] = b"wait=0";

const LISTENER: u64 = u64::MAX;
const ORDERS: u64 = u64::MAX - 1;

impl Bare {
    pub(crate) fn start(workers: usize, transport: Transport) -> io::Result<Bare> {
        let address = socket::claim(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let mut bare = Bare { address, transport, workers: Vec::new(), random: 1 };
        for _ in 0..workers {
            let orders = Arc::new(Orders {
                waker: Waker::new()?,
                broadcasts: AtomicU64::new(0),
                unicasts: AtomicU64::new(0),
                polls: AtomicU64::new(0),
                open: AtomicU64::new(0),
                letters: Mutex::default(),
            });
            bare.workers.push(orders.clone());
            let (started, start) = std::sync::mpsc::sync_channel(1);
            thread::spawn(move || {
                table::make_private(&[&orders.waker])?;
                let listener = socket::bind_in_group(address)?;
                socket::listen(&listener, 65_535)?;
                // The parent waits for it below, so there is somebody to hear it.
                let _ = started.send(());
                work(&listener, &orders, transport)
            });
            start.recv().map_err(io::Error::other)?;
        }
        Ok(bare)
    }
}

fn broadcast(workers: &[Arc<Orders>], events: u64) {
    for worker in workers {
        worker.broadcasts.fetch_add(events, Ordering::Relaxed);
    }
    workers.iter().for_each(|worker| worker.waker.ring());
}

impl Server for Bare {
    fn port(&self) -> u16 {
        self.address.port()
    }

    fn polls(&self) -> u64 {
        self.workers.iter().map(|worker| worker.polls.load(Ordering::Relaxed)).sum()
    }

    fn open(&self) -> u64 {
        self.workers.iter().map(|worker| worker.open.load(Ordering::Relaxed)).sum()
    }

    fn broadcast(&mut self, events: u64) {
        broadcast(&self.workers, events);
    }

    fn to_all(&self) -> Box<dyn FnOnce() + Send> {
        let workers = self.workers.clone();
        Box::new(move || broadcast(&workers, 1))
    }

    fn unicast(&mut self, events: u64) {
        let workers = self.workers.len() as u64;
        for (index, worker) in (0..).zip(&self.workers) {
            let share = events / workers + u64::from(index < events % workers);
            worker.unicasts.fetch_add(share, Ordering::Relaxed);
        }
        self.workers.iter().for_each(|worker| worker.waker.ring());
    }

    /// Random sockets of random workers: nobody is looked up.
    fn publish(&mut self, _about: u64, data: &str) {
        let event = event(data, self.transport).for_carrier(Carrier::Chunked).into();
        for _ in 0..AUDIENCE {
            self.random = self.random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let number = self.random >> 16;
            let worker = &self.workers[(number >> 32) as usize % self.workers.len()];
            let mut letters = worker.letters.lock().unwrap_or_else(PoisonError::into_inner);
            letters.push((Arc::clone(&event), number & 0xffff_ffff));
            let was_empty = letters.len() == 1;
            drop(letters);
            if was_empty {
                worker.waker.ring();
            }
        }
    }
}

fn event(data: &str, transport: Transport) -> Frame {
    let json = format!("{{\"id\":\"0000000000000000\",\"about\":\"1\",\"data\":{data}}}");
    match transport {
        Transport::WebSocket => websocket::event(&json),
        _ => proto::sse::event("0000000000000000", &json),
    }
}

/// What opens a stream, or answers the first poll. Every listener of the crowd sends the same key,
/// that of RFC 6455, section 1.3, so this one answer fits all.
fn head(transport: Transport) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if transport == Transport::WebSocket {
        let (key, version) = (Some("dGhlIHNhbXBsZSBub25jZQ=="), Some("13"));
        let upgrade = Upgrade { in_connection: true, key, version, ..Upgrade::default() };
        let agreement = handshake::agree(&upgrade, false);
        let agreement = agreement.map_err(|problem| io::Error::other(problem.to_json()))?;
        handshake::push_head(&agreement, &mut head);
        resume::end_head(&mut head, None, None);
    } else if transport == Transport::Poll {
        let answer = Answer { keep_alive_seconds: Some(75), ..Answer::default() };
        answer.push_head(&mut head);
        head.extend_from_slice(ARRAY_END);
    } else {
        response::stream_head(Format::Sse, Carrier::Chunked, None, &mut head);
        resume::end_head(&mut head, None, None);
    }
    Ok(head)
}

fn work(listener: &OwnedFd, orders: &Orders, transport: Transport) -> io::Result<()> {
    let (epoll, mut events) = (Epoll::new()?, Events::with_capacity(1024));
    epoll.add_source(listener, LISTENER)?;
    epoll.add_edges(&orders.waker, ORDERS)?;
    let frame = event(DATA, transport);
    let event = frame.for_carrier(Carrier::Chunked);
    let (head, mut buffer) = (head(transport)?, [0; 4096]);
    let mut sockets: Vec<Option<OwnedFd>> = Vec::new();
    loop {
        epoll.wait(&mut events, None)?;
        for report in events.iter() {
            match report.token {
                LISTENER => match socket::accept(listener) {
                    Ok(socket) => {
                        epoll.add_stream(&socket, sockets.len() as u64)?;
                        sockets.push(Some(socket));
                        orders.open.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                },
                ORDERS => send_all(&sockets, orders, event),
                token => {
                    let Some(socket) = &sockets[token as usize] else { continue };
                    let len = match socket::receive(socket, &mut buffer) {
                        Ok(len @ 1..) => len,
                        Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                        Ok(0) | Err(_) => {
                            sockets[token as usize] = None;
                            orders.open.fetch_sub(1, Ordering::Relaxed);
                            continue;
                        }
                    };
                    // A poll that waits is left to wait.
                    if transport == Transport::Poll && memmem::find(&buffer[..len], NOW).is_none() {
                        orders.polls.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    // The client's socket is empty, so there is room.
                    let _ = socket::send(socket, &head);
                }
            }
        }
    }
}

fn send_all(sockets: &[Option<OwnedFd>], orders: &Orders, event: &[u8]) {
    for _ in 0..orders.broadcasts.swap(0, Ordering::Relaxed) {
        sockets.iter().flatten().for_each(|socket| send(socket, event));
    }
    for number in 0..orders.unicasts.swap(0, Ordering::Relaxed) {
        let index = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % sockets.len() as u64;
        sockets[index as usize].iter().for_each(|socket| send(socket, event));
    }
    let letters =
        std::mem::take(&mut *orders.letters.lock().unwrap_or_else(PoisonError::into_inner));
    for (event, number) in letters {
        let socket = &sockets[number as usize % sockets.len()];
        socket.iter().for_each(|socket| send(socket, &event));
    }
}

/// A reader that falls behind is waited for, as in the simplest of servers.
fn send(socket: &OwnedFd, event: &[u8]) {
    while socket::send(socket, event).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
        thread::yield_now();
    }
}
