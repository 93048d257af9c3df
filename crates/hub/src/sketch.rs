//! How much comes from each address, in memory that no crowd of addresses makes grow.
//!
//! Count-min sketches (Cormode and Muthukrishnan, "An improved data stream summary: the count-min
//! sketch and its applications", 2005): four rows of 65,536 cells, and an address has one cell in
//! each. What it does is entered in all four, others' in some of them too, so the least of the four
//! is never less than what is true. The cells are picked by a keyed hash: nobody outside can tell
//! which addresses share them, or aim at a neighbour's.
//!
//! An address is its whole IPv4 address, or the first 64 bits of IPv6: of that everybody has so
//! much (RFC 6177).
//!
//! **The error of [`CountSketch`]**, with N connections in all: others add N / 65,536 to a cell on
//! average, 15 of a million connections. The least of four is more than 2.72 times that too high,
//! 41, for at most one address in 54 (e⁻⁴). That holds however the connections are spread (theorem
//! 1 of the paper). A million addresses of one connection each: 21 to 25 at most, as tests see. A
//! thousand addresses of a thousand each: an address shares all its cells with some of them with a
//! probability of (1,000 / 65,536)⁴, 5 in 100 million.
//!
//! **The error of [`RateSketch`]** is less, since its cells forget. Each is the moment at which all
//! that was entered will be paid for (the generic cell rate algorithm, ITU-T I.371, as a sketch).
//! So others count only as far as they come faster than the rate that one address may have. And
//! only what is too low is raised ("conservative update", Estan and Varghese 2002), which nothing
//! that is taken back would allow. No generations are swapped, and nothing is wiped.
//!
//! All is atomic, and nobody waits. A thread that looks and enters at the very moment in which
//! another does may pass beside it, so a bound is held to within one a thread. Rows are made when
//! the first address is entered. Memory: 1 MiB for counts, 2 MiB for a rate. Cost, with a million
//! connections: 55 ns for a connect and its close, 26 ns for a request, 10 ns for a connect that is
//! refused (`cargo bench -p hub --bench addresses`).

// The addresses of `std::net`, without its sockets.
use core::net::IpAddr;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use once_cell::race::OnceBox;
use siphasher::sip::SipHasher13;

#[cfg(test)]
mod tests;

const ROWS: usize = 4;

/// Of 16 bits of an address' hash each: the four rows use all of it.
const COLUMNS: usize = 1 << 16;

const NS_PER_SECOND: u64 = 1_000_000_000;

const _: () = {
    // The rows take their cells from bits of the hash that no other row takes.
    assert!(COLUMNS == 1 << 16 && ROWS * 16 <= u64::BITS as usize);
};

/// An address, as sketches know it: the hash of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct AddressKey(NonZeroU64);

/// What addresses are hashed under.
pub struct AddressKeys(u64, u64);

/// How many there are of each address, at most.
#[derive(Default)]
pub struct CountSketch {
    /// Ordering: relaxed throughout. Only the numbers count, nothing is published by them.
    rows: OnceBox<Box<[AtomicU32]>>,
}

/// Whether an address does more in a second than it may.
pub struct RateSketch {
    /// In nanoseconds. Ordering: relaxed, as above.
    rows: OnceBox<Box<[AtomicU64]>>,
    per_second: u64,
    at_once_ns: u64,
}

impl AddressKeys {
    /// Keys that nobody knows.
    pub fn random() -> AddressKeys {
        let random = RandomState::new();
        AddressKeys(random.hash_one(0_u8), random.hash_one(1_u8))
    }

    /// The keys that [`AddressKeys::parts`] were told of.
    pub fn of_parts([first, second]: [u64; 2]) -> AddressKeys {
        AddressKeys(first, second)
    }

    /// The keys for another process, which knows an address by the same key then. No client may
    /// learn of them.
    pub fn parts(&self) -> [u64; 2] {
        [self.0, self.1]
    }

    /// What stands for everybody who has `address`.
    pub fn key(&self, address: IpAddr) -> AddressKey {
        let mut hasher = SipHasher13::new_with_keys(self.0, self.1);
        match address.to_canonical() {
            IpAddr::V4(address) => hasher.write_u32(address.to_bits()),
            IpAddr::V6(address) => hasher.write_u64((address.to_bits() >> 64) as u64),
        }
        AddressKey(NonZeroU64::new(hasher.finish()).unwrap_or(NonZeroU64::MIN))
    }
}

impl AddressKey {
    /// It as a number, for another process that has the same [`AddressKeys`].
    pub fn bits(self) -> u64 {
        self.0.get()
    }

    /// The key of a number from the other process; `None` where it is none.
    pub fn of_bits(bits: u64) -> Option<AddressKey> {
        NonZeroU64::new(bits).map(AddressKey)
    }

    /// Its cell in each row.
    fn cells(self) -> impl Iterator<Item = usize> {
        let hash = self.0.get();
        (0..ROWS).map(move |row| row * COLUMNS + (hash >> (16 * row)) as usize % COLUMNS)
    }
}

impl CountSketch {
    /// Counts one more of `key`, unless there are `most` of it; whether it did. Whoever has counted
    /// one must [take it back](CountSketch::remove).
    pub fn add(&self, key: AddressKey, most: u32) -> bool {
        if self.count(key) >= most {
            // A crowd that is turned away only reads.
            return false;
        }
        let rows = self.rows.get_or_init(|| Box::new(zeros()));
        for cell in key.cells() {
            rows[cell].fetch_add(1, Ordering::Relaxed);
        }
        true
    }

    /// Counts one less of `key`.
    pub fn remove(&self, key: AddressKey) {
        debug_assert!(self.rows.get().is_some(), "nothing was ever counted");
        if let Some(rows) = self.rows.get() {
            for cell in key.cells() {
                let before = rows[cell].fetch_sub(1, Ordering::Relaxed);
                debug_assert!(before > 0, "what was never counted would lock an address out");
            }
        }
    }

    /// How many there are of `key` at most.
    pub fn count(&self, key: AddressKey) -> u32 {
        let Some(rows) = self.rows.get() else { return 0 };
        key.cells().map(|cell| rows[cell].load(Ordering::Relaxed)).min().unwrap_or_default()
    }

    /// Whether nothing is counted. Walks all cells: for tests.
    pub fn is_empty(&self) -> bool {
        let is_zero = |cell: &AtomicU32| cell.load(Ordering::Relaxed) == 0;
        self.rows.get().is_none_or(|rows| rows.iter().all(is_zero))
    }
}

impl RateSketch {
    /// For `per_second` units a second, and as many at once as in `at_once_seconds`.
    pub fn new(per_second: u64, at_once_seconds: u64) -> RateSketch {
        let at_once_ns = at_once_seconds.saturating_mul(NS_PER_SECOND);
        RateSketch { rows: OnceBox::new(), per_second: per_second.max(1), at_once_ns }
    }

    /// Enters `units` of `key`, unless that is more than it may have by `now_ns`; whether it did.
    /// The clock begins anywhere and goes on.
    pub fn take(&self, key: AddressKey, units: u64, now_ns: u64) -> bool {
        let rows = self.rows.get_or_init(|| Box::new(zeros()));
        let cells = || key.cells().map(|cell| &rows[cell]);
        let paid_ns = cells().map(|cell| cell.load(Ordering::Relaxed)).min().unwrap_or_default();
        let cost_ns = units.saturating_mul(NS_PER_SECOND) / self.per_second;
        let paid_ns = paid_ns.max(now_ns).saturating_add(cost_ns);
        if paid_ns - now_ns > self.at_once_ns {
            return false;
        }
        for cell in cells() {
            cell.fetch_max(paid_ns, Ordering::Relaxed);
        }
        true
    }
}

fn zeros<T: Default>() -> Box<[T]> {
    (0..ROWS * COLUMNS).map(|_| T::default()).collect()
}
