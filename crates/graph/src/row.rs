//! Pairs to be sorted.

use hub::Id;

/// Both ids of a pair, the one that the list belongs to in the upper half: integers sort faster
/// than structures.
pub(super) type Row = u128;

pub(super) fn row(subject: Id, member: Id) -> Row {
    u128::from(subject.to_bits()) << 64 | u128::from(member.to_bits())
}

pub(super) fn subject(row: &Row) -> Id {
    Id::from_bits((row >> 64) as u64)
}

pub(super) fn member(row: &Row) -> Id {
    Id::from_bits(*row as u64)
}
