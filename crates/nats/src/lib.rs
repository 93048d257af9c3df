//! The NATS end of a cluster: one totally ordered log, the epoch and other values, and
//! messages between nodes.
//!
//! It knows bytes, sequences and subjects, and not what they mean. Its owner, on a tokio runtime:
//!
//! 1. [`NatsClient::connect`], once; its error says what to do.
//! 2. [`NatsClient::epoch`]; where there is none, [`NatsClient::propose`] one over revision 0; then
//!    [`NatsClient::make_log`] of it. [`NatsClient::watch_epoch`] tells when another one has been
//!    agreed on: drop the [`Follower`], and begin again here.
//! 3. [`Log::follow`] from the record applied last, and apply what [`Follower::next`] gives.
//!    [`Followed::Behind`], [`Followed::Changed`], [`Followed::Gone`] mean that the log is not the
//!    one it was; then the epoch must change.
//! 4. [`Log::publish_until`] for one record after the other, with ids that no other record has.
//! 5. [`NatsClient::publish_core`], [`NatsClient::subscribe_core`], [`NatsClient::ask`] for what is
//!    not stored.
//! 6. [`NatsClient::value`] and [`NatsClient::swap`] for what all nodes must know for longer than
//!    the log is kept.
//! 7. [`NatsClient::state`] and [`NatsClient::counts`] for readiness and metrics.
//! 8. [`NatsClient::delete_logs_before`] now and then.
//!
//! What is published is in the log once or not at all, as long as its outcome is asked for within
//! two minutes ([`DUPLICATE_WINDOW`]). What the follower gives is every record, once, in order, or
//! it says which are missing. The rest is at most once.
//!
//! Where NATS knows users, ours must be allowed to publish and subscribe to `encke.<cluster>.>` and
//! `$KV.ENCKE_<cluster>.>`, to publish to `$JS.API.>` and to subscribe to `_INBOX.>`.
//!
//! While there is no connection nothing is queued: publishes wait outside the library until their
//! deadline, core messages are refused. All queues have a bound ([`limits`]).

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod api;
mod config;
mod connection;
mod consumer;
mod core;
mod epoch;
mod follow;
mod limits;
mod log;
mod place;
mod publish;
mod state;
mod values;

pub use bytes::Bytes;
pub use config::{ConfigError, Credentials, NatsConfig, Secret, Url};
pub use connection::{ConnectError, NatsClient};
pub use core::{CoreMessage, NotSent, Subscription};
pub use follow::{Followed, Follower, Record};
pub use limits::{
    ACK_TIMEOUT, CONNECT_TIMEOUT, DUPLICATE_WINDOW, LOG_AGE_MAX, LOG_BYTES_MAX, RECORD_BYTES_MAX,
    VALUE_BYTES_MAX,
};
pub use log::{Extent, Log, LogError};
pub use publish::{PublishError, Published};
pub use state::{Counts, LATENCY_BOUNDS_US, Latencies, State};
pub use values::{Entry, NotSwapped, Proposal};
