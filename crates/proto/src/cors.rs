//! The leave that an answer gives to a page of another origin (Fetch Standard, section 3.2.3).

use crate::append::push;

/// Whom an answer lets in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cors<'o> {
    /// The page's origin; `*` is any, which a browser takes only without credentials.
    pub origin: &'o str,
    /// Whether the page may send cookies, and read what is answered to them.
    pub credentials: bool,
}

impl<'o> Cors<'o> {
    /// Any page may read the answer, as long as it sent no cookies.
    pub const ANY: Cors<'static> = Cors { origin: "*", credentials: false };

    /// Pages of `origin`, without cookies.
    pub fn plain(origin: &'o str) -> Cors<'o> {
        Cors { origin, credentials: false }
    }

    /// Says whether it let the origin in. One with control characters, which could forge a line of
    /// the head, is never let in; the request parser does not let such a one through either.
    pub(crate) fn push(self, out: &mut Vec<u8>) -> bool {
        if self.origin.contains(|c: char| c.is_control()) {
            return false;
        }
        push(out, &["Access-Control-Allow-Origin: ", self.origin, "\r\nVary: Origin\r\n"]);
        if self.credentials {
            push(out, &["Access-Control-Allow-Credentials: true\r\n"]);
        }
        true
    }
}
