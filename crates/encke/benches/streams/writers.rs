//! A writer for each stream, all on one thread: each appends what is due once it is answered.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use sys::clock;
use sys::epoll::{Epoll, Events};

use crate::Plan;
use crate::ask::AnswerHead;

/// Tokens of one append.
pub(crate) const TOKENS_MAX: u64 = 64;

/// Bytes of a token: its number and when it was due.
pub(crate) const TOKEN_BYTES: usize = 8 + 20;

/// The longest wait for what was sent last.
pub(crate) const ARRIVAL_NS: u64 = 20_000_000_000;

/// The token of this number of a stream.
pub(crate) fn token(number: u64, due_ns: u64) -> String {
    format!("{number:08}{due_ns:020}")
}

/// What the writers have done.
#[derive(Default)]
pub(crate) struct Written {
    /// Of each stream.
    pub(crate) tokens: Vec<u64>,
    pub(crate) appends: u64,
    /// Requests that were sent again, since their connection ended or they were refused.
    pub(crate) repeats: u64,
}

struct Writer {
    socket: TcpStream,
    answer: Vec<u8>,
    /// Tokens that are answered for, and those of the request under way.
    answered: u64,
    under_way: u64,
    /// The number of the next request.
    sequence: u64,
}

pub(crate) struct Writers<'p> {
    plan: &'p Plan,
    address: SocketAddr,
    epoll: Epoll,
    writers: Vec<Writer>,
    start_ns: u64,
    written: Written,
}

impl<'p> Writers<'p> {
    pub(crate) fn new(plan: &'p Plan, address: SocketAddr) -> Writers<'p> {
        let epoll = Epoll::new().unwrap();
        let writers = (0..plan.streams).map(|stream| Writer::open(address, &epoll, stream));
        let writers = writers.collect();
        let (start_ns, written) = (clock::monotonic_ns(), Written::default());
        Writers { plan, address, epoll, writers, start_ns, written }
    }

    /// Writes until it is time to stop and all is answered.
    pub(crate) fn work(mut self, stop: &AtomicBool) -> Written {
        let mut events = Events::with_capacity(1024);
        let mut end_ns = None;
        loop {
            let now_ns = clock::monotonic_ns();
            // Relaxed: nothing else depends on it.
            if stop.load(Ordering::Relaxed) {
                let end_ns = *end_ns.get_or_insert(now_ns + ARRIVAL_NS);
                if self.writers.iter().all(|writer| writer.under_way == 0) {
                    break;
                }
                assert!(now_ns < end_ns, "a writer gets no answer");
            } else {
                (0..self.writers.len()).for_each(|stream| self.write_due(stream, now_ns));
            }
            self.epoll.wait_ns(&mut events, 200_000).unwrap();
            events.iter().for_each(|event| self.read(event.token as usize));
        }
        self.written.tokens = self.writers.iter().map(|writer| writer.answered).collect();
        self.written
    }

    fn write_due(&mut self, stream: usize, now_ns: u64) {
        let first = self.writers[stream].answered;
        if self.writers[stream].under_way > 0 {
            return;
        }
        let is_due = |number: &u64| self.plan.due_ns(self.start_ns, stream, *number) <= now_ns;
        let due = (first..first + TOKENS_MAX).take_while(is_due).count() as u64;
        if due > 0 {
            self.writers[stream].under_way = due;
            self.send(stream);
        }
    }

    /// Sends the request that is under way.
    fn send(&mut self, stream: usize) {
        let Writer { answered, under_way, sequence, .. } = self.writers[stream];
        let body: String = (answered..answered + under_way)
            .map(|number| token(number, self.plan.due_ns(self.start_ns, stream, number)))
            .collect();
        let request = format!(
            "POST /v1/stream/run:{stream} HTTP/1.1\r\nHost: localhost\r\n\
             Content-Type: text/plain\r\nProducer-Id: w\r\nProducer-Epoch: 0\r\n\
             Producer-Seq: {sequence}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        // There is room for it: all before is answered. If the other side is gone the read says so.
        let _ = self.writers[stream].socket.write_all(request.as_bytes());
        self.written.appends += 1;
    }

    fn read(&mut self, stream: usize) {
        let mut buffer = [0; 4096];
        let mut is_over = false;
        loop {
            match self.writers[stream].socket.read(&mut buffer) {
                Ok(0) => is_over = true,
                Ok(read) => {
                    self.writers[stream].answer.extend_from_slice(&buffer[..read]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => is_over = true,
            }
            break;
        }
        let mut is_refused = false;
        let writer = &mut self.writers[stream];
        while let Some(head) = AnswerHead::of(&writer.answer) {
            if writer.answer.len() < head.len + head.body {
                break;
            }
            writer.answer.drain(..head.len + head.body);
            is_over |= head.closes;
            match head.status {
                200 | 204 => {
                    writer.answered += writer.under_way;
                    (writer.under_way, writer.sequence) = (0, writer.sequence + 1);
                }
                503 => is_refused = true,
                status => panic!("an append is answered {status}"),
            }
        }
        if is_over {
            let Writer { answered, under_way, sequence, .. } = *writer;
            let other = Writer::open(self.address, &self.epoll, stream);
            *writer = Writer { answered, under_way, sequence, ..other };
        }
        if (is_over || is_refused) && self.writers[stream].under_way > 0 {
            self.written.repeats += 1;
            self.send(stream);
        }
    }
}

impl Writer {
    fn open(address: SocketAddr, epoll: &Epoll, stream: usize) -> Writer {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_nonblocking(true).unwrap();
        epoll.add_stream(&socket, stream as u64).unwrap();
        Writer { socket, answer: Vec::new(), answered: 0, under_way: 0, sequence: 0 }
    }
}
