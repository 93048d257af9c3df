//! Encke, the program: the command line, and the clients of it that a terminal needs.
//!
//! This room puts the others together and adds what faces people: options, files of settings,
//! sentences, exit codes, JSON. The running server is in `server`, the instruments
//! in `load`, the look at the machine in `tune`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod cli;
mod client;
mod console;
mod ketama;
mod service;
mod settings;
mod signals;
mod system;
mod threads;
mod units;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Where there is no such setting there are no such pauses of glibc's.
    let _ = sys::allocator::join_freed_at_once();
    cli::run()
}
