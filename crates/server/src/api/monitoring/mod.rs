//! The figures of a running server, for people and for Prometheus.

mod client_sends;
pub(super) mod cluster;
pub(super) mod duration;
mod families;
mod log;
mod mercure;
pub(super) mod metrics;
mod presence;
pub(super) mod process;
pub(super) mod sockets;
pub(super) mod stats;
mod tls;
mod tokens;
