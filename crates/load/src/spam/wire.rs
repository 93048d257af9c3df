//! A connection to the API, by TLS or without, of which one thread reads and one writes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tls::rustls::ClientConnection;

use crate::Trust;
use crate::spam::ANSWER_TIMEOUT;
use crate::target::Target;

/// What is read of the kernel in one go.
const READ_BYTES: usize = 32 * 1024;

/// One end of a connection. All ends of it are the same.
pub(super) struct Wire {
    stream: TcpStream,
    /// The library's state: held for work in memory alone, never across a system call that may
    /// wait. One thread writes, so what it takes out goes out in its order.
    tls: Option<Arc<Mutex<ClientConnection>>>,
    /// What came of the kernel and is on its way through the library.
    sealed: Vec<u8>,
}

impl Wire {
    /// Connects, and by `https://` makes sure that it is the server.
    pub(super) fn connect(target: &Target, trust: Option<&Trust>) -> io::Result<Wire> {
        let mut stream = TcpStream::connect(target.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        let tls = match target.tls_name.as_ref().zip(trust) {
            None => None,
            Some((name, trust)) => {
                let connection = ClientConnection::new(trust.config().clone(), name.clone());
                let mut connection = connection.map_err(not_tls)?;
                while connection.is_handshaking() {
                    connection.complete_io(&mut stream)?;
                }
                Some(Arc::new(Mutex::new(connection)))
            }
        };
        Ok(Wire { stream, tls, sealed: Vec::new() })
    }

    /// Another handle of the connection, for another thread.
    pub(super) fn try_clone(&self) -> io::Result<Wire> {
        let stream = self.stream.try_clone()?;
        Ok(Wire { stream, tls: self.tls.clone(), sealed: Vec::new() })
    }

    /// Whether the other side has ended it, as far as is known now. Nothing is read, and nothing is
    /// due: by TLS the end is told by a record before it.
    pub(super) fn is_ended(&self) -> bool {
        let looked = || {
            self.stream.set_nonblocking(true)?;
            let seen = self.stream.peek(&mut [0]);
            self.stream.set_nonblocking(false)?;
            seen
        };
        match looked() {
            Ok(seen) => seen == 0 || self.tls.is_some(),
            Err(error) => error.kind() != ErrorKind::WouldBlock,
        }
    }

    pub(super) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        self.stream.set_read_timeout(Some(timeout))
    }
}

/// A thread that panicked has broken its connection, which the other one sees by itself.
fn lock(tls: &Mutex<ClientConnection>) -> MutexGuard<'_, ClientConnection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_tls(error: tls::rustls::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, error)
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.stream.read(buffer) };
        loop {
            match lock(tls).reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            if self.sealed.is_empty() {
                self.sealed.resize(READ_BYTES, 0);
                let read = self.stream.read(&mut self.sealed);
                self.sealed.truncate(*read.as_ref().unwrap_or(&0));
                read?;
            }
            let mut connection = lock(tls);
            // No bytes are the end, which the library must be told, too.
            let taken = connection.read_tls(&mut &self.sealed[..])?;
            connection.process_new_packets().map_err(not_tls)?;
            self.sealed.drain(..taken);
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return self.stream.write(bytes) };
        let (mut sealed, mut connection) = (Vec::new(), lock(tls));
        let taken = connection.writer().write(bytes)?;
        while connection.wants_write() {
            connection.write_tls(&mut sealed)?;
        }
        drop(connection);
        self.stream.write_all(&sealed)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn connection_that_the_other_side_has_closed_is_known_to_be_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let wire = Wire::connect(&Target::parse(&url).unwrap(), None).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(!wire.is_ended());
        drop(accepted);
        testing::wait_for("its end", || wire.is_ended());
    }
}
