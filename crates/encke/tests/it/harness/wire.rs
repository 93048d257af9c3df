//! A raw client: bytes out, bytes in, each read with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Instant;

use memchr::memmem;
use socket2::SockRef;

use super::DEADLINE;

/// A connection and what was read of it ahead of need.
pub(crate) struct Wire {
    socket: TcpStream,
    buffer: Vec<u8>,
}

/// How the other side ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Fin,
    Reset,
}

/// The head of an answer.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// The whole head as it came.
    pub(crate) text: String,
}

impl Head {
    /// The value of the field `name`, which stands there once or not at all.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.text.lines().skip(1);
        let mut values = lines.filter_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then(|| value.trim())
        });
        let value = values.next();
        assert_eq!(values.next(), None, "{name} stands twice in {}", self.text);
        value
    }
}

impl From<TcpStream> for Wire {
    fn from(socket: TcpStream) -> Wire {
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Wire { socket, buffer: Vec::new() }
    }
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Wire {
        Wire::try_connect(address).unwrap()
    }

    pub(crate) fn try_connect(address: SocketAddr) -> io::Result<Wire> {
        TcpStream::connect_timeout(&address, DEADLINE).map(Wire::from)
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap();
    }

    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.socket.write_all(bytes.as_ref())
    }

    /// Sends `piece` again and again until the other side takes no more.
    pub(crate) fn send_until_cut_off(&mut self, piece: impl AsRef<[u8]>) {
        let deadline = Instant::now() + DEADLINE;
        while self.try_send(&piece).is_ok() {
            assert!(Instant::now() < deadline, "it can be sent for ever");
        }
    }

    /// Reads one more piece; `false` at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let mut piece = [0; 16 * 1024];
        // With a timeout a read ends early when the process is stopped and continued (signal(7)).
        let len = loop {
            match self.socket.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.buffer.extend_from_slice(&piece[..len]);
        Ok(len > 0)
    }

    /// What can be read now of what nobody has read, at most 1 KiB; it stays to be read.
    pub(crate) fn peek(&self) -> Vec<u8> {
        let mut piece = vec![0; 1024];
        self.socket.set_nonblocking(true).unwrap();
        let len = self.socket.peek(&mut piece).unwrap_or(0);
        self.socket.set_nonblocking(false).unwrap();
        piece.truncate(len);
        piece
    }

    /// The next `len` bytes.
    pub(crate) fn take(&mut self, len: usize) -> io::Result<Vec<u8>> {
        while self.buffer.len() < len {
            if !self.fill()? {
                return Err(self.cut_off());
            }
        }
        Ok(self.buffer.drain(..len).collect())
    }

    /// The next bytes up to `end`, which is among them.
    pub(crate) fn take_through(&mut self, end: &[u8]) -> io::Result<Vec<u8>> {
        let mut seen = 0;
        loop {
            let from = seen.min(self.buffer.len());
            if let Some(at) = memmem::find(&self.buffer[from..], end) {
                return self.take(from + at + end.len());
            }
            seen = self.buffer.len().saturating_sub(end.len() - 1);
            if !self.fill()? {
                return Err(self.cut_off());
            }
        }
    }

    fn cut_off(&self) -> io::Error {
        let had = String::from_utf8_lossy(&self.buffer);
        io::Error::new(ErrorKind::UnexpectedEof, format!("the other side ended after {had:?}"))
    }

    pub(crate) fn head(&mut self) -> Head {
        self.try_head().unwrap()
    }

    pub(crate) fn try_head(&mut self) -> io::Result<Head> {
        let text = String::from_utf8(self.take_through(b"\r\n\r\n")?).unwrap();
        let status = text.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
        Ok(Head { status, text })
    }

    /// The data of the next chunk, empty for the last one.
    pub(crate) fn chunk(&mut self) -> io::Result<Vec<u8>> {
        let size = self.take_through(b"\r\n")?;
        let size = str::from_utf8(&size).unwrap().trim_end();
        let size = usize::from_str_radix(size, 16).unwrap_or_else(|_| panic!("size {size:?}"));
        let mut data = self.take(size + 2)?;
        assert_eq!(data.split_off(size), b"\r\n");
        Ok(data)
    }

    /// Everything up to the end, which must be an orderly one.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.fill().unwrap() {}
        std::mem::take(&mut self.buffer)
    }

    /// Reads and forgets until the other side ends.
    pub(crate) fn end(&mut self) -> End {
        loop {
            self.buffer.clear();
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return End::Fin,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return End::Reset,
                Err(error) => panic!("no end: {error}"),
            }
        }
    }

    /// Whether the other side has neither ended nor said anything.
    pub(crate) fn is_open(&self) -> bool {
        self.socket.set_nonblocking(true).unwrap();
        let peeked = self.socket.peek(&mut [0]);
        self.socket.set_nonblocking(false).unwrap();
        peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Ends this side only, unless the other side has ended both by a reset.
    pub(crate) fn half_close(&self) {
        if let Err(error) = self.socket.shutdown(Shutdown::Write) {
            assert_eq!(error.kind(), ErrorKind::NotConnected, "{error}");
        }
    }

    /// Ends it with a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.socket).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}
