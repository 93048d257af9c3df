//! What connections are called outside ([`hub::ConnectionId`]), and those that an event
//! leaves out.
//!
//! An id is computed of where the connection is. A connection that has come from another process is
//! in another place than it was. The id that its client knows it by is kept, 8 bytes for each such
//! connection and none for any other.

use hub::{ConnRef, ConnectionId};

use super::core::{At, Core};
use crate::mailbox::Targets;
use crate::sockets::Sockets;

impl<S: Sockets> Core<S> {
    /// The id of the connection at `conn`, which lives.
    pub(super) fn connection_id(&self, conn: ConnRef) -> ConnectionId {
        let kept = self.kept_ids.get(conn.slot() as u32);
        kept.unwrap_or_else(|| self.connection_ids.id(conn))
    }

    /// The connection was known by `id` where it came from.
    pub(super) fn keep_connection_id(&mut self, at: &At<'_, S::Socket>, id: ConnectionId) {
        self.kept_ids.set(at.slot, Some(id));
    }

    /// Takes the connection `id` out of `targets`, if it is one of them.
    pub(super) fn leave_out(&self, id: ConnectionId, targets: &mut Targets) {
        let computed = self.connection_ids.conn(id);
        let is_it = |target: &ConnRef| match self.kept_ids.get(target.slot() as u32) {
            None => Some(*target) == computed,
            kept => kept == Some(id),
        };
        if let Some(place) = targets.iter().position(is_it) {
            targets.remove(place);
        }
    }
}
