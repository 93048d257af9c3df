//! The daemon and its parts over real sockets and with real programs.

mod lan;
mod one_song;
mod scripts;
