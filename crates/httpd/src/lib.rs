//! This is HTTP as the API's port speaks it, whatever is asked there: connections and their bounds,
//! TLS, bodies and lines, and ids in paths. It says who may ask, and how an error is told
//! ([`problem`], RFC 9457).
//!
//! It is hyper's HTTP/1.1 and HTTP/2 with axum's routes on top. Here is what they leave to their
//! user: how long a silent client may stay, how many there may be, and how much is read of a body
//! before somebody has looked at it. No path of the API is known here but the four of the demo page
//! ([`origin`]).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod accept_pace;
pub mod body;
pub mod connection;
mod empty_error;
pub mod exchange;
pub mod host;
pub mod id;
pub mod json;
pub mod lines;
pub mod object;
pub mod origin;
pub mod path;
pub mod permits;
pub mod problem;
pub mod tls;
mod wire;
