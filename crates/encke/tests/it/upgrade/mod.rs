//! `encke upgrade`: a new process inherits what an old one has, and nobody who listens or sends
//! notices. The real program, both processes of it, over real sockets.

mod clients;
mod failures;
mod failures_places;
mod graph;
mod halves;
mod killing;
mod kills;
mod kind;
mod listeners;
mod publish;
mod records;
mod remembered;
mod seen;
mod senders;
pub(crate) mod served;
mod slow;
mod started_beside;
mod streams;
pub(crate) mod subscriber;
pub(crate) mod tls;
mod tokens;
mod traffic;
mod workers;

pub(crate) use served::Upgraded;
