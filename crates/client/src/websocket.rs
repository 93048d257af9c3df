//! The client of a WebSocket (RFC 6455): the fields that ask for one, the frames that it reads and
//! those that it sends.
//!
//! Random numbers are the caller's: a nonce for the key, and a new masking key for each frame.
//! Nobody may foresee the latter where a page chooses what is sent (section 5.3).
//!
//! Frames are put together to messages by the server's [`Reader`]. A message that stands whole in
//! the caller's buffer, as servers of small events send it, is handed on in place. Only one that is
//! split over reads or fragments is put together in a buffer. That is given back as soon as the
//! message is out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use proto::websocket::{Opcode, Reader, Received, Rules, handshake, push_masked};

use crate::{EVENT_BYTES_MAX, Event, Progress, StreamError};

/// The key of a handshake (section 4.1): 16 bytes, of which 24 characters are made.
pub fn key(nonce: [u8; 16]) -> [u8; 24] {
    let mut key = [0; 24];
    let len = STANDARD.encode_slice(nonce, &mut key);
    debug_assert_eq!(len, Ok(24), "16 bytes are 24 characters");
    key
}

/// Appends the fields of a request that asks for a WebSocket, each with its line end.
pub fn push_upgrade(key: &[u8; 24], out: &mut Vec<u8>) {
    out.extend_from_slice(
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
          Sec-WebSocket-Key: ",
    );
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

/// Whether the server's `Sec-WebSocket-Accept` is the answer to `key` (section 4.1): else it is no
/// server of WebSockets.
pub fn accepts(key: &[u8; 24], accept: &str) -> bool {
    accept.trim_ascii().as_bytes() == handshake::accept(key)
}

/// Appends `text` as one message, masked with `mask`.
pub fn push_text(text: &str, mask: [u8; 4], out: &mut Vec<u8>) {
    push_masked(out, Opcode::Text, text.as_bytes(), mask);
}

/// Appends what a client owes its server, masked with `mask`.
pub fn push_reply(reply: &Reply, mask: [u8; 4], out: &mut Vec<u8>) {
    match reply {
        Reply::Pong(payload) => push_masked(out, Opcode::Pong, payload, mask),
        Reply::Close { code, reason } => {
            let code = code.map(u16::to_be_bytes);
            let payload = [code.as_ref().map_or(&[][..], |code| code), reason.as_bytes()].concat();
            push_masked(out, Opcode::Close, &payload, mask);
        }
    }
}

/// What a server may send: messages of the length that all transports have, none compressed, since
/// this client does not offer that.
const RULES: Rules = Rules { message_bytes_max: EVENT_BYTES_MAX, deflate: false };

/// Where a reader stands in one WebSocket.
#[derive(Debug, Default)]
pub struct WebSocketDecoder {
    /// What is half there.
    open: Option<Box<Open>>,
    /// What the server is to be answered.
    reply: Option<Box<Reply>>,
}

/// A control frame that a client owes its server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// The answer to the last ping, with its payload (section 5.5.3).
    Pong(Vec<u8>),
    /// The answer to the server's close frame, which says the same (section 5.5.1).
    Close {
        /// The server's code, when it gave one.
        code: Option<u16>,
        /// Its words.
        reason: String,
    },
}

#[derive(Debug, Default)]
struct Open {
    reader: Reader,
    buffer: Vec<u8>,
}

impl WebSocketDecoder {
    /// Reads what came next and hands each message that ends in it to `on_event`. After
    /// [`Progress::End`], which a close frame is, whatever else comes is left alone.
    ///
    /// # Errors
    /// The server broke a rule, or a message is longer than [`EVENT_BYTES_MAX`].
    pub fn feed(
        &mut self,
        bytes: &[u8],
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Progress, StreamError> {
        let mut input = bytes;
        let mut open = self.open.take().map_or_else(Open::default, |open| *open);
        let mut progress = Progress::More;
        while let Some(received) = open.reader.next(&mut input, &mut open.buffer, RULES)? {
            let mut on_data = |data| on_event(Event { id: None, name: b"", data });
            match received {
                Received::Text(text) => on_data(text.as_bytes()),
                Received::Binary(data) | Received::Compressed { bytes: data, .. } => on_data(data),
                Received::Pong(_) => {}
                Received::Ping(payload) => self.owe(Reply::Pong(payload.to_vec())),
                Received::Close { code, reason } => {
                    self.owe(Reply::Close { code, reason: reason.to_owned() });
                    progress = Progress::End;
                }
            }
        }
        if !open.reader.is_idle() {
            self.open = Some(Box::new(open));
        }
        Ok(progress)
    }

    /// What the server is to be answered, once. Of several pings only the last one is, which
    /// section 5.5.3 lets a client do.
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take().map(|reply| *reply)
    }

    fn owe(&mut self, reply: Reply) {
        self.reply = Some(Box::new(reply));
    }
}

#[cfg(test)]
mod tests;
