//! `NatsClient` against real NATS servers that are killed, stopped, cut off and put back.

#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

mod core;
mod epoch;
mod faults;
mod harness;
mod log;
mod refusals;
mod replicas;
mod rewound;
