//! The calls of the API, a file each: what is asked, what is done, what is answered.

mod client_event_body;
mod client_send;
pub(super) mod cluster;
pub(super) mod event;
mod event_body;
mod event_once;
pub(super) mod events;
pub(crate) mod graph;
pub(super) mod health;
pub(super) mod logout;
pub(super) mod lookup;
pub(super) mod openapi;
pub(super) mod presence;
pub(super) mod send;
pub(super) mod send_at_once;
mod send_stream;
pub(super) mod subscriptions;
pub(crate) mod tokens;
pub(super) mod tune;
