//! `PostgresStore` and a real PostgreSQL, killed and restored; each test has a server of its own.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed test should panic, and say its seed"
)]

mod change;
mod crash;
mod dump;
mod few;
mod load;
mod model;
mod safe;
mod settle;
mod silent;
mod source;
mod start;
mod support;
