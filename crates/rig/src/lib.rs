//! The demo with nodes, the tests and the benchmarks of a cluster stand on this. It has real
//! servers of NATS and PostgreSQL, started here and ended with their starter, and the [`oracle`] of
//! what was sent and heard.
//!
//! Nothing here waits for a server. It is started, and its starter asks whether it is ready in
//! pauses of its own. So a program with an async runtime and one without use the same. What is
//! dropped is ended, and that is waited for.
//!
//! The program `encke` has this crate in it, for its demo: what tests alone need (one set of files
//! for all servers, skips, panics) is the crate `testing`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod child;
mod error;
pub mod nats;
pub mod oracle;
mod port;
pub mod postgres;
mod server;
mod tools;
mod waiting;

pub use child::{AtDrop, OwnChild};
pub use error::RigError;
pub use nats::Nats;
pub use port::free_port;
pub use postgres::Postgres;
pub use server::Server;
pub use tools::tool;
pub use waiting::{pauses, wait_within};
