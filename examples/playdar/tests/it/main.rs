//! The daemon and its parts over real sockets and with real programs.

mod friends;
mod lan;
mod one_song;
mod scripts;
mod two_hosts;
