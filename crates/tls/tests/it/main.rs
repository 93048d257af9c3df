//! Our half against rustls' own, whole one: it is the oracle for every byte that is sent or taken.

#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

mod both;
mod early;
mod handshakes;
mod memory;
mod parties;
mod records;
mod written;
