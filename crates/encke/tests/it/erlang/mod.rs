//! Encke among real Erlang nodes: Debian's `erl`, with an epmd of its own for each test.

mod client;
mod cluster;
mod node;
mod processes;
mod talking;
