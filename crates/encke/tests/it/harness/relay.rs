//! A relay in front of a server: the network between it and its clients, which can be lost.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A relay. Its threads end with the connections that they serve.
pub(crate) struct Relay {
    address: SocketAddr,
    connections: Arc<Mutex<Vec<Connection>>>,
}

struct Connection {
    ends: [TcpStream; 2],
    frozen: Arc<AtomicBool>,
}

impl Relay {
    /// A relay to the server at `to`.
    pub(crate) fn start(to: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&connections);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is gone refuses, and so does the relay.
                let Ok(server) = TcpStream::connect(to) else { continue };
                let frozen = Arc::new(AtomicBool::new(false));
                pass(&client, &server, Arc::clone(&frozen));
                pass(&server, &client, Arc::clone(&frozen));
                shared.lock().unwrap().push(Connection { ends: [client, server], frozen });
            }
        });
        Relay { address, connections }
    }

    /// `http://…`, as commands want it.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends all connections that there are.
    pub(crate) fn cut(&self) {
        for connection in self.connections.lock().unwrap().drain(..) {
            // One end may have gone by itself.
            let _ = connection.ends.map(|end| end.shutdown(Shutdown::Both));
        }
    }

    /// From now on nothing passes on the connections that there are, and neither end is told.
    pub(crate) fn freeze(&self) {
        for connection in &*self.connections.lock().unwrap() {
            connection.frozen.store(true, Ordering::SeqCst);
        }
    }
}

/// Passes on what comes `from` one end, until that ends or is frozen.
fn pass(from: &TcpStream, to: &TcpStream, frozen: Arc<AtomicBool>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(len @ 1..) = from.read(&mut piece) {
            if frozen.load(Ordering::SeqCst) {
                return;
            }
            if to.write_all(&piece[..len]).is_err() {
                break;
            }
        }
        if !frozen.load(Ordering::SeqCst) {
            let _ = to.shutdown(Shutdown::Write);
        }
    });
}
