//! What a shard keeps of its connections beside their records, as plain data: each table by slot,
//! for one matter, whose module beside this one acts on it.

mod apps;
pub(super) mod channels;
mod fresh;
pub(super) mod gathering;
pub(super) mod graph_users;
pub(super) mod hub_marks;
pub(super) mod pending_gap;
pub(super) mod seats;
pub(super) mod signed_in;
pub(super) mod trust;
pub(super) mod wall;
pub(super) mod watching;
pub(super) mod wishes;
