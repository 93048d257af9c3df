//! Connections that are signed in as a user of their app (`crate::shard::channels::users`).

use std::collections::HashMap;

use hub::Id;
use pusher::User;

/// A user, its room, and its key as the member of that.
pub(in crate::shard) struct SignedInUser {
    pub(in crate::shard) user: User,
    pub(in crate::shard) room: Id,
    pub(in crate::shard) sub: Id,
}

/// The users of connections, by slot.
#[derive(Default)]
pub(in crate::shard) struct SignedIn(pub(in crate::shard) HashMap<u32, Box<SignedInUser>>);

impl SignedIn {
    /// The user that the connection in `slot` is signed in as.
    pub(in crate::shard) fn user(&self, slot: u32) -> Option<&User> {
        self.0.get(&slot).map(|signed_in| &signed_in.user)
    }
}
