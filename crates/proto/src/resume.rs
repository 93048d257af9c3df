//! What a stream says of itself beside its events: what its connection is called, where it begins,
//! that something was missed, and up to where all is heard.
//!
//! A client that comes back gives the id of the last event that it has heard (`Last-Event-ID`,
//! WHATWG HTML, section 9.2.4). Where it has heard none it needs to know where its stream began.
//! Every answer's head says that ([`Begins`]). Who cannot read the head is told in the stream
//! ([`PlaceStyle`], [`Format::push_begin`](crate::Format::push_begin)), as far as that makes an
//! event of it for nobody: docs/decisions/0033.

use crate::cors::Cors;
pub use crate::place_style::PlaceStyle;
use crate::{append, response};

/// What the head of a stream says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Begins<'i> {
    /// What its connection is called, where there is a stream.
    pub connection: Option<&'i str>,
    /// The id from which a client goes on that has heard nothing more, where it can.
    pub next: Option<&'i str>,
    /// Whether events were missed up to there; the stream says it, too.
    pub gap: bool,
}

/// What a first message says of its stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FirstMessage<'i> {
    /// What its connection is called.
    pub connection: &'i str,
    /// The id from which a client goes on that has heard nothing more.
    pub next: &'i str,
    /// How long its client is to wait before it comes back.
    pub retry_ms: u32,
}

/// Ends the head of a stream, which says what it is called and where it begins.
pub fn end_head(out: &mut Vec<u8>, begins: Option<Begins<'_>>, cors: Option<Cors<'_>>) {
    if let Some(Begins { connection, next, gap }) = begins {
        debug_assert!(connection.is_none_or(is_plain) && next.is_none_or(is_plain));
        if let Some(connection) = connection {
            append::push(out, &["Encke-Connection: ", connection, "\r\n"]);
        }
        if let Some(next) = next {
            append::push(out, &["Encke-Next: ", next, "\r\n"]);
        }
        if gap {
            append::push(out, &["Encke-Gap: true\r\n"]);
        }
        if cors.is_some() {
            append::push(out, &[response::CORS_EXPOSED_OF_STREAM]);
        }
    }
    append::push(out, &["\r\n"]);
}

/// Whether an event's id, or a connection's, stands in a head, in a line and in JSON as it is.
pub(crate) fn is_plain(id: &str) -> bool {
    !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0000000000000001";

    #[test]
    fn head_says_where_the_stream_begins_and_pages_may_read_it() {
        let ended = |begins, cors| {
            let mut head = Vec::new();
            end_head(&mut head, begins, cors);
            String::from_utf8(head).unwrap()
        };
        assert_eq!(ended(None, Some(Cors::ANY)), "\r\n");
        let begins = |gap| Some(Begins { connection: None, next: Some(ID), gap });
        assert_eq!(ended(begins(false), None), "Encke-Next: 0000000000000001\r\n\r\n");
        let exposed =
            "Access-Control-Expose-Headers: Encke-Connection, Encke-Next, Encke-Gap\r\n\r\n";
        assert_eq!(
            ended(begins(true), Some(Cors::ANY)),
            format!("Encke-Next: 0000000000000001\r\nEncke-Gap: true\r\n{exposed}")
        );
        let classic = Begins { connection: Some("00000000000000ab"), ..Begins::default() };
        let told = "Encke-Connection: 00000000000000ab\r\n";
        assert_eq!(ended(Some(classic), None), format!("{told}\r\n"));
        assert_eq!(ended(Some(classic), Some(Cors::ANY)), format!("{told}{exposed}"));
    }
}
