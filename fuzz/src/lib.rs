//! Fuzz bodies: each takes any bytes and panics when a promise of the code under it is broken.
//!
//! - [`erlang`], [`heads`], [`ids`], [`frames`], [`lists`], [`proxies`], [`records`], [`streams`],
//!   [`tokens`] and [`websocket`] turn bytes into what a node, a client, a sender, a proxy, a
//!   server or a file may say. They hold the result against an outside reader, a rule written down
//!   a second time, or the same bytes in other pieces.
//! - [`operations`] reads the bytes as a list of operations and runs them on the real thing and on
//!   a naive model.
//!
//! The same bodies run in two ways:
//! - `cargo test -p fuzz`: the seeds of `tests/smoke.rs` and some tens of thousands of mutants of
//!   them, in seconds. `ENCKE_SEED` runs the same mutants again, `ENCKE_FUZZ_RUNS` sets how many.
//! - A fuzzer that is guided by coverage, for hours: `fuzz/libfuzzer/` says how.
//!
//! Whatever a fuzzer finds becomes a line in a table of the room that it was found in.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "a body panics when it found something"
)]

pub mod erlang;
pub mod frames;
pub mod heads;
pub mod ids;
pub mod lists;
pub mod operations;
pub mod proxies;
pub mod records;
pub mod streams;
pub mod tokens;
pub mod websocket;

/// A fuzz body.
pub type Target = fn(&[u8]);

/// Every body, under the name that its fuzz target has.
pub const TARGETS: [(&str, Target); 19] = [
    ("erlang_message", erlang::message),
    ("erlang_nested", erlang::nested),
    ("request_head", heads::request_head),
    ("id_text", ids::id_text),
    ("event_frames", frames::event_frames),
    ("chunks", frames::chunks),
    ("classic_message", frames::classic_message),
    ("client_stream", streams::client_stream),
    ("websocket_frames", websocket::websocket_frames),
    ("websocket_command", websocket::websocket_command),
    ("proxy_header", proxies::proxy_header),
    ("forwarded", proxies::forwarded),
    ("server_list", lists::server_list),
    ("log_record", records::log_record),
    ("core_message", records::core_message),
    ("token", tokens::token),
    ("token_claims", tokens::token_claims),
    ("directory", operations::directory),
    ("names", operations::names),
];
