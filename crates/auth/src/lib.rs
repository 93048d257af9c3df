//! Who may do what: [tokens] of those who listen, [keys] of those who call the API, and the files
//! in which both are kept.
//!
//! Tokens are JSON Web Tokens that somebody else made. The [`Verifier`](tokens::Verifier) knows the
//! keys and the revocations, and the [token service](token_service) stands between it and the
//! workers. Keys of the API are our own: a file of their hashes, which commands change and a
//! running server reads again.
//!
//! Nothing here knows a request, an answer or another node: what is refused is told as an error
//! that says why, and who asked puts it into words of HTTP.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod checked_file;
pub mod file_stamp;
pub mod file_watch;
pub mod hub_tokens;
pub mod keys;
pub mod live_access;
pub mod outgoing;
pub mod token_service;
mod token_thread;
pub mod tokens;

use std::net::SocketAddr;

/// Whether only this machine can reach `address`.
pub fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}
