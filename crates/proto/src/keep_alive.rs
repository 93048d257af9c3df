//! What each transport sends so that everybody on the way knows that a silent stream is alive.

use crate::{Framing, Transport, classic, ndjson, sse, websocket};

impl Transport {
    /// What a silent stream sends so that everybody on the way knows that it is alive: bytes that
    /// a client of this transport must ignore, or answer as a WebSocket's ping. A poll has none:
    /// its answer is the sign.
    pub const fn keep_alive(self, framing: Framing) -> &'static [u8] {
        match (self, framing) {
            (Transport::Sse, Framing::Close) => sse::KEEP_ALIVE,
            (Transport::Sse, Framing::Chunked) => sse::KEEP_ALIVE_CHUNK,
            (Transport::Ndjson, Framing::Close) => ndjson::KEEP_ALIVE,
            (Transport::Ndjson, Framing::Chunked) => ndjson::KEEP_ALIVE_CHUNK,
            (Transport::Classic, Framing::Close) => classic::KEEP_ALIVE,
            (Transport::Classic, Framing::Chunked) => classic::KEEP_ALIVE_CHUNK,
            (Transport::WebSocket, _) => websocket::KEEP_ALIVE,
            (Transport::Poll, _) => b"",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunked;

    #[test]
    fn keep_alive_chunk_holds_the_plain_keep_alive() {
        for transport in [Transport::Sse, Transport::Ndjson, Transport::Classic] {
            let mut chunk = Vec::new();
            chunked::push(&mut chunk, transport.keep_alive(Framing::Close));
            assert_eq!(transport.keep_alive(Framing::Chunked), chunk, "{transport:?}");
        }
    }
}
