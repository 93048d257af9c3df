//! A node among Erlang nodes: the distribution protocol, the client of epmd, and the terms that
//! nodes exchange.
//!
//! It knows nothing of Encke, of its events or ids. Whoever owns the [`Node`] takes its
//! [`Session`]s, reads from them what others' processes send to ours ([`Message`]), and sends to
//! their processes through their [`Peer`]. Ours are names and numbers without a process behind
//! them: they never end before the node does.
//!
//! The node is hidden, as C and Java nodes are. Others see it when they look for it, it does not
//! make them connect to each other, and it takes no part in Erlang's own services. It speaks what
//! OTP 25 to 27 have in common, without TLS: the protocol belongs on a network that only the
//! application's own hosts can reach.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod config;
mod connections;
pub mod control;
pub mod epmd;
mod establish;
mod handshake;
mod limits;
mod listener;
mod log_limit;
mod node;
mod peer;
mod session;
pub mod term;
#[cfg(test)]
mod tests;

pub use config::NodeConfig;
pub use control::{Control, Message, OwnPid, ReplyTo};
pub use handshake::{ConnectError, is_node_name};
pub use limits::{NODES_MAX, RETRIES, SETUP_TIMEOUT};
pub use log_limit::LogLimit;
pub use node::Node;
pub use peer::{End, Peer};
pub use session::{Incoming, PassedOver, Session, frames};
pub use term::{Atom, Malformed, NoJson, Pid, Reference, Term, View};
