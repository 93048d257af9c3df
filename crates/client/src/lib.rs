//! The client half of the protocol: reads what a server of streams writes. Used by the load tools
//! and by `encke listen`, which must take any server's stream, not only Encke's. The server half is
//! `proto`.
//!
//! Nothing here reads a socket, a clock or a random number, and nothing here can panic, whatever
//! the bytes are.
//!
//! A million connections are read by one decoder each, so a decoder owns no buffer. The caller
//! reads into one buffer of its own, feeds what came, and gets events that point into it. A decoder
//! allocates only while an event is split over two reads.
//!
//! - [`response_head`] reads the head (RFC 9112);
//! - [`StreamDecoder`] reads the body behind it: framing ([`ChunkedDecoder`]) and events
//!   ([`SseDecoder`], [`LineDecoder`]), or what follows the handshake ([`WebSocketDecoder`]).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod chunked;
mod head;
mod lines;
mod sse;
mod websocket;

pub use chunked::{ChunkError, ChunkedDecoder};
pub use head::{HEAD_BYTES_MAX, HeadError, ResponseHead, response_head};
pub use lines::LineDecoder;
pub use sse::SseDecoder;
pub use websocket::{Reply, WebSocketDecoder, accepts, key, push_reply, push_text, push_upgrade};

use proto::Transport;
use proto::websocket::ReadError;

/// The longest event that a decoder puts together from pieces, so that a server that never ends
/// one cannot fill the client's memory.
pub const EVENT_BYTES_MAX: usize = 1024 * 1024;

/// One event, as it stood on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event<'b> {
    /// SSE's `id` line, when there was one.
    pub id: Option<&'b [u8]>,
    /// SSE's `event` line; mostly empty.
    pub name: &'b [u8],
    /// What the event says; empty where SSE only tells an id (see [`Event::is_position`]): SSE's
    /// `data`, a line of NDJSON, the quoted text of the classic page, a
    /// message of a WebSocket.
    pub data: &'b [u8],
}

impl Event<'_> {
    /// Whether this is no event, but SSE's word on where the stream stands.
    pub fn is_position(&self) -> bool {
        self.id.is_some() && self.data.is_empty()
    }
}

/// Why an event could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventError {
    /// An event is longer than [`EVENT_BYTES_MAX`].
    TooLong,
}

/// Why a stream could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// The framing is broken.
    Chunk(ChunkError),
    /// An event is.
    Event(EventError),
    /// A frame of a WebSocket is.
    Frame(ReadError),
}

impl std::fmt::Display for StreamError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StreamError::Chunk(error) => error.fmt(f),
            StreamError::Event(EventError::TooLong) => f.write_str("an event is over 1 MiB"),
            StreamError::Frame(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StreamError {}

impl From<ChunkError> for StreamError {
    fn from(error: ChunkError) -> StreamError {
        StreamError::Chunk(error)
    }
}

impl From<EventError> for StreamError {
    fn from(error: EventError) -> StreamError {
        StreamError::Event(error)
    }
}

impl From<ReadError> for StreamError {
    fn from(error: ReadError) -> StreamError {
        match error {
            ReadError::TooLong => EventError::TooLong.into(),
            _ => StreamError::Frame(error),
        }
    }
}

/// How the end of a body is known (RFC 9112, section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BodyLength {
    /// The last chunk says so.
    Chunked,
    /// After so many bytes.
    Known(u64),
    /// When the connection closes.
    UntilClose,
}

/// Whether more of a body may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Yes.
    More,
    /// No: the server ended the body, as HTTP says, or sent a WebSocket's close frame.
    End,
}

/// Reads the body of one stream: framing, then events.
#[derive(Debug)]
pub struct StreamDecoder {
    framing: FramingDecoder,
    events: EventDecoder,
}

#[derive(Debug)]
enum FramingDecoder {
    Chunked(ChunkedDecoder),
    Known(u64),
    UntilClose,
    /// None of HTTP's: the events end by themselves.
    Upgraded,
}

#[derive(Debug)]
enum EventDecoder {
    Sse(SseDecoder),
    Ndjson(LineDecoder),
    Classic(LineDecoder),
    WebSocket(WebSocketDecoder),
    Poll(LineDecoder),
}

impl StreamDecoder {
    /// A decoder for a body that has not begun. What follows the head of a WebSocket is no body, so
    /// `body` does not matter there.
    pub fn new(transport: Transport, body: BodyLength) -> StreamDecoder {
        let framing = match body {
            _ if transport.is_websocket() => FramingDecoder::Upgraded,
            BodyLength::Chunked => FramingDecoder::Chunked(ChunkedDecoder::default()),
            BodyLength::Known(left) => FramingDecoder::Known(left),
            BodyLength::UntilClose => FramingDecoder::UntilClose,
        };
        let events = match transport {
            Transport::Sse | Transport::Mercure => EventDecoder::Sse(SseDecoder::default()),
            Transport::Ndjson => EventDecoder::Ndjson(LineDecoder::default()),
            Transport::Classic => EventDecoder::Classic(LineDecoder::default()),
            Transport::WebSocket | Transport::Pusher => {
                EventDecoder::WebSocket(WebSocketDecoder::default())
            }
            Transport::Poll => EventDecoder::Poll(LineDecoder::default()),
        };
        StreamDecoder { framing, events }
    }

    /// Whether only the end of the connection ends this body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.framing, FramingDecoder::UntilClose)
    }

    /// What the server of a WebSocket is to be answered, once; asked for after each
    /// [`feed`](StreamDecoder::feed).
    pub fn take_reply(&mut self) -> Option<Reply> {
        match &mut self.events {
            EventDecoder::WebSocket(decoder) => decoder.take_reply(),
            _ => None,
        }
    }

    /// Reads what came next and hands each event that ends in it to `on_event`. After
    /// [`Progress::End`] whatever else comes is left alone.
    ///
    /// # Errors
    /// The stream cannot be read any further: close it.
    pub fn feed(
        &mut self,
        bytes: &[u8],
        mut on_event: impl FnMut(Event<'_>),
    ) -> Result<Progress, StreamError> {
        let ended = match &mut self.framing {
            FramingDecoder::Chunked(chunks) => {
                let mut input = bytes;
                while let Some(body) = chunks.next(&mut input)? {
                    self.events.feed(body, &mut on_event)?;
                }
                chunks.is_end()
            }
            FramingDecoder::Known(left) => {
                let len = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
                self.events.feed(&bytes[..len], &mut on_event)?;
                *left -= len as u64;
                *left == 0
            }
            FramingDecoder::UntilClose | FramingDecoder::Upgraded => {
                self.events.feed(bytes, &mut on_event)? == Progress::End
            }
        };
        Ok(if ended { Progress::End } else { Progress::More })
    }
}

impl EventDecoder {
    fn feed(
        &mut self,
        body: &[u8],
        on_event: &mut impl FnMut(Event<'_>),
    ) -> Result<Progress, StreamError> {
        match self {
            EventDecoder::Sse(sse) => sse.feed(body, on_event)?,
            EventDecoder::Ndjson(lines) => lines.feed(body, &mut |line| {
                lines::ndjson_event(line).into_iter().for_each(&mut *on_event)
            })?,
            EventDecoder::Classic(lines) => lines.feed(body, &mut |line| {
                lines::classic_event(line).into_iter().for_each(&mut *on_event)
            })?,
            EventDecoder::Poll(lines) => lines.feed(body, &mut |line| {
                lines::poll_event(line).into_iter().for_each(&mut *on_event)
            })?,
            EventDecoder::WebSocket(frames) => return frames.feed(body, on_event),
        }
        Ok(Progress::More)
    }
}

#[cfg(test)]
mod tests;
