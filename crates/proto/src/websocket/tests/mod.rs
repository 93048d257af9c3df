//! The reader against tables of cases, however the bytes are split.
//!
//! A case is what a client sends and what a server makes of it. Each one runs whole, byte by byte,
//! cut at every place and in random pieces; the outcome must be the same. The tables have the cases
//! of the well-known conformance suite, by its chapters: framing (1), pings (2), reserved bits (3)
//! and opcodes (4) in `framing`, fragmentation (5) in `fragments`, UTF-8 (6) in `texts`, close
//! handling (7) in `closing`, limits and pieces (9, 10) in `limits`. `oracle` holds the reader
//! against one of another make, `written` against itself after it was written down.

mod closing;
mod fragments;
mod framing;
mod limits;
mod oracle;
mod outcome;
mod reading;
mod texts;
mod written;
