//! The client of a WebSocket (RFC 6455): the fields that ask for one, the frames that it reads and
//! those that it sends.
//!
//! Random numbers are the caller's: a nonce for the key, and a new masking key for each frame,
//! which nobody may foresee where a page chooses what is sent (section 5.3).
//!
//! A message that stands whole in the caller's buffer, which is what servers of small events send,
//! is handed on in place; only one that is split over reads or fragments is put together in a
//! buffer, which is given back as soon as the message is out. Whether a text is UTF-8 is left to
//! whoever reads it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::client::{EVENT_BYTES_MAX, Event, EventError, Progress, StreamError};
use crate::websocket::frame::FrameHead;
use crate::websocket::head::{FIN, Head, MASKED, Opcode, PartialHead};
use crate::websocket::{ReadError, handshake, mask};

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
    push(Opcode::Text, text.as_bytes(), mask, out);
}

/// Appends what a client owes its server, masked with `mask`.
pub fn push_reply(reply: &Reply, mask: [u8; 4], out: &mut Vec<u8>) {
    match reply {
        Reply::Pong(payload) => push(Opcode::Pong, payload, mask, out),
        Reply::Close(payload) => push(Opcode::Close, payload, mask, out),
    }
}

fn push(opcode: Opcode, payload: &[u8], key: [u8; 4], out: &mut Vec<u8>) {
    out.extend_from_slice(FrameHead::new(FIN | opcode as u8, MASKED, payload.len()).as_bytes());
    out.extend_from_slice(&key);
    let start = out.len();
    out.extend_from_slice(payload);
    mask::apply(&mut out[start..], key);
}

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
    /// The answer to the server's close frame, with its payload (section 5.5.1).
    Close(Vec<u8>),
}

#[derive(Debug, Default)]
struct Open {
    head: PartialHead,
    frame: Option<Head>,
    /// Bytes of the frame's payload that are still to come.
    left: u64,
    /// The fragments of a message, then what came of the frame.
    partial: Vec<u8>,
    /// Bytes of `partial` that are fragments.
    kept: usize,
    in_message: bool,
}

impl Open {
    fn is_idle(&self) -> bool {
        self.head.is_empty() && self.frame.is_none() && !self.in_message
    }
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
        let progress = loop {
            match self.step(&mut open, &mut input, on_event)? {
                Some(Progress::More) => {}
                Some(Progress::End) => break Progress::End,
                None => break Progress::More,
            }
        };
        if !open.is_idle() {
            self.open = Some(Box::new(open));
        }
        Ok(progress)
    }

    /// What the server is to be answered, once. Of several pings only the last one is, which
    /// section 5.5.3 lets a client do.
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take().map(|reply| *reply)
    }

    /// One frame. `None` when the input is used up.
    fn step(
        &mut self,
        open: &mut Open,
        input: &mut &[u8],
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Option<Progress>, StreamError> {
        let frame = match open.frame {
            Some(frame) => frame,
            None => {
                let (len, head) = open.head.gather(input, false, false)?;
                *input = &input[len..];
                let Some(head) = head else { return Ok(None) };
                begin(open, head)?;
                head
            }
        };
        let len = usize::try_from(open.left).map_or(input.len(), |left| left.min(input.len()));
        let (piece, rest) = input.split_at(len);
        *input = rest;
        open.left -= len as u64;
        let is_control = frame.opcode.is_control();
        let is_whole = open.left == 0 && frame.fin;
        let start = if is_control { open.kept } else { 0 };
        let payload = if is_whole && open.partial.len() == start {
            piece
        } else {
            open.partial.extend_from_slice(piece);
            &open.partial[start..]
        };
        if open.left > 0 {
            open.frame = Some(frame);
            return Ok(None);
        }
        open.frame = None;
        let mut progress = Progress::More;
        match frame.opcode {
            Opcode::Pong => {}
            Opcode::Ping => self.reply = Some(Box::new(Reply::Pong(payload.to_vec()))),
            Opcode::Close => {
                self.reply = Some(Box::new(Reply::Close(payload.to_vec())));
                progress = Progress::End;
            }
            Opcode::Text | Opcode::Binary | Opcode::Continuation => {
                open.in_message = !frame.fin;
                if frame.fin {
                    on_event(Event { id: None, name: b"", data: payload });
                    open.kept = 0;
                } else {
                    open.kept = open.partial.len();
                }
            }
        }
        open.partial.truncate(open.kept);
        Ok(Some(progress))
    }
}

/// Checks a head against what came before it.
fn begin(open: &mut Open, head: Head) -> Result<(), StreamError> {
    match head.opcode {
        Opcode::Continuation if !open.in_message => return Err(ReadError::NothingToContinue.into()),
        Opcode::Text | Opcode::Binary if open.in_message => {
            return Err(ReadError::MessageInMessage.into());
        }
        Opcode::Continuation | Opcode::Text | Opcode::Binary => {
            if head.payload_len > (EVENT_BYTES_MAX - open.kept) as u64 {
                return Err(EventError::TooLong.into());
            }
            open.in_message = true;
        }
        Opcode::Close | Opcode::Ping | Opcode::Pong => {}
    }
    open.left = head.payload_len;
    Ok(())
}

#[cfg(test)]
mod tests;
