//! The bound on what is kept for all clients together: input that is not whole and output that is
//! not taken. Each connection has bounds of its own; many of them could still fill the memory.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes are kept, and how many may be.
#[derive(Debug)]
pub struct Account {
    /// Ordering: relaxed throughout. A bound on memory, good to within what workers enter at once.
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Account {
    pub(crate) fn new(bytes_max: usize) -> Account {
        Account { bytes: AtomicUsize::new(0), bytes_max }
    }

    /// A connection keeps `after` bytes where it kept `before`. `false` when it may not: nothing is
    /// entered then. Who keeps less always may.
    pub(crate) fn change(&self, before: u32, after: u32) -> bool {
        let (before, after) = (before as usize, after as usize);
        if after <= before {
            self.bytes.fetch_sub(before - after, Ordering::Relaxed);
            return true;
        }
        let more = after - before;
        let fits = self.bytes.fetch_add(more, Ordering::Relaxed) + more <= self.bytes_max;
        if !fits {
            self.bytes.fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    /// How many bytes are kept.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn account_that_is_full_takes_no_more_and_always_less() {
        let account = Account::new(100);
        assert!(account.change(0, 60) && account.change(0, 40));
        assert!(!account.change(40, 41));
        assert!(account.change(60, 10) && account.change(40, 90));
        assert_eq!(account.bytes(), 100);
        assert!(account.change(90, 0) && account.change(10, 0));
        assert_eq!(account.bytes(), 0);
    }
}
