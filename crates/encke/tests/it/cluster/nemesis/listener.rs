//! A listener: a stream of Server-Sent Events at one node, and at another one when that ends or is
//! silent, from the last place that it was told.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use client::{Progress, StreamDecoder, response_head};
use proto::Transport;
use rig::oracle::event_id;
use serde_json::Value;

use super::record::{Entry, Record, name};
use super::scene::Scene;

/// How long a stream may take to open.
const OPEN_MAX: Duration = Duration::from_secs(8);

/// How long one read waits, so that the end is seen.
const READ_MAX: Duration = Duration::from_millis(50);

/// The keep-alive is a second: who hears nothing for so long goes elsewhere, if it is impatient.
const SILENCE_MAX: Duration = Duration::from_millis(2_500);

/// Of so many reads and pauses one makes a listener leave by itself.
const LEAVES_ONE_OF: u32 = 150;

pub(super) struct Listener<'r> {
    pub(super) number: usize,
    pub(super) scene: &'r Scene,
    pub(super) record: &'r Record,
    /// Nobody leaves by itself any more.
    pub(super) settle: &'r AtomicBool,
    pub(super) stop: &'r AtomicBool,
    pub(super) random: fastrand::Rng,
}

impl Listener<'_> {
    /// Listens, somewhere, until it is told to stop.
    pub(super) fn stay(mut self) {
        let (mut place, mut node) = (None, self.number % self.scene.nodes.len());
        while !self.stop.load(Ordering::SeqCst) {
            let asked = self.record.now();
            let opened = self.open(node, place.as_deref());
            let (at, resumed) = (self.record.now(), place.is_some());
            // Who was refused, or answered anything else, never had a stream.
            let refused = [ErrorKind::ConnectionRefused, ErrorKind::Other];
            if opened.as_ref().is_err_and(|error| !refused.contains(&error.kind())) {
                self.enter(Entry::Tried { asked, at });
            }
            if let Ok((mut socket, decoder, rest)) = opened {
                self.enter(Entry::Opened { asked, at, node, resumed });
                if let Err(error) = self.read(&mut socket, decoder, &rest, &mut place)
                    && error.kind() == ErrorKind::InvalidData
                {
                    self.record.fault(format!("listener {}: {error}", self.number));
                }
                // Before it is closed: until then it stands.
                self.enter(Entry::Lost { at: self.record.now() });
                drop(socket);
            }
            std::thread::sleep(Duration::from_millis(self.random.u64(20..200)));
            node = self.random.usize(..self.scene.nodes.len());
        }
    }

    fn enter(&self, entry: Entry) {
        self.record.enter(self.number, entry);
    }

    fn open(
        &self,
        node: usize,
        place: Option<&str>,
    ) -> io::Result<(TcpStream, StreamDecoder, Vec<u8>)> {
        let address: SocketAddr = self.scene.nodes[node].listen;
        let mut socket = TcpStream::connect_timeout(&address, OPEN_MAX)?;
        socket.set_read_timeout(Some(READ_MAX))?;
        let place = place.map_or_else(String::new, |place| format!("Last-Event-ID: {place}\r\n"));
        let request = format!(
            "GET /stream/{} HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n\
             Cache-Control: no-cache\r\nSec-Fetch-Mode: cors\r\n{place}\r\n",
            name(self.number)
        );
        socket.write_all(request.as_bytes())?;
        let (mut read, start) = (Vec::new(), Instant::now());
        loop {
            let mut piece = [0; 4096];
            match socket.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(len) => read.extend_from_slice(&piece[..len]),
                Err(error) if may_wait(&error) && start.elapsed() < OPEN_MAX => {
                    if self.stop.load(Ordering::SeqCst) {
                        return Err(error);
                    }
                    continue;
                }
                Err(error) => return Err(error),
            }
            let head = response_head(&read).map_err(|_| io::Error::other("the head"))?;
            let Some(head) = head else { continue };
            match head.status {
                200 => {}
                503 => return Err(io::Error::other("503")),
                other => {
                    self.record.fault(format!("a stream was answered {other}"));
                    return Err(io::Error::other("the status"));
                }
            }
            let decoder = StreamDecoder::new(Transport::Sse, head.body);
            read.drain(..head.head_len);
            return Ok((socket, decoder, read));
        }
    }

    fn read(
        &mut self,
        socket: &mut TcpStream,
        mut decoder: StreamDecoder,
        rest: &[u8],
        place: &mut Option<String>,
    ) -> io::Result<()> {
        let mut heard = Instant::now();
        self.feed(&mut decoder, rest, place)?;
        let mut piece = [0; 4096];
        while !self.stop.load(Ordering::SeqCst) {
            match socket.read(&mut piece) {
                Ok(0) => return Ok(()),
                Ok(len) => {
                    heard = Instant::now();
                    if self.feed(&mut decoder, &piece[..len], place)? == Progress::End {
                        return Ok(());
                    }
                }
                Err(error) if may_wait(&error) => {}
                Err(error) => return Err(error),
            }
            let settling = self.settle.load(Ordering::SeqCst);
            let impatient = self.number % 2 == 1 || settling;
            let leaves = !settling && self.random.u32(..LEAVES_ONE_OF) == 0;
            if leaves || impatient && heard.elapsed() > SILENCE_MAX {
                return Ok(());
            }
        }
        Ok(())
    }

    fn feed(
        &self,
        decoder: &mut StreamDecoder,
        bytes: &[u8],
        place: &mut Option<String>,
    ) -> io::Result<Progress> {
        let fed = decoder.feed(bytes, |event| self.hear(event, place));
        fed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))
    }

    fn hear(&self, event: client::Event<'_>, place: &mut Option<String>) {
        let at = self.record.now();
        if event.name == b"gap" {
            self.enter(Entry::Gap { at });
        }
        let told = event.id.map(|text| String::from_utf8_lossy(text).into_owned());
        let Some(told) = told else { return };
        let Some(number) = event_id(&told) else {
            return self.record.fault(format!("an id is {told:?}"));
        };
        if event.is_position() || event.name == b"gap" {
            self.enter(Entry::Place(number));
        } else {
            let read = serde_json::from_slice::<Value>(event.data).unwrap_or_default();
            match read["data"].as_u64() {
                Some(data) if read["id"] == told.as_str() => {
                    self.enter(Entry::Event { at, id: number, number: data as usize });
                }
                _ => self.record.fault(format!("an event is {read}")),
            }
        }
        *place = Some(told);
    }
}

fn may_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
