//! The reader against tables of cases, however the bytes are split.
//!
//! A case is what a client sends and what a server makes of it. Each one runs whole, byte by byte,
//! cut at every place and in random pieces. The outcome must be the same. The tables have the cases
//! of the well-known conformance suite, by its chapters. Framing (1), pings (2), reserved bits (3)
//! and opcodes (4) are in `framing`, fragmentation (5) is in `fragments`, and UTF-8 (6) in `texts`.
//! Close handling (7) is in `closing`, limits and pieces (9, 10) are in `limits`. `oracle` holds
//! the reader against one of another make, `written` against itself after it was written down.

mod closing;
mod fragments;
mod framing;
mod limits;
mod oracle;
mod outcome;
mod reading;
mod texts;
mod written;
