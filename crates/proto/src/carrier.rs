//! How the bytes of a stream travel: what stands around each piece, whether the client may speak
//! meanwhile, and how it ends.

use crate::chunked;

/// How the bytes of one stream travel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Carrier {
    /// The body of an answer of HTTP/1.1: each piece is a chunk, and a stream that ends well says
    /// so (RFC 9112, section 7.1).
    Chunked = 0,
    /// The body of an answer of HTTP/1.0, which knows no chunks: it is everything until the
    /// connection closes (RFC 9112, section 6.3).
    Close = 1,
    /// Messages of a WebSocket (RFC 6455): the client may send some, too.
    WebSocket = 2,
}

impl Carrier {
    /// Each one, at its number.
    pub const ALL: [Carrier; 3] = [Self::Chunked, Self::Close, Self::WebSocket];

    /// Whether the client may say something once its stream is open.
    pub const fn has_messages(self) -> bool {
        matches!(self, Carrier::WebSocket)
    }

    /// What a server sends before it closes a stream that ends well; empty where that is not said,
    /// or says why ([`push_close`](crate::websocket::push_close)).
    pub const fn end(self) -> &'static [u8] {
        match self {
            Carrier::Chunked => chunked::LAST,
            Carrier::Close | Carrier::WebSocket => b"",
        }
    }
}
