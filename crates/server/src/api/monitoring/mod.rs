//! The figures of a running server, for people and for Prometheus.

mod client_sends;
pub(super) mod cluster;
mod families;
mod log;
mod mercure;
pub(super) mod metrics;
mod presence;
pub(super) mod stats;
mod tls;
mod tokens;
mod workers;
