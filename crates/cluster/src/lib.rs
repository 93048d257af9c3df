//! One node of a cluster, as pure state: no IO, no clock, no thread.
//!
//! All nodes follow one totally ordered log. Three things come out of the log's records in their
//! order: what a client is sent, who is a member, and what the graph of subscriptions is. So they
//! are the same on every node. A [`Node`] is told what happens, and when, and says what to do. Its
//! caller keeps the connections to the log, to the store of record and to the clients.
//!
//! # How it is driven
//!
//! ```text
//! let mut node = Node::new(now, config, epoch, graph, known);
//! loop {
//!     while let Some(action) = node.next_action() { start(action) }
//!     wait for something that happened, at most until node.next_deadline();
//!     node.record(..) | node.published(..) | node.posted(..) | node.core_message(..) | …
//!     or node.tick(now)
//! }
//! ```
//!
//! No action blocks: each is begun in the order in which it comes out, and answered by an input.
//! [`Action::Deliver`]s may be gathered side by side, but are recorded and posted in their order.

mod action;
mod chain;
mod change;
mod counts;
pub mod limits;
mod liveness;
mod message;
mod node;
mod pipeline;
mod publisher;
mod record;
mod replica;
mod room_note;
mod rooms;
mod roster;
#[cfg(test)]
mod sim;
mod wire;

pub use action::{
    Action, CoreSubject, Deliver, EndReason, Epoch, GraphPlace, Known, LogFault, LogMark,
    MessageId, Outcome, Published, RoomStep, Ticket, epoch_base,
};
pub use change::{Change, Pair, Part};
pub use node::{Config, Node, Place, Status};
pub use publisher::NotTaken;
pub use record::{Body, Event, FORMAT, FORMAT_KEYS, FORMAT_MAX, FORMAT_ONCE, FORMAT_ROOMS};
pub use record::{FORMAT_SENDER, FORMAT_SUBJECTS, FORMAT_TWO, Head, Join, LeaveReason, Once};
pub use record::{FORMAT_UPDATES, Order, Record};
pub use room_note::RoomNote;
pub use rooms::{Doubt, ListedBytes, RoomAction, RoomChange, RoomList, RoomUser, Rooms};
pub use wire::Malformed;
