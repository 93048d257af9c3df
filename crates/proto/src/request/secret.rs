//! What of a request may be a token, and is shown to nobody, not even to people who debug.

use std::borrow::Cow;
use std::fmt;

/// What the sub-protocol begins with that is a token.
pub(crate) const PROTOCOL_PREFIX: &str = "encke.bearer.";

/// Text of a client that may hold its token.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret<'b>(pub(crate) Cow<'b, str>);

impl Secret<'_> {
    /// The text itself.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl<'b> From<&'b str> for Secret<'b> {
    fn from(text: &'b str) -> Secret<'b> {
        Secret(text.into())
    }
}

impl fmt::Debug for Secret<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("…")
    }
}
