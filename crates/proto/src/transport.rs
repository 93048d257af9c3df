//! The closed list of transports, and how the body of a stream is delimited.

use crate::chunked;

/// How one client hears events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Transport {
    /// Server-Sent Events: `text/event-stream`.
    Sse = 0,
    /// One line of JSON per event: `application/x-ndjson`.
    Ndjson = 1,
    /// The comet page of old: one line of HTML per event, `text/html`.
    Classic = 2,
    /// A text frame per event (RFC 6455); it has no use for a [`Framing`].
    WebSocket = 3,
    /// An array of JSON in an answer of its own, and the next request asks for the next ones.
    Poll = 4,
}

impl Transport {
    /// How many there are: the length of a table with a place for each.
    pub const COUNT: usize = 5;
    /// Each one, at its [`index`](Transport::index).
    pub const ALL: [Transport; Transport::COUNT] =
        [Self::Sse, Self::Ndjson, Self::Classic, Self::WebSocket, Self::Poll];

    /// Its place in a table of [`COUNT`](Transport::COUNT) entries.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Its name in logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transport::Sse => "sse",
            Transport::Ndjson => "ndjson",
            Transport::Classic => "classic",
            Transport::WebSocket => "websocket",
            Transport::Poll => "poll",
        }
    }
}

/// How the body of a stream is delimited (RFC 9112, section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Framing {
    /// HTTP/1.1: each frame is a chunk, and a stream that ends well says so.
    Chunked = 0,
    /// HTTP/1.0, which knows no chunks: the body is everything until the connection closes.
    Close = 1,
}

impl Framing {
    /// What a server sends before it closes a stream that ends well; empty where HTTP has no word
    /// for it.
    pub const fn end(self) -> &'static [u8] {
        match self {
            Framing::Chunked => chunked::LAST,
            Framing::Close => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_stand_at_their_index() {
        for (index, transport) in Transport::ALL.into_iter().enumerate() {
            assert_eq!(transport.index(), index);
        }
    }
}
