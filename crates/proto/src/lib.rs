//! Bytes to meaning and back: the HTTP/1.1 request heads that open a stream, the answers to them,
//! and what one event looks like on each transport.
//!
//! Nothing here reads a socket, a clock or a random number, and nothing here can panic, whatever
//! the bytes are. A codec is a function from bytes to values that the caller tests, fuzzes and
//! splits at will.
//!
//! - The server half begins with [`request`], which parses a head; [`response`] and [`problem`]
//!   answer it. [`sse`], [`ndjson`], [`classic`], [`poll`] and [`websocket`] turn an event into a
//!   [`Frame`] that all connections share. [`websocket`] also reads what its clients send.
//!   [`resume`] says where a stream stands, [`members`] who is in a room.
//! - [`Page`] is a document that is served as it stands; [`negotiation`] reads what its clients
//!   have of it already.
//! - [`proxied`] and [`Forwarded`] read for whom a proxy asks; [`Networks`] are those it is in.
//!
//! The client half, which reads what this one writes, is the crate `client`.
//!
//! Ids are only decoded here. Whether an id is a good one is the hub's to say.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod api_key;
mod append;
mod carrier;
pub mod chunked;
pub mod classic;
mod cors;
pub mod decimal;
mod encoding;
mod format;
mod forwarded;
mod frame;
mod json;
pub mod members;
pub mod ndjson;
pub mod negotiation;
mod networks;
mod page;
mod place_style;
pub mod poll;
pub mod problem;
pub mod proxied;
pub mod request;
pub mod response;
pub mod resume;
pub mod sse;
#[cfg(test)]
mod testing;
pub mod websocket;

pub use api_key::ApiKey;
pub use carrier::Carrier;
pub use cors::Cors;
pub use format::{Format, Transport};
pub use forwarded::Forwarded;
pub use frame::Frame;
pub use networks::{Network, Networks};
pub use page::{Page, PageRequest};
pub use problem::{Problem, ProblemKind};
pub use proxied::Proxied;
pub use request::{Method, Parsed, Refusal, Request, Route, Secret, Upgrade, is_form};
