//! A worker that panics ends the process.

use std::thread;

/// A worker that is gone while its clients stay connected would be the worst of failures: they
/// would hear nothing and not know. So a panic in a worker, or an error of the kernel that keeps it
/// from going on, is printed and ends the process.
pub(super) struct EndProcessOnPanic;

impl Drop for EndProcessOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}
