//! How many long records are in memory at one time because somebody reads them.
//!
//! A record is read as a whole, since its checksum is over all of it. One of megabytes takes as
//! many bytes, and who wants its data has a copy of them. There may be as many readers as threads,
//! so a few of them read a long record at one time. The others wait, or are refused.
//!
//! Whoever has a permit waits for nothing but the disk: neither for a second permit nor for a lock.
//! So all who wait have their turn, also those who hold a stream meanwhile.
//!
//! Cost: nothing for a short record, and two short locks for a long one.

use parking_lot::{Condvar, Mutex};

/// Bytes above which a record is a long one.
pub(crate) const LONG_BYTES: usize = 1 << 20;

/// Readers of long records at one time.
pub const LONG_READS_MAX: usize = 8;

/// The permits of those who read long records.
#[derive(Debug)]
pub(crate) struct LongReads {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// A permit to read long records, as long as it is held.
#[derive(Debug)]
pub(crate) struct LongRead<'p> {
    permits: &'p LongReads,
}

impl LongReads {
    /// All permits, none of which is taken.
    pub(crate) fn new() -> LongReads {
        LongReads { free: Mutex::new(LONG_READS_MAX), given_back: Condvar::new() }
    }

    /// Waits for a permit. Whoever has one must not ask for a second.
    pub(crate) fn begin(&self) -> LongRead<'_> {
        let mut free = self.free.lock();
        while *free == 0 {
            self.given_back.wait(&mut free);
        }
        *free -= 1;
        LongRead { permits: self }
    }

    /// How many nobody has.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        *self.free.lock()
    }
}

impl Drop for LongRead<'_> {
    fn drop(&mut self) {
        *self.permits.free.lock() += 1;
        self.permits.given_back.notify_one();
    }
}
