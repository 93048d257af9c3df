//! A reader for each stream, all on one thread: each comes back with its last offset.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;

use figures::latency::Latencies;
use memchr::memmem;
use sys::clock;
use sys::epoll::{Epoll, Events};

use crate::ask::AnswerHead;
use crate::writers::{ARRIVAL_NS, TOKEN_BYTES};

/// What the readers have heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) tokens: u64,
    /// Tokens that came once more, or before one that came later.
    pub(crate) doubled: u64,
    /// Tokens before which there should have been another one.
    pub(crate) skipped: u64,
    pub(crate) missing: u64,
    /// How often a reader came back.
    pub(crate) returns: u64,
    pub(crate) latencies: Latencies,
}

struct Reader {
    socket: TcpStream,
    raw: Vec<u8>,
    /// Whether the head of the answer was read.
    is_open: bool,
    offset: String,
    /// The number of the next token.
    next: u64,
}

pub(crate) struct Readers {
    address: SocketAddr,
    epoll: Epoll,
    readers: Vec<Reader>,
    buffer: Vec<u8>,
    heard: Heard,
}

impl Readers {
    pub(crate) fn new(streams: usize, address: SocketAddr) -> Readers {
        let epoll = Epoll::new().unwrap();
        let readers = (0..streams).map(|stream| Reader::open(address, &epoll, stream, "-1"));
        let readers = readers.collect();
        Readers { address, epoll, readers, buffer: vec![0; 64 * 1024], heard: Heard::default() }
    }

    /// Reads until each has what was written of its stream, which is told at the end.
    pub(crate) fn work(mut self, written: &OnceLock<Vec<u64>>) -> Heard {
        let mut events = Events::with_capacity(1024);
        let mut end_ns = None;
        loop {
            self.epoll.wait_ns(&mut events, 5_000_000).unwrap();
            events.iter().for_each(|event| self.read(event.token as usize));
            let Some(written) = written.get() else { continue };
            let missing = self.readers.iter().zip(written);
            let missing = missing.map(|(reader, written)| written.saturating_sub(reader.next));
            self.heard.missing = missing.sum();
            let now_ns = clock::monotonic_ns();
            let end_ns = *end_ns.get_or_insert(now_ns + ARRIVAL_NS);
            if self.heard.missing == 0 || now_ns > end_ns {
                return self.heard;
            }
        }
    }

    fn read(&mut self, stream: usize) {
        let reader = &mut self.readers[stream];
        let mut is_over = false;
        loop {
            match reader.socket.read(&mut self.buffer) {
                Ok(0) => is_over = true,
                Ok(read) => {
                    reader.raw.extend_from_slice(&self.buffer[..read]);
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => is_over = true,
            }
            break;
        }
        is_over |= !reader.hear(&mut self.heard);
        if is_over {
            self.heard.returns += 1;
            let (next, offset) = (reader.next, reader.offset.clone());
            let other = Reader::open(self.address, &self.epoll, stream, &offset);
            *reader = Reader { next, ..other };
        }
    }
}

impl Reader {
    fn open(address: SocketAddr, epoll: &Epoll, stream: usize, offset: &str) -> Reader {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        let request = format!(
            "GET /v1/stream/run:{stream}?live=sse&offset={offset} HTTP/1.1\r\n\
             Host: localhost\r\n\r\n"
        );
        // If the other side has gone the read says so.
        let _ = socket.write_all(request.as_bytes());
        socket.set_nonblocking(true).unwrap();
        epoll.add_stream(&socket, stream as u64).unwrap();
        Reader { socket, raw: Vec::new(), is_open: false, offset: offset.into(), next: 0 }
    }

    /// Takes all whole chunks of what has come; `false` where the reader is to come back.
    fn hear(&mut self, heard: &mut Heard) -> bool {
        if !self.is_open {
            let Some(head) = AnswerHead::of(&self.raw) else { return true };
            if head.status != 200 {
                return false;
            }
            self.raw.drain(..head.len);
            self.is_open = true;
        }
        let now_ns = clock::monotonic_ns();
        // A chunk is a length, its bytes, and an end of line behind each (RFC 9112, section 7.1).
        while let Some(line) = memmem::find(&self.raw, b"\r\n") {
            let len = std::str::from_utf8(&self.raw[..line]).unwrap();
            let len = usize::from_str_radix(len, 16).unwrap();
            if len == 0 {
                return false;
            }
            let whole = line + 2 + len + 2;
            if self.raw.len() < whole {
                break;
            }
            let chunk: Vec<u8> = self.raw.drain(..whole).collect();
            self.take(&chunk[line + 2..line + 2 + len], now_ns, heard);
        }
        true
    }

    /// Takes a chunk, which has whole events.
    fn take(&mut self, chunk: &[u8], now_ns: u64, heard: &mut Heard) {
        let text = std::str::from_utf8(chunk).unwrap();
        for event in text.split("\n\n").filter(|event| event.starts_with("event: data")) {
            let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
            self.offset = field("id: ").unwrap().into();
            for token in field("data:").unwrap().as_bytes().chunks(TOKEN_BYTES) {
                let (number, due_ns) = std::str::from_utf8(token).unwrap().split_at(8);
                let number: u64 = number.parse().unwrap();
                if number < self.next {
                    heard.doubled += 1;
                    continue;
                }
                heard.skipped += number - self.next;
                self.next = number + 1;
                heard.tokens += 1;
                heard.latencies.record(now_ns.saturating_sub(due_ns.parse().unwrap()));
            }
        }
    }
}
