//! A TCP relay for tests: the network between two programs, which can be cut and can swallow.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// A relay to one address. Its threads end with their connections.
pub struct TcpRelay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    mode: AtomicU8,
    delay_ms: AtomicU64,
    connections: Mutex<Vec<[TcpStream; 2]>>,
}

/// What happens to bytes.
const PASS: u8 = 0;
const SWALLOW_ANSWERS: u8 = 1;
const SWALLOW: u8 = 2;
const REFUSE: u8 = 3;
const HOLD: u8 = 4;
const DELAY: u8 = 5;

/// How often it is looked whether bytes that are held may go on.
const LOOK: Duration = Duration::from_millis(2);

impl TcpRelay {
    /// A relay to the server at `to`.
    pub fn start(to: SocketAddr) -> TcpRelay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let address = listener.local_addr().expect("it has an address");
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if of_thread.mode.load(Ordering::SeqCst) == REFUSE {
                    continue;
                }
                // A server that is gone refuses, and so does the relay.
                let Ok(server) = TcpStream::connect(to) else { continue };
                for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let shared = Arc::clone(&of_thread);
                    thread::spawn(move || shared.pass(from, to, is_answer));
                }
                of_thread.connections().push([client, server]);
            }
        });
        TcpRelay { address, shared }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes what comes, from now on.
    pub fn pass(&self) {
        self.shared.mode.store(PASS, Ordering::SeqCst);
    }

    /// Swallows what the server says, and passes what clients say.
    pub fn swallow_answers(&self) {
        self.shared.mode.store(SWALLOW_ANSWERS, Ordering::SeqCst);
    }

    /// Swallows all, and tells nobody.
    pub fn swallow(&self) {
        self.shared.mode.store(SWALLOW, Ordering::SeqCst);
    }

    /// Keeps what comes until another mode begins, as a network that loses packets for a while.
    pub fn hold(&self) {
        self.shared.mode.store(HOLD, Ordering::SeqCst);
    }

    /// Passes each piece so much later. Those of one connection wait for each other.
    pub fn delay(&self, time: Duration) {
        self.shared.delay_ms.store(time.as_millis() as u64, Ordering::SeqCst);
        self.shared.mode.store(DELAY, Ordering::SeqCst);
    }

    /// Ends all connections that there are.
    pub fn cut(&self) {
        for connection in self.shared.connections().drain(..) {
            // One end may have gone by itself.
            let _ = connection.map(|end| end.shutdown(Shutdown::Both));
        }
    }

    /// Ends all connections, and takes no new ones until it passes again.
    pub fn refuse(&self) {
        self.shared.mode.store(REFUSE, Ordering::SeqCst);
        self.cut();
    }
}

impl Drop for TcpRelay {
    fn drop(&mut self) {
        self.refuse();
    }
}

impl Shared {
    fn connections(&self) -> std::sync::MutexGuard<'_, Vec<[TcpStream; 2]>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream, is_answer: bool) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            while self.mode.load(Ordering::SeqCst) == HOLD {
                thread::sleep(LOOK);
            }
            let swallowed = match self.mode.load(Ordering::SeqCst) {
                SWALLOW => true,
                SWALLOW_ANSWERS => is_answer,
                DELAY => {
                    let delay_ms = self.delay_ms.load(Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(delay_ms));
                    false
                }
                _ => false,
            };
            if !swallowed && to.write_all(&buffer[..length]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    }
}
