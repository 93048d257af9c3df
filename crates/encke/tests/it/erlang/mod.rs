//! Encke among real Erlang nodes: Debian's `erl`, with an epmd of its own for each test.

mod client;
mod cluster;
mod elixir;
mod hostile;
mod ids;
pub(crate) mod node;
mod presence;
mod processes;
mod raw;
mod slow;
mod talking;
mod ticks;
