//! The listeners of a demo with nodes: each has a stream at one node, by Server-Sent Events, and
//! when it loses that goes on at another one, from the last id that it knows.
//!
//! A task each, with no buffer while nothing comes: some thousands, on two threads. The larger
//! crowd of `encke flood` stays at one server.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use client::{Event, Progress, StreamDecoder, response_head};
use proto::Transport;
use rig::oracle::{self, event_id};
use serde::Deserialize;
use sys::clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::record::{Record, mix};

/// Streams that may be on their way to open at one time: a node's backlog of connections that it
/// has not accepted yet holds many more.
const OPENING_MAX: usize = 500;

/// How long a stream may take to open.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Before a listener tries another node: at least so long, and up to twice that, so that those of
/// one node do not come back at one moment.
const PAUSE_MS: u64 = 200;

/// Addresses of loopback from which they come: so many that few share one.
const SOURCES: u32 = 1_000;
const FIRST_SOURCE: u32 = u32::from_be_bytes([127, 0, 1, 0]);

/// Bytes read at a time.
const READ_BYTES: usize = 8 << 10;

/// The listeners. Dropping them ends them.
pub(super) struct Users {
    _tasks: JoinSet<()>,
}

impl Users {
    /// One for each user from 0 on, spread over the nodes.
    pub(super) fn start(users: u32, nodes: &[SocketAddr], record: &Arc<Record>) -> Users {
        let (nodes, opening): (Arc<[_]>, _) = (nodes.into(), Arc::new(Semaphore::new(OPENING_MAX)));
        let mut tasks = JoinSet::new();
        for id in 0..users {
            let listener = Listener { id, place: None, heard: oracle::Listener::default() };
            tasks.spawn(listener.stay(nodes.clone(), opening.clone(), record.clone()));
        }
        Users { _tasks: tasks }
    }
}

/// The node that listener `id` has first.
pub(super) fn home(id: u32, nodes: usize) -> usize {
    id as usize % nodes
}

/// A stream that has opened, and what of it came with the head.
type Opened = (TcpStream, StreamDecoder, Vec<u8>);

struct Listener {
    id: u32,
    /// The last id that it was told: where it goes on.
    place: Option<String>,
    /// What it has heard.
    heard: oracle::Listener,
}

/// What is read of an event.
#[derive(Deserialize)]
struct NodeTold {
    id: String,
    data: Numbered,
}

#[derive(Deserialize)]
struct Numbered {
    n: u64,
}

impl Listener {
    /// Listens, somewhere, until it is dropped.
    async fn stay(
        mut self,
        nodes: Arc<[SocketAddr]>,
        opening: Arc<Semaphore>,
        record: Arc<Record>,
    ) {
        let mut home = home(self.id, nodes.len());
        let mut lost: Option<Instant> = None;
        for trial in 1_u64.. {
            match self.open(nodes[home], &opening).await {
                Ok(opened) => {
                    record.open().come(lost.map(|lost| lost.elapsed()));
                    let _ended = self.read(opened, &record).await;
                    record.open().go();
                    lost = Some(Instant::now());
                }
                Err(error) => record.open().fail(format!("{}: {error}", nodes[home])),
            }
            let drawn = mix(u64::from(self.id) << 32 | trial);
            sleep(Duration::from_millis(PAUSE_MS + drawn % PAUSE_MS)).await;
            // Any but the one that it had.
            home = (home + 1 + (drawn >> 32) as usize % (nodes.len() - 1)) % nodes.len();
        }
    }

    /// Opens a stream at `node` that goes on at its place.
    async fn open(&mut self, node: SocketAddr, opening: &Semaphore) -> io::Result<Opened> {
        let _turn = opening.acquire().await.map_err(io::Error::other)?;
        timeout(OPEN_TIMEOUT, self.ask(node)).await.map_err(|_| ErrorKind::TimedOut)?
    }

    async fn ask(&mut self, node: SocketAddr) -> io::Result<Opened> {
        let mut socket = self.connect(node).await?;
        let place = self.place.as_ref();
        let place = place.map_or_else(String::new, |place| format!("Last-Event-ID: {place}\r\n"));
        let request = format!(
            "GET /stream/{} HTTP/1.1\r\nHost: {node}\r\nAccept: text/event-stream\r\n{place}\r\n",
            self.id
        );
        socket.write_all(request.as_bytes()).await?;
        let mut read = Vec::new();
        loop {
            if socket.read_buf(&mut read).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let Some(head) = response_head(&read).map_err(|_| malformed())? else { continue };
            if head.status != 200 {
                return Err(io::Error::other(format!("the node answered {}", head.status)));
            }
            // Where it begins: who hears nothing before the node is killed goes on there.
            self.place = head.next.map(str::to_owned).or(self.place.take());
            let decoder = StreamDecoder::new(Transport::Sse, head.body);
            read.drain(..head.head_len);
            return Ok((socket, decoder, read));
        }
    }

    /// From one of many addresses: where thousands have one address and one node, the kernel looks
    /// through all of their ports for each new one, which took 40 % of two cores.
    async fn connect(&self, node: SocketAddr) -> io::Result<TcpStream> {
        let address = Ipv4Addr::from(FIRST_SOURCE + self.id % SOURCES);
        let socket = sys::socket::connect_from(Some(address.into()), node)?;
        let socket = TcpStream::from_std(socket.into())?;
        socket.writable().await?;
        socket.take_error()?.map_or(Ok(socket), Err)
    }

    /// Reads the stream until it is lost.
    async fn read(
        &mut self,
        (socket, mut decoder, rest): Opened,
        record: &Record,
    ) -> io::Result<()> {
        self.feed(&rest, &mut decoder, record)?;
        drop(rest);
        loop {
            socket.readable().await?;
            if self.read_now(&socket, &mut decoder, record)? == Progress::End {
                return Ok(());
            }
        }
    }

    /// Reads what is there.
    fn read_now(
        &mut self,
        socket: &TcpStream,
        decoder: &mut StreamDecoder,
        record: &Record,
    ) -> io::Result<Progress> {
        let mut buffer = [0; READ_BYTES];
        let len = match socket.try_read(&mut buffer) {
            Ok(0) => return Ok(Progress::End),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Progress::More),
            Err(error) => return Err(error),
        };
        self.feed(&buffer[..len], decoder, record)
    }

    fn feed(
        &mut self,
        bytes: &[u8],
        decoder: &mut StreamDecoder,
        record: &Record,
    ) -> io::Result<Progress> {
        let now_ns = clock::monotonic_ns();
        let fed = decoder.feed(bytes, |event| self.hear(event, record, now_ns));
        fed.map_err(io::Error::other)
    }

    fn hear(&mut self, event: Event<'_>, record: &Record, now_ns: u64) {
        if event.name == b"gap" {
            record.open().gap(&mut self.heard);
        } else if let Ok(told) = serde_json::from_slice::<NodeTold>(event.data)
            && let Some(id) = event_id(&told.id)
        {
            record.open().hear(&mut self.heard, self.id, (id, told.data.n), now_ns);
        }
        if let Some(Ok(place)) = event.id.map(str::from_utf8) {
            self.place = Some(place.to_owned());
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the answer is not HTTP")
}
