//! The way between one client and the server: shut, it resets what passed and whoever comes.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::SockRef;

use crate::harness::DEADLINE;

/// A switch, shut at first. Its thread ends with the tests.
pub(crate) struct Switch {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The server, while the switch is open.
    to: Option<SocketAddr>,
    passing: Vec<Passing>,
}

/// One connection, with a thread for each direction.
struct Passing {
    ends: Arc<Ends>,
    threads: [JoinHandle<()>; 2],
}

struct Ends {
    client: TcpStream,
    server: TcpStream,
    /// It is being cut: nobody is told of an end.
    is_cut: AtomicBool,
    /// How often something of the server's went on to the client.
    pieces: AtomicU64,
}

impl Switch {
    pub(crate) fn new() -> Switch {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let mut state = shared.lock().unwrap();
                match state.to.and_then(|to| TcpStream::connect(to).ok()) {
                    Some(server) => state.passing.push(Passing::start(client, server)),
                    None => reset(client),
                }
            }
        });
        Switch { address, state }
    }

    /// Where the client connects.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on connections pass to the server at `to`.
    pub(crate) fn open(&self, to: SocketAddr) {
        self.state.lock().unwrap().to = Some(to);
    }

    /// Resets every connection (RST) and whoever comes from now on.
    pub(crate) fn shut(&self) {
        let mut state = self.state.lock().unwrap();
        state.to = None;
        state.passing.drain(..).for_each(Passing::cut);
    }

    /// How often something of the server's has passed on the newest connection.
    pub(crate) fn pieces(&self) -> u64 {
        let state = self.state.lock().unwrap();
        state.passing.last().map_or(0, |passing| passing.ends.pieces.load(Ordering::SeqCst))
    }

    /// Whether the client has read everything that has come to its newest connection.
    pub(crate) fn is_read(&self) -> bool {
        let state = self.state.lock().unwrap();
        let Some(passing) = state.passing.last() else { return false };
        let client = passing.ends.client.peer_addr().unwrap();
        unread_bytes(client, self.address) == Some(0)
    }
}

impl Passing {
    fn start(client: TcpStream, server: TcpStream) -> Passing {
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        // One that reads no more blocks nobody for ever.
        client.set_write_timeout(Some(DEADLINE)).unwrap();
        let (is_cut, pieces) = (AtomicBool::new(false), AtomicU64::new(0));
        let ends = Arc::new(Ends { client, server, is_cut, pieces });
        let (up, down) = (Arc::clone(&ends), Arc::clone(&ends));
        let up = thread::spawn(move || up.pass(&up.client, &up.server, |_| ()));
        let down = thread::spawn(move || {
            down.pass(&down.server, &down.client, |ends| {
                ends.pieces.fetch_add(1, Ordering::SeqCst);
            });
        });
        Passing { ends, threads: [up, down] }
    }

    /// The client's end is closed by RST, once its last owner is gone.
    fn cut(self) {
        self.ends.is_cut.store(true, Ordering::SeqCst);
        // Both threads wake up; to stop reading sends nothing. Either end may have gone by itself.
        let _ = self.ends.server.shutdown(Shutdown::Both);
        let _ = self.ends.client.shutdown(Shutdown::Read);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        let ends = Arc::into_inner(self.ends).unwrap();
        reset(ends.client);
    }
}

impl Ends {
    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream, passed: impl Fn(&Ends)) {
        let mut piece = [0; 16 * 1024];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            if to.write_all(&piece[..len]).is_err() {
                break;
            }
            passed(self);
        }
        if !self.is_cut.load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Write);
        }
    }
}

/// Closes it by RST, whatever was to be sent.
fn reset(socket: TcpStream) {
    // One that its peer has closed already cannot be set.
    let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
}

/// Bytes that wait to be read at the `local` end of a connection of this machine, as the kernel
/// tells (proc(5), /proc/net/tcp): `local remote state tx_queue:rx_queue …`, in hexadecimal.
fn unread_bytes(local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let end = |address: SocketAddr| format!(":{:04X}", address.port());
    let table = fs::read_to_string("/proc/net/tcp").unwrap() + &v6();
    let line = table.lines().find(|line| {
        let mut words = line.split_whitespace().skip(1);
        let mut is = |address| words.next().is_some_and(|word| word.ends_with(&end(address)));
        is(local) && is(remote)
    })?;
    let queues = line.split_whitespace().nth(4)?;
    u64::from_str_radix(queues.split_once(':')?.1, 16).ok()
}

/// Some clients, such as Java's, have a socket of IPv6 for every address.
fn v6() -> String {
    fs::read_to_string("/proc/net/tcp6").unwrap_or_default()
}
