//! The reader against tables of cases, however the bytes are split.
//!
//! A case is what a client sends and what a server makes of it. Each one runs whole, byte by byte,
//! cut at every place and in random pieces; the outcome must be the same.

mod outcome;
mod reading;
