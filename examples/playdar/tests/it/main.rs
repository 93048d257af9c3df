//! The daemon and its parts over real sockets and with real programs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed test should panic, and a skipped one say why"
)]

mod api;
mod folders;
mod friends;
mod guard;
mod hostile;
mod lan;
mod listens;
mod live;
mod one_song;
mod play;
mod program;
mod push;
mod scripts;
mod songs;
mod two_hosts;
