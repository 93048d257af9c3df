//! Where it is known who is in a room.

use engine::Watches;

/// Where it is known who is in a room.
#[derive(Clone)]
pub enum Rooms {
    /// Streams need no token, so there are no users, and each room is empty.
    WithoutUsers,
    /// The server keeps no members.
    Off,
    /// There.
    Kept(Watches),
}
