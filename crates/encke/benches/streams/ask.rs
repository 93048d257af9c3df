//! Requests on a connection that is kept, and the heads of their answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use memchr::memmem;

/// The head of an answer.
pub(crate) struct AnswerHead {
    pub(crate) status: u16,
    /// Bytes of the head, its blank line included.
    pub(crate) len: usize,
    /// Bytes of the body behind it, if it says so.
    pub(crate) body: usize,
    /// Whether the connection ends with it.
    pub(crate) closes: bool,
}

impl AnswerHead {
    /// The first head in `bytes`, once it is whole.
    pub(crate) fn of(bytes: &[u8]) -> Option<AnswerHead> {
        let len = memmem::find(bytes, b"\r\n\r\n")? + 4;
        let text = std::str::from_utf8(&bytes[..len]).unwrap().to_ascii_lowercase();
        let field = |name: &str| text.split("\r\n").find_map(|line| line.strip_prefix(name));
        let body = field("content-length: ").map_or(0, |len| len.parse().unwrap());
        let closes = field("connection: ") == Some("close");
        Some(AnswerHead { status: text[9..12].parse().unwrap(), len, body, closes })
    }
}

/// A client that waits for each answer.
pub(crate) struct Client {
    address: SocketAddr,
    socket: TcpStream,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        Client { address, socket }
    }

    /// Asks for something about the stream at `path`, and waits for the answer's status.
    pub(crate) fn ask(&mut self, method: &str, path: &str, fields: &str, body: &str) -> u16 {
        let request = format!(
            "{method} /v1/stream/{path} HTTP/1.1\r\nHost: localhost\r\n{fields}\
             Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.socket.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        let head = loop {
            let read = self.socket.read(&mut buffer).unwrap();
            assert!(read > 0, "the connection ends without an answer");
            answer.extend_from_slice(&buffer[..read]);
            match AnswerHead::of(&answer) {
                Some(head) if answer.len() >= head.len + head.body => break head,
                _ => {}
            }
        };
        if head.closes {
            *self = Client::new(self.address);
        }
        head.status
    }
}
