//! References to connections.

/// Where a connection lives: the worker, its slot in the worker's slab, and the slot's generation,
/// so that a reference to a connection that has ended meets nobody else. References are in the
/// order of workers, then slots.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct ConnRef(u64);

// 12 bits, 24 and 27: the top bit is free, and each part has a place of its own.
const _: () = {
    assert!(ConnRef::WORKERS_MAX == 1 << (63 - 51) && ConnRef::SLOTS_MAX == 1 << (51 - 27));
    assert!(ConnRef::GENERATIONS == 1 << 27);
};

impl ConnRef {
    /// No reference is less.
    pub(crate) const LEAST: ConnRef = ConnRef(0);
    /// Workers that can be told apart.
    pub const WORKERS_MAX: usize = 1 << 12;
    /// Slots of one worker.
    pub const SLOTS_MAX: usize = 1 << 24;
    /// Generations of one slot, after which they start anew: a reference would have to be on its
    /// way while 134 million connections come and go in one slot.
    pub const GENERATIONS: u32 = 1 << 27;

    /// Packs the parts; each must be below its limit.
    pub fn new(worker: usize, slot: usize, generation: u32) -> ConnRef {
        debug_assert!(worker < Self::WORKERS_MAX && slot < Self::SLOTS_MAX);
        debug_assert!(generation < Self::GENERATIONS);
        ConnRef((worker as u64) << 51 | (slot as u64) << 27 | u64::from(generation))
    }

    /// The reference as a number below 2^63.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The inverse of [`ConnRef::to_bits`].
    pub(crate) fn from_bits(bits: u64) -> ConnRef {
        ConnRef(bits)
    }

    /// The worker that owns the connection.
    pub fn worker(self) -> usize {
        (self.0 >> 51) as usize
    }

    /// The slot in the worker's slab.
    pub fn slot(self) -> usize {
        (self.0 >> 27) as usize & (Self::SLOTS_MAX - 1)
    }

    /// The generation of the slot.
    pub fn generation(self) -> u32 {
        self.0 as u32 & (Self::GENERATIONS - 1)
    }

    /// The worker, and the slot without its lowest 12 bits: the same for up to 4,096 connections
    /// that are open at one time, and ordered as the references are.
    pub(crate) fn slot_range(self) -> u32 {
        (self.0 >> 39) as u32
    }

    /// The worker of the connections in a [`ConnRef::slot_range`].
    pub(crate) fn worker_of_range(range: u32) -> usize {
        (range >> 12) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conn_ref_gives_back_its_parts() {
        let top = ConnRef::new(4095, ConnRef::SLOTS_MAX - 1, ConnRef::GENERATIONS - 1);
        assert_eq!(top.to_bits() >> 63, 0);
        assert_eq!(ConnRef::from_bits(top.to_bits()), top);
        assert_eq!((top.worker(), top.slot()), (4095, ConnRef::SLOTS_MAX - 1));
        assert_eq!(top.generation(), ConnRef::GENERATIONS - 1);
        let low = ConnRef::new(0, 5, 9);
        assert_eq!((low.worker(), low.slot(), low.generation()), (0, 5, 9));
        assert!(low < top && low < ConnRef::new(0, 6, 0) && ConnRef::new(0, 6, 0) < top);
    }

    #[test]
    fn slot_range_has_4096_slots_of_one_worker() {
        let range = |worker, slot| ConnRef::new(worker, slot, 7).slot_range();
        assert_eq!(range(3, 4096), range(3, 8191));
        assert!(range(3, 4095) < range(3, 4096) && range(3, 8191) < range(3, 8192));
        assert!(range(3, ConnRef::SLOTS_MAX - 1) < range(4, 0));
        assert_eq!(ConnRef::worker_of_range(range(4095, ConnRef::SLOTS_MAX - 1)), 4095);
    }
}
