//! Watchlists out of the stored graph: whom a user follows, which the control plane knows.

use hub::ConnRef;

use crate::questions::Question;

/// Users whose watchlists wait to be read; further ones have none.
pub(super) const FOLLOWED_WAITING_MAX: usize = 65_536;

/// A connection has signed in whose watchlist are those whom its user follows.
#[derive(Debug)]
pub struct FollowedAsk {
    pub(crate) conn: ConnRef,
    pub(crate) user: Box<str>,
}

impl Question for FollowedAsk {
    fn bytes(&self) -> usize {
        self.user.len()
    }
}

impl FollowedAsk {
    /// The connection that is to be told.
    pub fn conn(&self) -> ConnRef {
        self.conn
    }

    /// The user.
    pub fn user(&self) -> &str {
        &self.user
    }
}

/// Whom a user follows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Followed {
    /// As many as a watchlist holds.
    pub ids: Vec<String>,
    /// There are more.
    pub is_cut: bool,
}
