//! The continuum beside what the original printed, and how many keys move when a server goes.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed test should panic and print its seed"
)]

mod moves;
mod original;
