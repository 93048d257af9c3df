//! The outside systems that Encke talks to, one module each: the friends graph in LMDB, and Erlang
//! nodes.
//!
//! Nothing here knows of connections or of events; the engine asks through [`hub::Followers`], and
//! what Erlang processes send is the program's to read.
//! A system that is slow or down costs its callers time, never the connected users.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod erlang;
pub mod graph;

pub use graph::Graph;
