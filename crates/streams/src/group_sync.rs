//! One sync of a file for all who have written into it and wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Who waits for a sync of one file.
#[derive(Debug, Default)]
pub(crate) struct GroupSync {
    waiting: Mutex<Waiting>,
    is_over: Condvar,
}

/// Those who want one have numbers from 1 on.
#[derive(Debug, Default)]
struct Waiting {
    last: u64,
    /// Up to whom one has succeeded, and up to whom the last one that failed was for.
    done: u64,
    failed: u64,
    is_under_way: bool,
    /// Whether one has failed since the last that succeeded.
    is_doubtful: bool,
}

impl GroupSync {
    /// Returns once all is on disk that was written before. Who comes while somebody is at it waits
    /// for the next one, with all others who do. `sync` is told whether one before has failed: what
    /// that has not brought to the disk counts as written, and is to be written once more.
    ///
    /// # Errors
    /// The disk fails.
    pub(crate) fn sync(&self, sync: impl FnOnce(bool) -> io::Result<()>) -> io::Result<()> {
        let mut waiting = self.waiting.lock();
        waiting.last += 1;
        let number = waiting.last;
        while waiting.is_under_way && number > waiting.done.max(waiting.failed) {
            self.is_over.wait(&mut waiting);
        }
        if number <= waiting.done {
            return Ok(());
        }
        if number <= waiting.failed {
            return Err(io::Error::other("the sync that others have begun has failed"));
        }
        waiting.is_under_way = true;
        let (all, is_doubtful) = (waiting.last, waiting.is_doubtful);
        let result = MutexGuard::unlocked(&mut waiting, || {
            // Whoever waits is told so, and nobody waits for ever.
            catch_unwind(AssertUnwindSafe(|| sync(is_doubtful)))
                .unwrap_or_else(|_| Err(io::Error::other("the sync came to grief")))
        });
        (waiting.is_under_way, waiting.is_doubtful) = (false, result.is_err());
        *(if result.is_ok() { &mut waiting.done } else { &mut waiting.failed }) = all;
        self.is_over.notify_all();
        result
    }

    /// How many have wanted one.
    #[cfg(test)]
    pub(crate) fn asked(&self) -> u64 {
        self.waiting.lock().last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_of_one_sync_is_a_failure_and_holds_up_nobody() {
        let group = GroupSync::default();
        assert!(group.sync(|_| panic!("on purpose")).is_err());
        group.sync(|is_doubtful| if is_doubtful { Ok(()) } else { panic!("it is") }).unwrap();
        group.sync(|is_doubtful| if is_doubtful { panic!("it is not") } else { Ok(()) }).unwrap();
    }
}
