//! The data plane: one thread per core, each with its own epoll, listener, connections and timers,
//! and the router that hands events to them.
//!
//! A worker never waits for anything but its epoll: no disk, no DNS, no channel. There is no async
//! runtime here. What a worker must be told, it is told by [mail](mailbox); what it tells the
//! world, it tells by [counters] and [receipts](receipt).
//!
//! ```text
//! router --mail--> mailbox --> worker: wait, accept, read, take mail, write once each, tick, sleep
//!                               shard: the sans-io heart, the same in the simulator
//! ```
//!
//! Cost of an idle connection: one 64-byte slot and its place in the directory. Cost of a delivery:
//! one `send` of bytes that exist already.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod config;
mod conn;
pub mod counters;
mod doorbell;
mod guest;
pub mod limits;
mod mailbox;
mod nap;
mod outbox;
mod places;
mod posting;
mod receipt;
mod replies;
mod resume;
mod room;
mod router;
mod shard;
#[cfg(test)]
mod sim;
mod slab;
mod sockets;
mod start;
mod timer;
mod turns;
mod worker;
pub mod workers;

pub use config::{EngineConfig, Origins};
pub use counters::{Snapshot, WorkerSnapshot};
pub use guest::{Delivery, Guest, GuestMail};
pub use receipt::Receipt;
pub use replies::Replies;
pub use resume::{Resume, ResumeStep, Resumes, Resuming};
pub use router::{Router, Sending, Step};
pub use start::{Engine, StartError};
pub use turns::TurnSnapshot;

/// An event with the frames of our transports.
pub type Event = hub::Event<proto::Frame>;

/// The memory of such events.
pub type History = hub::History<proto::Frame>;
