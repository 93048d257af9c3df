//! How many workers a number of connections asks for.
//!
//! Each worker has a descriptor table of its own, so the limit on descriptors holds per worker, and
//! more workers hold more. `encke serve` starts by this rule and `encke tune` tells it.

use hub::ConnRef;

/// Connections that a worker with so many descriptors is meant to have. The kernel spreads them
/// over the workers by a hash, so a worker's number varies by its square root; six times that stays
/// free, and even one of 60 workers is full before its time once in ten million starts.
/// Where the kernel is told who is full this is more than it takes, at little cost.
pub fn fair_capacity(descriptors: u64) -> u64 {
    let room = descriptors.saturating_sub(crate::limits::DESCRIPTORS_RESERVED);
    room.saturating_sub(6 * room.isqrt()).max(1)
}

/// About the least descriptors with which a worker is meant to have so many connections, and never
/// fewer: the inverse of [`fair_capacity`].
pub fn descriptors_for(connections: u64) -> u64 {
    // The root of the sum is at most 5 over that of `connections`: six times it is what is added.
    connections + 6 * connections.isqrt() + 30 + crate::limits::DESCRIPTORS_RESERVED
}

/// Workers for so many connections: one per core, and more where they would not fit otherwise, as
/// far as there can be more.
pub fn workers_for(connections: u64, descriptors: u64, cores: usize) -> usize {
    let needed = connections.div_ceil(fair_capacity(descriptors)) as usize;
    cores.max(needed).min(ConnRef::WORKERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn million_connections_ask_for_workers_where_descriptors_are_few() {
        assert_eq!(workers_for(1_000_000, 20_000, 2), 53);
        assert_eq!(workers_for(1_000_000, 1 << 20, 2), 2);
        assert_eq!(workers_for(0, 20_000, 2), 2);
        assert_eq!(workers_for(100_000_000, 20_000, 2), ConnRef::WORKERS_MAX);
    }

    #[test]
    fn descriptors_for_so_many_connections_have_room_for_them() {
        let roots = [0, 1, 2, 9, 100, 12_345, 1_000_000, 50_000_000, u64::from(u32::MAX)];
        for connections in roots.into_iter().chain(0..2_000) {
            let room = fair_capacity(descriptors_for(connections));
            assert!(room >= connections, "{room} of {connections}");
            assert!(room <= connections + 40, "{room} of {connections}");
        }
    }
}
