//! A WebSocket client, by an implementation that is not ours.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, WebSocket};

use super::{DEADLINE, Wire, get};

/// A WebSocket that is open: the server has agreed.
pub(crate) struct Socket<S = TcpStream>(WebSocket<S>);

impl Socket {
    pub(crate) fn open(address: SocketAddr, path: &str) -> Socket {
        let socket = TcpStream::connect_timeout(&address, DEADLINE).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        socket.set_write_timeout(Some(DEADLINE)).unwrap();
        socket.set_nodelay(true).unwrap();
        Socket::on(socket, path)
    }

    /// The same, as bare bytes, for a client that breaks the rules.
    pub(crate) fn raw(address: SocketAddr, path: &str) -> Wire {
        let mut wire = Wire::connect(address);
        wire.send(get(path, &Socket::FIELDS));
        assert_eq!(wire.head().status, 101);
        wire
    }

    /// What a request needs to become a WebSocket; the key is the one of the RFC's example.
    pub(crate) const FIELDS: [&str; 4] = [
        "Connection: keep-alive, Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
}

impl<S: Read + Write> Socket<S> {
    /// Over what is open already, as TLS is.
    pub(crate) fn on(stream: S, path: &str) -> Socket<S> {
        let opened = tungstenite::client(format!("ws://localhost{path}"), stream);
        let Ok((socket, answer)) = opened else { panic!("{path}: no WebSocket") };
        assert_eq!(answer.status(), 101);
        Socket(socket)
    }

    pub(crate) fn send(&mut self, message: impl Into<Message>) {
        self.0.send(message.into()).unwrap();
    }

    /// The next message that is no ping; a ping is answered.
    pub(crate) fn message(&mut self) -> Message {
        loop {
            match self.0.read().unwrap() {
                Message::Ping(_) => {}
                message => return message,
            }
        }
    }

    /// The JSON of the next message, which is a text.
    pub(crate) fn json(&mut self) -> Value {
        let message = self.message();
        serde_json::from_str(message.to_text().unwrap()).unwrap()
    }

    /// The payload of the next event.
    pub(crate) fn data(&mut self) -> Value {
        let mut event = self.json();
        assert!(event["about"].is_string(), "{event}");
        event["data"].take()
    }

    /// Sends a command and returns its answer, which comes next.
    pub(crate) fn ask(&mut self, command: Value) -> Value {
        self.send(command.to_string());
        self.json()
    }

    /// Sends what is no command; the problem that it is answered with.
    pub(crate) fn problem(&mut self, message: impl Into<Message>) -> Value {
        self.send(message);
        let mut answer = self.json();
        super::check_problem(&answer["error"], 400);
        answer["error"].take()
    }

    /// The close frame that comes, perhaps after other messages, and an orderly end behind it.
    pub(crate) fn end(&mut self) -> (CloseCode, String) {
        let close = loop {
            if let Message::Close(close) = self.0.read().unwrap() {
                break close.expect("the server says why");
            }
        };
        // Our answer goes out with the next read, which meets the end.
        match self.0.read() {
            Err(Error::ConnectionClosed) => {}
            other => panic!("no end after a close frame: {other:?}"),
        }
        (close.code, close.reason.to_string())
    }

    /// Ends it as a page does, and returns what the server echoes.
    pub(crate) fn close(mut self, code: CloseCode) -> CloseCode {
        let close = tungstenite::protocol::CloseFrame { code, reason: "bye".into() };
        self.0.close(Some(close)).unwrap();
        self.end().0
    }

    /// Whether the other side has reset the connection, once it has ended.
    pub(crate) fn is_reset(&mut self) -> bool {
        loop {
            match self.0.read() {
                Ok(_) => {}
                Err(Error::Io(error)) => return error.kind() == ErrorKind::ConnectionReset,
                Err(_) => return false,
            }
        }
    }
}

/// A client's frame with a payload of at most 65,535 bytes, masked: `first` holds the bits and the
/// opcode.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = vec![first];
    match payload.len() {
        len @ ..=125 => frame.push(0x80 | len as u8),
        len => {
            frame.push(0x80 | 126);
            frame.extend(u16::try_from(len).unwrap().to_be_bytes());
        }
    }
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}
