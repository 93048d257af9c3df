//! What a shard keeps of its connections beside their records, as plain data: each table by slot,
//! for one matter, whose module beside this one acts on it.

mod apps;
pub(super) mod channels;
mod fresh;
pub(super) mod gathering;
pub(super) mod graph_users;
pub(super) mod hub_marks;
pub(super) mod pending_gap;
pub(super) mod polled;
pub(super) mod seats;
pub(super) mod signed_in;
mod slot_marks;
pub(super) mod trust;
pub(super) mod unplaced;
pub(super) mod wall;
pub(super) mod watching;
pub(super) mod wishes;

/// The hash of a slot in a table of many. Slots are given by the server, so nobody chooses it.
fn hash_of_slot(slot: u32) -> u64 {
    let wide = u64::from(slot).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    wide ^ wide >> 32
}
