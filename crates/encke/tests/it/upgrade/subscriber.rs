//! A listener of any transport: bytes in, events out, and nothing forgiven: what is no whole frame
//! of its transport, behind the one before, fails the test.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use flate2::{Decompress, FlushDecompress};
use memchr::memmem;
use serde_json::{Value, json};

pub(crate) use super::kind::{Kind, STREAMS};
use super::records::{Record, Records};
use crate::harness::{DEADLINE, Head, frame};

/// An event as it was heard.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Heard {
    /// Empty on the classic page, which does not show it.
    pub(crate) id: String,
    pub(crate) data: Value,
}

/// A listener on a connection of its own.
pub(crate) struct Subscriber<S = TcpStream> {
    pub(crate) kind: Kind,
    pub(crate) socket: S,
    /// What has come and is not understood yet.
    input: Vec<u8>,
    /// What of it is no framing.
    records: Records,
    /// What a poll asks for.
    path: String,
    /// Whether a poll that was answered asks again.
    pub(crate) asks_again: bool,
    /// Events that nobody has taken.
    pub(crate) heard: VecDeque<Heard>,
    pub(crate) keep_alives: u64,
    pub(crate) gaps: u64,
    /// Answers to commands.
    pub(crate) answers: VecDeque<Value>,
    /// Where it would resume.
    pub(crate) place: String,
    /// The last chunk, or a close frame, has come.
    pub(crate) has_last: bool,
}

impl Subscriber {
    /// One that is logged in as `ids` at `address`.
    pub(crate) fn open(address: SocketAddr, kind: Kind, ids: &[&str]) -> Subscriber {
        Subscriber::on(connect(address), kind, ids, None)
    }

    /// The same, which goes on at `place`.
    pub(crate) fn resume(address: SocketAddr, kind: Kind, ids: &[&str], place: &str) -> Subscriber {
        Subscriber::on(connect(address), kind, ids, Some(place))
    }
}

/// A connection with deadlines.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
    socket.set_read_timeout(Some(DEADLINE)).unwrap();
    socket.set_write_timeout(Some(DEADLINE)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket
}

impl<S: Read + Write> Subscriber<S> {
    /// Asks on a connection that stands; but for a poll's, the head of the answer is read.
    pub(crate) fn on(socket: S, kind: Kind, ids: &[&str], place: Option<&str>) -> Subscriber<S> {
        let request = kind.request(&kind.path(ids, place));
        Subscriber::ask(socket, kind, ids, &request)
    }

    /// The same with a request of the test's own.
    pub(crate) fn ask(mut socket: S, kind: Kind, ids: &[&str], request: &str) -> Subscriber<S> {
        socket.write_all(request.as_bytes()).unwrap();
        let mut subscriber = Subscriber::asked(socket, kind, ids);
        if kind != Kind::Poll {
            subscriber.open_head();
        }
        subscriber
    }

    /// One whose request is on its way, or is to be sent by the test.
    pub(crate) fn asked(socket: S, kind: Kind, ids: &[&str]) -> Subscriber<S> {
        Subscriber {
            kind,
            socket,
            input: Vec::new(),
            records: kind.records(),
            path: kind.path(ids, None),
            asks_again: true,
            heard: VecDeque::new(),
            keep_alives: 0,
            gaps: 0,
            answers: VecDeque::new(),
            place: String::new(),
            has_last: false,
        }
    }

    /// The same on what `wrap` makes of its socket.
    pub(crate) fn with_socket<T>(self, wrap: impl FnOnce(S) -> T) -> Subscriber<T> {
        let Subscriber { kind, socket, input, records, path, asks_again, .. } = self;
        let Subscriber { heard, keep_alives, gaps, answers, place, has_last, .. } = self;
        Subscriber {
            kind,
            socket: wrap(socket),
            input,
            records,
            path,
            asks_again,
            heard,
            keep_alives,
            gaps,
            answers,
            place,
            has_last,
        }
    }

    /// Reads the head of the answer, which is a good one.
    pub(crate) fn open_head(&mut self) -> Head {
        let head = loop {
            if let Some(head) = self.head() {
                break head;
            }
            self.fill().unwrap_or_else(|error| panic!("{:?} gets no answer: {error}", self.kind));
        };
        let expected = if self.kind.is_websocket() { 101 } else { 200 };
        assert_eq!(head.status, expected, "{}", head.text);
        let compresses = head.field("sec-websocket-extensions").is_some();
        assert_eq!(compresses, self.kind == Kind::Deflated, "{}", head.text);
        self.place = head.field("encke-next").unwrap_or_default().to_owned();
        self.understand();
        head
    }

    /// A head that has come whole.
    fn head(&mut self) -> Option<Head> {
        let end = memmem::find(&self.input, b"\r\n\r\n")? + 4;
        let text = String::from_utf8(self.input.drain(..end).collect()).unwrap();
        let status = text.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        Some(Head { status, text })
    }

    /// Reads once, and understands what is whole.
    pub(crate) fn read(&mut self) -> io::Result<()> {
        self.fill()?;
        self.understand();
        Ok(())
    }

    fn fill(&mut self) -> io::Result<()> {
        let mut piece = [0; 64 * 1024];
        let len = loop {
            match self.socket.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        if len == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        self.input.extend_from_slice(&piece[..len]);
        Ok(())
    }

    /// The next event, waited for.
    #[track_caller]
    pub(crate) fn hear(&mut self) -> Heard {
        loop {
            if let Some(heard) = self.heard.pop_front() {
                return heard;
            }
            self.read().unwrap_or_else(|error| panic!("{:?} hears nothing: {error}", self.kind));
        }
    }

    /// Its payload.
    #[track_caller]
    pub(crate) fn data(&mut self) -> Value {
        self.hear().data
    }

    /// Sends a command on a WebSocket; its answer.
    #[track_caller]
    pub(crate) fn command(&mut self, command: &Value) -> Value {
        self.socket.write_all(&frame(0x81, command.to_string().as_bytes())).unwrap();
        self.answer()
    }

    /// The next answer to a command, waited for.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Value {
        while self.answers.is_empty() {
            self.read().unwrap_or_else(|error| panic!("{:?} has no answer: {error}", self.kind));
        }
        self.answers.pop_front().unwrap()
    }

    /// It is told its end, and the connection ends in order.
    #[track_caller]
    pub(crate) fn expect_end(&mut self) {
        let end = loop {
            match self.read() {
                Ok(()) => {}
                Err(error) => break error.kind(),
            }
        };
        let is_told = self.has_last || self.kind.is_old();
        assert_eq!((end, is_told), (ErrorKind::UnexpectedEof, true), "{:?}", self.kind);
    }

    fn understand(&mut self) {
        match self.kind {
            Kind::Poll => while self.poll_answer() {},
            Kind::WebSocket | Kind::Deflated => while self.websocket_frame() {},
            kind if kind.is_old() => {
                let bytes = std::mem::take(&mut self.input);
                self.take_in(&bytes);
            }
            _ => while self.chunk() {},
        }
    }

    fn chunk(&mut self) -> bool {
        let Some(end) = memmem::find(&self.input, b"\r\n") else {
            return false;
        };
        let size = str::from_utf8(&self.input[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("size {size:?}"));
        if self.input.len() < end + 2 + size + 2 {
            return false;
        }
        let chunk: Vec<u8> = self.input.drain(..end + 2 + size + 2).collect();
        assert!(chunk.ends_with(b"\r\n"), "a chunk ends where it says");
        self.has_last = size == 0;
        self.take_in(&chunk[end + 2..end + 2 + size]);
        true
    }

    fn poll_answer(&mut self) -> bool {
        let Some(end) = memmem::find(&self.input, b"\r\n\r\n") else {
            return false;
        };
        let text = str::from_utf8(&self.input[..end]).unwrap().to_owned();
        let head = Head { status: text["HTTP/1.1 ".len()..][..3].parse().unwrap(), text };
        let len: usize = head.field("content-length").expect(&head.text).parse().unwrap();
        if self.input.len() < end + 4 + len {
            return false;
        }
        assert_eq!(head.status, 200, "{}", head.text);
        let place = head.field("encke-next").expect("a place").to_owned();
        self.gaps += u64::from(head.field("encke-gap").is_some());
        let answer: Vec<u8> = self.input.drain(..end + 4 + len).collect();
        let events: Vec<Value> = serde_json::from_slice(&answer[end + 4..]).unwrap();
        events.into_iter().for_each(|event| self.take_event(event));
        assert!(place >= self.place, "{place} leads back from {}", self.place);
        self.place = place;
        self.has_last = head.field("connection") == Some("close");
        if self.asks_again && !self.has_last {
            self.ask_again();
        }
        true
    }

    /// Polls from where it is.
    pub(crate) fn ask_again(&mut self) {
        let path = match &*self.place {
            "" => self.path.clone(),
            place => format!("{}&after={place}", self.path),
        };
        self.socket.write_all(self.kind.request(&path).as_bytes()).unwrap();
    }

    fn websocket_frame(&mut self) -> bool {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, &byte| all << 8 | byte as usize);
        let (start, len) = match self.input[..] {
            [_, 126, a, b, ..] => (4, number(&[a, b])),
            [_, 127, ..] if self.input.len() >= 10 => (10, number(&self.input[2..10])),
            [_, len @ ..126, ..] => (2, usize::from(len)),
            [_, 126..=127, ..] | [_] | [] => return false,
            [_, len, ..] => panic!("a server masks nothing: {len:x}"),
        };
        if self.input.len() < start + len {
            return false;
        }
        let frame_bytes: Vec<u8> = self.input.drain(..start + len).collect();
        let payload = &frame_bytes[start..];
        match frame_bytes[0] {
            0x81 => self.take_message(payload),
            0xc1 if self.kind == Kind::Deflated => self.take_message(&inflated(payload)),
            0x89 => {
                self.keep_alives += 1;
                self.socket.write_all(&frame(0x8a, payload)).unwrap();
            }
            0x88 => {
                self.has_last = true;
                let reason = String::from_utf8_lossy(&payload[2..]);
                let close = json!({ "close": number(&payload[..2]), "reason": reason });
                self.answers.push_back(close);
            }
            0x8a => self.answers.push_back(json!({ "pong": payload })),
            first => panic!("{first:x} begins no frame of ours"),
        }
        true
    }

    fn take_message(&mut self, text: &[u8]) {
        let value: Value = serde_json::from_slice(text).unwrap();
        match () {
            () if value["about"].is_string() => self.take_event(value),
            () if value["gap"] == true => self.gaps += 1,
            () => self.answers.push_back(value),
        }
    }

    fn take_in(&mut self, bytes: &[u8]) {
        self.records.take_in(bytes);
        while let Some(record) = self.records.next() {
            match record {
                Record::Event(event) => self.take_event(event),
                Record::Place(place) => self.place = place,
                Record::KeepAlive => self.keep_alives += 1,
                Record::Gap => self.gaps += 1,
            }
        }
    }

    fn take_event(&mut self, mut event: Value) {
        let id = event["id"].as_str().unwrap_or_default().to_owned();
        if !id.is_empty() {
            assert!(id > self.place, "{:?}: {id} comes behind {}", self.kind, self.place);
            self.place.clone_from(&id);
        }
        self.heard.push_back(Heard { id, data: event["data"].take() });
    }
}

fn inflated(payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 20);
    let input = [payload, &[0, 0, 0xff, 0xff]].concat();
    Decompress::new(false).decompress_vec(&input, &mut out, FlushDecompress::Sync).unwrap();
    out
}
