//! What a node is to do about rooms, and to tell of them.

use super::list::RoomChange;

/// What [`Rooms`](super::Rooms) asks for and tells, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoomAction {
    /// Tell [`Rooms::update`](super::Rooms::update) from now on who comes and goes in this room.
    Listen(Box<str>),
    /// Nobody wants to know it any more.
    Ignore(Box<str>),
    /// The list of a room that this node wants is settled: whoever watches is to have it whole.
    Settled(Box<str>),
    /// A user of a settled list has changed.
    Changed {
        /// Which room.
        room: Box<str>,
        /// Who.
        sub: Box<str>,
        /// What it has become.
        change: RoomChange,
    },
}

impl RoomAction {
    /// The room that it is about.
    pub fn room(&self) -> &str {
        match self {
            RoomAction::Listen(room) | RoomAction::Ignore(room) | RoomAction::Settled(room) => room,
            RoomAction::Changed { room, .. } => room,
        }
    }
}
