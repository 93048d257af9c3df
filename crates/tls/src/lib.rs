//! TLS cut down to its keys. rustls does the handshake and is dropped; from then on a connection is
//! [`Keys`], 104 bytes, and this crate seals and opens its records.
//!
//! ```text
//! client's bytes -> Handshake (rustls, boxed) -> Keys, and what of the bytes is not consumed
//!                                                 |-> Sealer: plain text -> records
//!                                                 '-> Opener: records -> plain text, in place
//! ```
//!
//! Keys can be written down, and another process that reads them back goes on with the connection.
//!
//! It follows RFC 8446 (TLS 1.3) and RFC 5246 with RFC 5288 and RFC 7905 (TLS 1.2). It does no IO,
//! reads no clock but the one that rustls checks tickets by, and starts no thread: bytes come in,
//! bytes go out, "needs more" is a value.
//!
//! Left out on purpose are early data, session storage, renegotiation and client certificates. So
//! are handshake messages after the handshake that come in pieces, and all suites whose traffic
//! secrets are longer than SHA-256's.
//!
//! Cost on a 2.1 GHz Xeon: a handshake takes 74 µs for the server, and a stalled one holds some 5
//! KB. A record of 100 bytes takes 0.2 µs, its key built anew (`cargo bench -p tls`).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod alert;
mod capture;
mod cipher;
mod config;
mod derive;
mod early;
mod fault;
mod handshake;
mod hello;
mod keys;
pub mod limits;
mod message;
mod open;
mod record;
mod seal;

pub use alert::Alert;
pub use cipher::Suite;
pub use config::{Choice, client_config, server_config};
pub use fault::{Failure, Fault, Unsealed};
pub use handshake::{Agreed, Handshake, Step};
pub use hello::is_whole as is_hello_whole;
pub use keys::{KEYS_BYTES, Keys, Version};
pub use open::{Opened, Opener};
pub use seal::{Sealed, Sealer};

/// The library behind the handshake, for those who make certificates' resolvers and verifiers.
pub use rustls;
