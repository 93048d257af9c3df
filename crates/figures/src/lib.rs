//! These are the figures of a server and of its instruments: latencies and their quantiles
//! ([`latency`]), and a run over time as rows of a file ([`run`]). Also numbers as people read them
//! ([`numbers`]), and what many listeners take of a machine ([`listeners`]).
//!
//! It draws nothing and measures nothing; it knows no connection.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod latency;
pub mod listeners;
pub mod numbers;
pub mod run;
