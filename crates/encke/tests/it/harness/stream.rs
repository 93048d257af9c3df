//! A client that hears events.

use std::net::SocketAddr;

use serde_json::Value;

use super::{End, Head, Wire};

/// A request for `path`, as a plain client of HTTP/1.1 writes it; `fields` are whole lines.
pub(crate) fn get(path: &str, fields: &[&str]) -> String {
    let mut request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n");
    fields.iter().for_each(|field| request.extend([field, "\r\n"]));
    request + "\r\n"
}

/// A stream that is logged in: its head has come, and nothing of its body is read.
pub(crate) struct Stream {
    pub(crate) wire: Wire,
    pub(crate) head: Head,
    /// Where its head says that it begins, if anywhere.
    pub(crate) cursor: Option<String>,
}

impl Stream {
    pub(crate) fn open(address: SocketAddr, path: &str, accept: &str) -> Stream {
        Stream::on(Wire::connect(address), path, accept)
    }

    /// Opens it on a connection that stands.
    pub(crate) fn on(mut wire: Wire, path: &str, accept: &str) -> Stream {
        wire.send(get(path, &[&format!("Accept: {accept}")]));
        let head = wire.head();
        assert_eq!(head.status, 200, "{}", head.text);
        let cursor = head.field("encke-next").map(str::to_owned);
        Stream { wire, head, cursor }
    }

    /// The next chunk as text.
    pub(crate) fn chunk(&mut self) -> String {
        String::from_utf8(self.wire.chunk().unwrap()).unwrap()
    }

    /// The next event of an NDJSON stream. On a busy machine a keep-alive may come before it.
    pub(crate) fn event(&mut self) -> Value {
        let mut line = self.chunk();
        while line == "\n" {
            line = self.chunk();
        }
        assert!(line.ends_with('\n') && line.trim_end().lines().count() == 1, "{line:?}");
        serde_json::from_str(&line).unwrap()
    }

    /// The payload of the next event of an NDJSON stream.
    pub(crate) fn data(&mut self) -> Value {
        self.event()["data"].take()
    }

    /// The stream ends well: last chunk, then FIN.
    pub(crate) fn expect_last_chunk(&mut self) {
        assert_eq!(self.chunk(), "");
        assert_eq!(self.wire.end(), End::Fin);
    }

    pub(crate) fn end(&mut self) -> End {
        self.wire.end()
    }
}
