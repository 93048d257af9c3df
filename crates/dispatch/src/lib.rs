//! What becomes of an event between whoever sends it and the engine.
//!
//! - [`posting`]: a send through all its steps, here or by the log of a cluster; [`outcome`]: what
//!   it came to.
//! - [`idempotency`]: a send that is repeated is posted once.
//! - [`cluster`]: this server as one node of many. The pure state is in the crate of that name, the
//!   clients of NATS and PostgreSQL in `nats` and `postgres`. Here is what drives them.
//! - [`presence`]: who comes and goes, and who is told of it; [`members`]: the same of those who
//!   are in a room; [`channels`]: how many hear a channel, for whoever asks.
//! - [`past`]: pages of what was sent about an id.
//! - [`traces`]: spans of sends, for an OpenTelemetry collector.
//! - [`barrier`]: who may change something, and when: closed while an upgrade hands everything to
//!   its [`successor`].
//!
//! The API and the Erlang node both stand on this; nothing here knows either.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod barrier;
#[cfg(test)]
mod captured_log;
pub mod channels;
pub mod cluster;
pub mod count;
mod hook_rooms;
pub mod idempotency;
pub mod log_interval;
pub mod members;
pub mod outcome;
pub mod past;
pub mod posting;
pub mod presence;
mod presence_channels;
pub mod pusher_hooks;
pub mod send_options;
pub mod subject_rooms;
pub mod successor;
pub mod traces;
pub mod wake_fd;
pub mod webhook;
