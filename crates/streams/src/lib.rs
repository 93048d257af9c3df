//! Durable Streams: streams of bytes with an address, which are only appended to and kept on disk.
//!
//! The protocol is Durable Streams, draft 1.0. This crate has its rules and its store; it knows no
//! HTTP server and no async runtime. What takes a disk blocks, and is called from threads that may.
//!
//! Each stream is one file that only grows, under [`Store`]'s directory. A request that changes a
//! stream is one record, on disk before it is answered: data, the producer's sequence and the close
//! are stored together or not at all. Readers see a record only then. Appends of all streams may
//! share a log, and so its syncs, before their files are synced.
//!
//! What is appended can be [told](Teller) to others than the stream's readers, once and in order,
//! also over the end of a process.
//!
//! Cost: a stream that nobody uses has no memory at all, since its file says everything. Streams in
//! use have some 200 bytes in a cache of bounded size. A start reads names and sizes only.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod appending;
mod cache;
mod changing;
mod content;
mod cursor;
mod date;
mod disk;
mod expiry;
mod file;
mod forking;
mod group_sync;
mod json;
mod lifetime;
mod lineage;
mod links;
mod log;
mod long_reads;
mod names;
mod notes;
mod offset;
mod open_files;
mod reading;
mod record;
mod refusal;
mod request;
pub mod sse;
mod state;
mod store;
mod stream;
mod teller;
mod telling;

pub use cursor::cursor;
pub use date::parse_date;
pub use json::{JsonFault, array, messages};
pub use lifetime::{LIVE_READ_MAX, Lifetime, LifetimeFault};
pub use long_reads::LONG_READS_MAX;
pub use offset::{Offset, OffsetFault, Start};
pub use reading::Piece;
pub use refusal::Refusal;
pub use request::{Append, Create, Fork, Producer};
pub use state::{Appended, is_json, same_type};
pub use store::{Created, Head, Limits, Store};
pub use stream::LiveReader;
pub use teller::{AppendNotice, Outcome, Teller};
