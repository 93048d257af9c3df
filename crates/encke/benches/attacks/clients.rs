//! What attackers are made of: whom they attack, and clients that say much and read or do not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::harness::{Socket, Wire, frame, get};

/// A text frame of a client, whole.
pub(crate) const TEXT: u8 = 0x81;

/// Ids that one connection can have.
pub(crate) const IDS: usize = 2048;

/// How much of a pipelined request or command is written at once.
const WRITE_BYTES: usize = 64 * 1024;

/// Stack of a thread that only reads or writes.
const STACK_BYTES: usize = 64 * 1024;

/// Whom to attack, and until when.
pub(crate) struct Target {
    pub(crate) listen: SocketAddr,
    pub(crate) api: SocketAddr,
    /// A file with the key that good tokens are signed with, or with those whom clients of TLS
    /// trust, if streams need any.
    pub(crate) file: String,
    until: Instant,
}

impl Target {
    /// As the command line has it.
    pub(crate) fn of(arguments: &[String]) -> Target {
        let [listen, api, seconds, file] = arguments else {
            panic!("ADDRESS ADDRESS SECONDS FILE")
        };
        let until = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
        let (listen, api) = (listen.parse().unwrap(), api.parse().unwrap());
        Target { listen, api, file: file.clone(), until }
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// How long it is to go on.
    pub(crate) fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    pub(crate) fn wait_end(&self) {
        thread::sleep(self.left());
    }

    /// Says `piece` on each of the `wires` as fast as it is taken, and reads and forgets what is
    /// answered, until the time is up.
    pub(crate) fn say_all(&self, wires: &[Wire], piece: &[u8]) {
        let pieces = many(piece);
        self.say_on(wires.iter().map(|wire| (wire.socket(), &*pieces)));
    }

    /// The same of pieces that each of them has for itself.
    pub(crate) fn say_each(&self, clients: &[(Wire, Vec<u8>)]) {
        let all: Vec<_> =
            clients.iter().map(|(wire, piece)| (wire.socket(), many(piece))).collect();
        self.say_on(all.iter().map(|(socket, pieces)| (*socket, &**pieces)));
    }

    fn say_on<'a>(&self, clients: impl Iterator<Item = (&'a TcpStream, &'a [u8])> + Clone) {
        thread::scope(|scope| {
            for (socket, pieces) in clients.clone() {
                let thread = || thread::Builder::new().stack_size(STACK_BYTES);
                thread().spawn_scoped(scope, move || forget(socket)).unwrap();
                thread().spawn_scoped(scope, move || self.say(socket, pieces)).unwrap();
            }
            self.wait_end();
            clients.for_each(|(socket, _)| drop(socket.shutdown(Shutdown::Both)));
        });
    }

    /// Says `pieces` until the time is up or nobody listens.
    fn say(&self, mut socket: &TcpStream, pieces: &[u8]) {
        while !self.is_over() && socket.write_all(pieces).is_ok() {}
    }

    /// A WebSocket with as many ids as one may have: numbers from `first` on.
    pub(crate) fn websocket_with_ids(&self, first: usize) -> Wire {
        let mut wire = Socket::raw(self.listen, &format!("/stream/{first}"));
        for from in (1..IDS).step_by(256) {
            let ids: Vec<String> =
                (from..(from + 256).min(IDS)).map(|n| (first + n).to_string()).collect();
            let _ = wire.try_send(command("login", &ids.join(",")));
        }
        wire
    }
}

/// As many of a piece as are written at once.
fn many(piece: &[u8]) -> Vec<u8> {
    piece.repeat((WRITE_BYTES / piece.len()).max(1))
}

/// A command's frame; `ids` as JSON.
pub(crate) fn command(name: &str, ids: &str) -> Vec<u8> {
    frame(TEXT, format!("{{\"{name}\":[{ids}]}}").as_bytes())
}

/// A place that the server at `listen` knows: its present one.
pub(crate) fn place(listen: SocketAddr, query: &str) -> String {
    let mut wire = Wire::connect(listen);
    wire.send(get(&format!("/poll/1?wait=0{query}"), &[]));
    wire.head().field("Encke-Next").unwrap().to_owned()
}

/// Reads an answer and forgets it.
pub(crate) fn answer(wire: &mut Wire) -> io::Result<()> {
    let head = wire.try_head()?;
    let len = head.field("content-length").map_or(0, |len| len.parse().unwrap());
    wire.take(len).map(drop)
}

/// Reads what comes until the end.
pub(crate) fn forget(mut socket: &TcpStream) {
    let mut piece = vec![0; 16 * 1024];
    loop {
        match socket.read(&mut piece) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
