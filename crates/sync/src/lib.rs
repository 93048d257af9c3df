//! What workers, senders and the control plane share without a lock: the few atomics on whose
//! interleaving something depends, each in a piece of its own.
//!
//! The crate is small so that the model checker builds nothing else. With `--cfg loom` the pieces
//! take loom's atomics for those of the standard library, and its tests try every interleaving of
//! a few threads: `RUSTFLAGS="--cfg loom" cargo test -p sync --lib --target-dir target/loom loom`.
//!
//! Nothing here knows a connection, an event or a mail, reads a clock or takes a lock. The one wait
//! is that for a [permit](permits), which says until when.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod connection_limit;
pub mod doorbell;
pub mod fan_outs;
pub mod permits;
pub mod posting;
pub mod replies;
pub mod room;
pub mod ticket;
