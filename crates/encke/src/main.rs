//! Encke, the program: the command line, the server and its API, and the tools around them.
//!
//! This room puts the others together and adds what faces people: options, files of settings,
//! sentences, exit codes, JSON. The data plane is in `engine`, the graph in `graph`, the
//! instruments in `load`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod api;
mod cli;
mod client;
mod config;
mod console;
mod ketama;
mod posting;
mod serve;
mod stop;
mod tune;
mod units;
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
