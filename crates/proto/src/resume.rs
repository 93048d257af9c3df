//! What a stream says of the place where it stands, beside its events: where it begins, that
//! something was missed, and up to where all is heard.
//!
//! A client that comes back gives the id of the last event that it has heard (`Last-Event-ID`,
//! WHATWG HTML, section 9.2.4). Where it has heard none it needs to know where its stream began.
//! Every answer's head says that ([`Begins`]). Who cannot read the head is told in the stream
//! ([`Told`], [`Format::push_begin`](crate::Format::push_begin)), as far as that makes an event of
//! it for nobody: docs/decisions/0033.

use crate::cors::Cors;
pub use crate::told::Told;
use crate::{append, response};

/// Where a stream begins, as its head says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Begins<'i> {
    /// The id from which a client goes on that has heard nothing more.
    pub next: &'i str,
    /// Whether events were missed up to there; the stream says it, too.
    pub gap: bool,
}

/// Ends the head of a stream, which says where it begins.
pub fn end_head(out: &mut Vec<u8>, begins: Option<Begins<'_>>, cors: Option<Cors<'_>>) {
    if let Some(Begins { next, gap }) = begins {
        debug_assert!(is_plain(next));
        append::push(out, &["Encke-Next: ", next, "\r\n"]);
        if gap {
            append::push(out, &["Encke-Gap: true\r\n"]);
        }
        if cors.is_some() {
            append::push(out, &[response::CORS_EXPOSED]);
        }
    }
    append::push(out, &["\r\n"]);
}

/// Whether an event's id stands in a head, in a line and in JSON as it is.
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
        let begins = |gap| Some(Begins { next: ID, gap });
        assert_eq!(ended(begins(false), None), "Encke-Next: 0000000000000001\r\n\r\n");
        assert_eq!(
            ended(begins(true), Some(Cors::ANY)),
            "Encke-Next: 0000000000000001\r\nEncke-Gap: true\r\n\
             Access-Control-Expose-Headers: Encke-Next, Encke-Gap\r\n\r\n"
        );
    }
}
