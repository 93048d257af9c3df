//! Attacks on whoever speaks TLS: handshakes that are not ended, and records without sense.

use std::io::{self, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::clients::Target;
use crate::harness::{Authority, get, tls_client};

/// Connections that are begun in the time of the attack.
const CONNECTIONS: usize = 100_000;

/// Threads that begin them, each with a descriptor table and an address of its own.
const THREADS: usize = 8;

/// How often what has to wait is looked at.
const PAUSE: Duration = Duration::from_millis(20);

/// Connections that send records slowly.
const SLOW: usize = 4_000;

/// A server's certificate, and whom its clients trust.
pub(crate) struct Setup(Authority);

impl Setup {
    pub(crate) fn make() -> Setup {
        Setup(Authority::new())
    }

    /// What the server is told.
    pub(crate) fn options(&self) -> [String; 3] {
        let [certificate, key] = self.0.issue("own", &["localhost"]).options();
        ["--tls-listen=127.0.0.1:0".to_owned(), certificate, key]
    }

    /// The file of whom clients trust.
    pub(crate) fn ca(&self) -> String {
        self.0.ca().display().to_string()
    }
}

/// Clients of which half say a hello and no more, a quarter a byte of it a second, and a quarter
/// nothing: as many a second as come to a hundred thousand.
pub(crate) fn half_open(target: &Target) {
    half_open_at(target, CONNECTIONS);
}

/// A sixth as many, which a processor hardly notices.
pub(crate) fn some_half_open(target: &Target) {
    half_open_at(target, CONNECTIONS / 6);
}

fn half_open_at(target: &Target, connections: usize) {
    let hello = hello(&target.file);
    let start = Instant::now();
    let each = connections / THREADS;
    let pause = target.left() / each as u32;
    let begun = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (hello, begun) = (&hello, &begun);
            scope.spawn(move || {
                sys::table::make_private(&[]).unwrap();
                let mut listeners = Crowd::new(thread, target.listen, hello);
                while !target.is_over() {
                    let due = (start.elapsed().as_nanos() / pause.as_nanos()) as usize;
                    while listeners.sockets.len() < due.min(each) {
                        listeners.connect();
                    }
                    listeners.go_on();
                    thread::sleep(PAUSE);
                }
                begun.fetch_add(listeners.begun, Ordering::Relaxed);
            });
        }
    });
    println!("  {} of {connections} connections established", begun.into_inner());
}

/// One thread's part.
struct Crowd<'h> {
    source: IpAddr,
    listen: SocketAddr,
    hello: &'h [u8],
    /// Those that are open yet, and how much of the hello each has said.
    sockets: Vec<Option<(TcpStream, usize)>>,
    /// Those that have said nothing, for they are not established.
    pending: Vec<usize>,
    /// Since when some say a byte a second, and the first of them that has not in this second.
    second: Instant,
    next: usize,
    begun: u64,
}

impl<'h> Crowd<'h> {
    fn new(thread: usize, listen: SocketAddr, hello: &'h [u8]) -> Crowd<'h> {
        Crowd {
            source: Ipv4Addr::new(127, 7, 7, thread as u8 + 1).into(),
            listen,
            hello,
            sockets: Vec::new(),
            pending: Vec::new(),
            second: Instant::now(),
            next: 0,
            begun: 0,
        }
    }

    fn connect(&mut self) {
        let index = self.sockets.len();
        self.sockets.push(self.try_connect().ok().map(|socket| (socket, 0)));
        self.pending.push(index);
    }

    fn try_connect(&self) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.bind(&SockAddr::from(SocketAddr::new(self.source, 0)))?;
        match socket.connect(&self.listen.into()) {
            Err(error) if error.raw_os_error() != Some(EINPROGRESS) => Err(error),
            _ => Ok(socket.into()),
        }
    }

    /// Says what is due on those that are established now.
    fn go_on(&mut self) {
        for index in std::mem::take(&mut self.pending) {
            let manner = index % 4;
            let bytes = [self.hello.len(), self.hello.len(), 1, 0][manner];
            let is_open = |(socket, _): &(TcpStream, usize)| socket.peer_addr().is_ok();
            let is_established = self.sockets[index].as_ref().is_some_and(is_open);
            match is_established && self.say(index, bytes) {
                true => self.begun += 1,
                false if self.sockets[index].is_some() => self.pending.push(index),
                false => {}
            }
        }
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.next) = (Instant::now(), 2);
        }
        // Some of them each time, so that they do not all speak at once.
        let end = self.sockets.len().min(self.next + 1 + self.sockets.len() / 20);
        while self.next < end {
            if self.next % 4 == 2 {
                self.say(self.next, 1);
            }
            self.next += 1;
        }
    }

    /// Says the next bytes of the hello. Who was ended is forgotten.
    fn say(&mut self, index: usize, bytes: usize) -> bool {
        let Some((socket, said)) = &mut self.sockets[index] else { return false };
        let rest = &self.hello[*said..];
        match socket.write(&rest[..bytes.min(rest.len())]) {
            Ok(len) => {
                *said += len;
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) => {
                self.sockets[index] = None;
                false
            }
        }
    }
}

/// What connect(2) says of a socket that does not wait.
const EINPROGRESS: i32 = 115;

/// A client's hello, as it is sent.
fn hello(ca: &str) -> Vec<u8> {
    let config = server::client_config(Some(Path::new(ca)), &["http/1.1"]).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut hello = Vec::new();
    ClientConnection::new(Arc::clone(&config), name).unwrap().write_tls(&mut hello).unwrap();
    hello
}

/// A stream over TLS that is asked for, of which nothing is read.
fn stream(target: &Target, path: &str) -> StreamOwned<ClientConnection, TcpStream> {
    let mut stream = tls_client(target.listen, "localhost", Path::new(&target.file));
    // Who is refused is so while it says more.
    let _ = stream.write_all(get(path, &[]).as_bytes()).and_then(|()| stream.flush());
    stream
}

/// Streams whose clients ask for new keys as fast as they can: some without end, until they are cut
/// off and come again, some with a byte of data now and then, which is allowed.
pub(crate) fn key_updates(target: &Target) {
    torrent(target, |connection, thread| {
        for n in 0..310 {
            connection.refresh_traffic_keys().unwrap();
            if thread % 2 == 0 && n % 31 == 30 {
                connection.writer().write_all(b"x").unwrap();
            }
        }
    });
}

/// Streams whose clients send a byte in each record, which nobody wants.
pub(crate) fn small_records(target: &Target) {
    torrent(target, |connection, _| {
        for _ in 0..300 {
            connection.writer().write_all(b"x").unwrap();
        }
    });
}

/// What `say` has to send, again and again, on streams that come back when they are cut off.
fn torrent(target: &Target, say: impl Fn(&mut ClientConnection, usize) + Sync) {
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..8 {
            let (say, sent) = (&say, &sent);
            scope.spawn(move || {
                let mut bytes = Vec::new();
                while !target.is_over() {
                    let StreamOwned { mut conn, mut sock, .. } = stream(target, "/stream/u");
                    let mut is_open = true;
                    while is_open && !target.is_over() {
                        bytes.clear();
                        say(&mut conn, thread);
                        while conn.wants_write() {
                            conn.write_tls(&mut bytes).unwrap();
                        }
                        is_open = sock.write_all(&bytes).is_ok();
                        sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    println!("  {} MB of records", sent.into_inner() / 1_000_000);
}

/// Clients with a record of the largest size, whose last bytes come one a second: the first of a
/// request, or of what a stream is sent that nobody wants.
pub(crate) fn slow_records(target: &Target) {
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let mut kept = Vec::new();
                while kept.len() < SLOW / 4 && !target.is_over() {
                    kept.push(slow_record(target, 4 * kept.len() + thread));
                }
                while !target.is_over() {
                    thread::sleep(Duration::from_secs(1));
                    for (socket, last) in &mut kept {
                        let _ = last.pop().map(|byte| (&*socket).write(&[byte]));
                    }
                }
            });
        }
    });
}

/// A client that has sent most of a record, and the bytes that are missing.
fn slow_record(target: &Target, n: usize) -> (TcpStream, Vec<u8>) {
    let mut stream = match n % 2 {
        0 => stream(target, &format!("/stream/slow{n}")),
        _ => tls_client(target.listen, "localhost", Path::new(&target.file)),
    };
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream.conn.writer().write_all(&[b'x'; 16_000]).unwrap();
    let mut bytes = Vec::new();
    while stream.conn.wants_write() {
        stream.conn.write_tls(&mut bytes).unwrap();
    }
    let last = bytes.split_off(bytes.len() - 100);
    let _ = (&stream.sock).write_all(&bytes);
    stream.sock.set_nonblocking(true).unwrap();
    (stream.sock, last)
}
