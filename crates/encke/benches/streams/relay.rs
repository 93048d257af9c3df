//! The floor of the whole way: a loop that reads, syncs, answers and sends on as a server must, and
//! does nothing else.
//!
//! One thread has all sockets. What has come while another one wrote and synced the group before is
//! the next group: one write and one `fdatasync` of one file. Then its writers are answered, and
//! its readers are sent the tokens. Nothing is checked, nobody is known, and no stream has a file
//! or a state. So no server can do it with less.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use memchr::memmem;
use sys::epoll::{Epoll, Events};

use crate::Plan;
use crate::table::Table;
use crate::tokens::{Load, show};

/// The file that is synced begins anew behind so many bytes.
const LOG_BYTES: u64 = 64 << 20;

/// A group is a multiple of it.
const BLOCK_BYTES: usize = 4096;

const LISTENER: u64 = u64::MAX;
const SYNCED: u64 = u64::MAX - 1;

/// What an append is answered; offsets are as long as a server's.
const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\n\
    stream-next-offset: 0000000000000000_0000000000000000\r\nproducer-epoch: 0\r\n\
    producer-seq: 0000000\r\ncontent-length: 0\r\ndate: Mon, 30 Nov 2026 00:00:00 GMT\r\n\r\n";

const EVENT: &str = "event: data\nid: 0000000000000000_0000000000000000\ndata:";

const CONTROL: &str = "\n\nevent: control\ndata: {\"streamNextOffset\":\
    \"0000000000000000_0000000000000000\",\"streamCursor\":\"1939680\",\"upToDate\":true}\n\n";

/// Appends that are on their way to the disk together.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    /// Of each: its connection, its stream, and how many of the bytes.
    appends: Vec<(usize, usize, usize)>,
}

struct Relay {
    listener: TcpListener,
    epoll: Epoll,
    sockets: Vec<TcpStream>,
    /// Which of them reads a stream.
    readers: Vec<Option<usize>>,
    gathered: Group,
    is_under_way: bool,
    to_sync: SyncSender<Group>,
    synced: Receiver<Group>,
    bell: UnixStream,
    buffer: Vec<u8>,
}

/// The p99 of the loop in milliseconds.
pub(crate) fn run(plan: &Plan, table: &mut Table) -> f64 {
    let dir = plan.directory();
    let log = File::create(dir.path().join("log")).unwrap();
    log.write_all_at(&vec![1; LOG_BYTES as usize], 0).unwrap();
    log.sync_all().unwrap();
    let (bell, ring) = UnixStream::pair().unwrap();
    bell.set_nonblocking(true).unwrap();
    let (to_sync, from_relay) = sync_channel(1);
    let (to_relay, synced) = sync_channel(1);
    let mut relay = Relay::new(plan.streams, (to_sync, synced), bell);
    let address = relay.address();
    let is_over = AtomicBool::new(false);
    let load = thread::scope(|scope| {
        let log = &log;
        scope.spawn(move || sync_each(log, &from_relay, &to_relay, ring));
        let is_over = &is_over;
        scope.spawn(move || relay.work(is_over));
        let load = Load::during(plan, address, address, || {
            thread::sleep(Duration::from_secs_f64(plan.seconds));
        });
        // Relaxed: nothing else depends on it.
        is_over.store(true, Ordering::Relaxed);
        load
    });
    show(plan, table, &load, plan.seconds);
    load.heard.latencies.quantiles().p99_ms
}

/// Writes and syncs each group that comes, until no more can come.
fn sync_each(log: &File, groups: &Receiver<Group>, done: &SyncSender<Group>, mut ring: UnixStream) {
    let mut at = 0;
    for mut group in groups {
        group.bytes.resize(group.bytes.len().next_multiple_of(BLOCK_BYTES), 0);
        if at + group.bytes.len() as u64 > LOG_BYTES {
            at = 0;
        }
        log.write_all_at(&group.bytes, at).unwrap();
        log.sync_data().unwrap();
        at += group.bytes.len() as u64;
        // At the end nobody is there.
        let _ = done.send(group);
        let _ = ring.write_all(&[0]);
    }
}

impl Relay {
    fn new(
        streams: usize,
        (to_sync, synced): (SyncSender<Group>, Receiver<Group>),
        bell: UnixStream,
    ) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let epoll = Epoll::new().unwrap();
        epoll.add_source(&listener, LISTENER).unwrap();
        epoll.add_source(&bell, SYNCED).unwrap();
        Relay {
            listener,
            epoll,
            sockets: Vec::new(),
            readers: vec![None; streams],
            gathered: Group::default(),
            is_under_way: false,
            to_sync,
            synced,
            bell,
            buffer: vec![0; 64 << 10],
        }
    }

    fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }

    fn work(&mut self, is_over: &AtomicBool) {
        let mut events = Events::with_capacity(1024);
        // Relaxed: nothing else depends on it.
        while !is_over.load(Ordering::Relaxed) {
            self.epoll.wait(&mut events, Some(100)).unwrap();
            for event in events.iter() {
                match event.token {
                    LISTENER => self.accept(),
                    SYNCED => self.send_on(),
                    socket => self.read(socket as usize),
                }
            }
            if !self.is_under_way && !self.gathered.appends.is_empty() {
                self.is_under_way = true;
                self.to_sync.send(std::mem::take(&mut self.gathered)).unwrap();
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            socket.set_nonblocking(true).unwrap();
            socket.set_nodelay(true).unwrap();
            self.epoll.add_stream(&socket, self.sockets.len() as u64).unwrap();
            self.sockets.push(socket);
        }
    }

    /// Takes a request, which comes as a whole: its client waits for each answer.
    fn read(&mut self, index: usize) {
        let read = match self.sockets[index].read(&mut self.buffer) {
            Ok(read) => &self.buffer[..read],
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(_) => return,
        };
        let Some(path) = memmem::find(read, b"/v1/stream/run:") else { return };
        let digits = read[path + 15..].iter().take_while(|byte| byte.is_ascii_digit());
        let stream = digits.fold(0, |number, digit| 10 * number + usize::from(digit - b'0'));
        let body = memmem::find(read, b"\r\n\r\n").unwrap() + 4;
        if read.starts_with(b"GET ") {
            self.readers[stream] = Some(index);
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            self.sockets[index].write_all(head).unwrap();
            return;
        }
        let body = &read[body..];
        self.gathered.bytes.extend_from_slice(body);
        self.gathered.appends.push((index, stream, body.len()));
    }

    /// Answers and sends on what is on disk.
    fn send_on(&mut self) {
        let _ = self.bell.read(&mut [0; 8]);
        let Ok(group) = self.synced.try_recv() else { return };
        self.is_under_way = false;
        let (mut chunk, mut at) = (Vec::new(), 0);
        for (writer, stream, len) in group.appends {
            let tokens = &group.bytes[at..at + len];
            at += len;
            if let Some(reader) = self.readers[stream] {
                chunk.clear();
                write!(chunk, "{:x}\r\n{EVENT}", EVENT.len() + len + CONTROL.len()).unwrap();
                chunk.extend_from_slice(tokens);
                chunk.extend_from_slice(CONTROL.as_bytes());
                chunk.extend_from_slice(b"\r\n");
                self.sockets[reader].write_all(&chunk).unwrap();
            }
            self.sockets[writer].write_all(ANSWER).unwrap();
        }
    }
}
