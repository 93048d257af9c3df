//! WebSocket (RFC 6455), the server half, and the reader and the frames of both halves.
//!
//! - [`handshake`] checks what a client asks for and writes the head that agrees to it;
//! - [`event`] is an event's [`Frame`](crate::Frame), which all connections share;
//!   [`push_text`], [`push_ping`], [`push_pong`] and [`push_close`] write what is for one of them;
//! - [`push_masked`] writes what a client sends;
//! - [`Reader`] reads what the other side sends, over slices of the caller's buffer;
//! - [`deflate`] compresses events and decompresses messages, where both sides agreed to it;
//! - [`command`] is what its text messages may say, and what they are answered;
//! - [`close`] are the codes and reasons with which a connection ends.
//!
//! Nothing here owns a buffer. A client that sends its frames whole, as all browsers do, is read in
//! place: nothing is copied and nothing is kept from one read to the next. What a frame or a
//! message that comes in pieces needs meanwhile is a [`Reader`] of 40 bytes and a buffer, both the
//! caller's to hold and to drop.
//!
//! A server sends no fragments (section 5.4 leaves it free), no binary messages, and answers a ping
//! only through its caller.

pub mod close;
pub mod command;
pub mod deflate;
mod error;
mod extensions;
pub(crate) mod frame;
pub mod handshake;
pub(crate) mod head;
pub(crate) mod mask;
mod read;
#[cfg(test)]
mod tests;
mod token;
mod utf8;

pub use close::{Close, CloseCode};
pub use error::ReadError;
pub(crate) use frame::KEEP_ALIVE;
pub use frame::{
    event, push_close, push_close_code, push_close_echo, push_masked, push_ping, push_pong,
    push_text,
};
pub use head::Opcode;
pub use read::{Input, Reader, Received, Rules};

/// The most bytes that a control frame may carry (section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;
