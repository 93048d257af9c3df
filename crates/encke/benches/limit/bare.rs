//! The bare loop: accept, answer, send. No ids, no timers, no limits, no backlog; a client that
//! does not read or that leaves is not provided for.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proto::{Framing, Transport, response};
use sys::epoll::{Epoll, Events};
use sys::waker::Waker;
use sys::{socket, table};

use crate::DATA;
use crate::child::Server;

pub(crate) struct Bare {
    address: SocketAddr,
    workers: Vec<Arc<Orders>>,
}

/// What a worker is to send, beyond what it has sent.
struct Orders {
    waker: Waker,
    broadcasts: AtomicU64,
    unicasts: AtomicU64,
}

const LISTENER: u64 = u64::MAX;
const ORDERS: u64 = u64::MAX - 1;

impl Bare {
    pub(crate) fn start(workers: usize) -> io::Result<Bare> {
        let address = socket::claim(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let mut bare = Bare { address, workers: Vec::new() };
        for _ in 0..workers {
            let (broadcasts, unicasts) = (AtomicU64::new(0), AtomicU64::new(0));
            let orders = Arc::new(Orders { waker: Waker::new()?, broadcasts, unicasts });
            bare.workers.push(orders.clone());
            let (started, start) = std::sync::mpsc::sync_channel(1);
            thread::spawn(move || {
                table::make_private(&[&orders.waker])?;
                let listener = socket::listen_in_group(address, 65_535)?;
                // The parent waits for it below, so there is somebody to hear it.
                let _ = started.send(());
                work(&listener, &orders)
            });
            start.recv().map_err(io::Error::other)?;
        }
        Ok(bare)
    }

    fn ring(&self) {
        self.workers.iter().for_each(|worker| worker.waker.ring());
    }
}

impl Server for Bare {
    fn port(&self) -> u16 {
        self.address.port()
    }

    fn broadcast(&mut self, events: u64) {
        for worker in &self.workers {
            worker.broadcasts.fetch_add(events, Ordering::Relaxed);
        }
        self.ring();
    }

    fn unicast(&mut self, events: u64) {
        let workers = self.workers.len() as u64;
        for (index, worker) in (0..).zip(&self.workers) {
            let share = events / workers + u64::from(index < events % workers);
            worker.unicasts.fetch_add(share, Ordering::Relaxed);
        }
        self.ring();
    }
}

fn work(listener: &OwnedFd, orders: &Orders) -> io::Result<()> {
    let (epoll, mut events) = (Epoll::new()?, Events::with_capacity(1024));
    epoll.add_source(listener, LISTENER)?;
    epoll.add_edges(&orders.waker, ORDERS)?;
    let frame = proto::sse::event(
        "0000000000000000",
        &format!("{{\"id\":\"0000000000000000\",\"about\":\"1\",\"data\":{DATA}}}"),
    );
    let event = frame.for_framing(Framing::Chunked);
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    response::stream_head(Transport::Sse, Framing::Chunked, None, &mut head);
    let mut sockets: Vec<OwnedFd> = Vec::new();
    loop {
        epoll.wait(&mut events, None)?;
        for report in events.iter() {
            match report.token {
                LISTENER => match socket::accept(listener) {
                    Ok(socket) => {
                        epoll.add_stream(&socket, sockets.len() as u64)?;
                        sockets.push(socket);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                },
                ORDERS => send_all(&sockets, orders, event),
                token => {
                    let socket = &sockets[token as usize];
                    if report.readable()
                        && socket::receive(socket, &mut buffer).is_ok_and(|n| n > 0)
                    {
                        // The client's socket is empty, so there is room.
                        let _ = socket::send(socket, &head);
                    }
                }
            }
        }
    }
}

fn send_all(sockets: &[OwnedFd], orders: &Orders, event: &[u8]) {
    for _ in 0..orders.broadcasts.swap(0, Ordering::Relaxed) {
        sockets.iter().for_each(|socket| send(socket, event));
    }
    for number in 0..orders.unicasts.swap(0, Ordering::Relaxed) {
        let index = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % sockets.len() as u64;
        send(&sockets[index as usize], event);
    }
}

/// A reader that falls behind is waited for, as in the simplest of servers.
fn send(socket: &OwnedFd, event: &[u8]) {
    while socket::send(socket, event).is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
        thread::yield_now();
    }
}
