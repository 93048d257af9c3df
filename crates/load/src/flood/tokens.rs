//! The tokens that listeners show, where a server wants them.
//!
//! How one is made is the caller's affair. A listener's is made when it connects, and for each poll
//! anew, so that none is kept: with a secret (HS256) that costs less than the connect's own
//! system calls.

use std::fmt::{self, Debug};
use std::sync::Arc;

/// A longer token could not stand in a head (8 KiB at Encke) beside the rest of it.
pub(super) const TOKEN_BYTES_MAX: usize = 6 * 1024;

/// Makes a token for an id.
#[derive(Clone)]
pub struct Tokens(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl Tokens {
    /// `sign` makes a token for the id that it is given; many threads call it.
    pub fn new(sign: impl Fn(&str) -> String + Send + Sync + 'static) -> Tokens {
        Tokens(Arc::new(sign))
    }

    /// The token of `id`.
    pub(super) fn sign(&self, id: &str) -> String {
        (self.0)(id)
    }
}

impl Debug for Tokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Tokens(…)")
    }
}

/// Whether both are the same, not whether both do the same.
impl PartialEq for Tokens {
    fn eq(&self, other: &Tokens) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
