//! futex(2): a thread waits for a word of its process to change, whatever descriptors it has.
//!
//! Threads with descriptor tables of their own cannot ring each other's [wakers](crate::waker):
//! here nothing but memory is shared. Whoever waits longest is woken first.

use std::io;
use std::ptr;
use std::sync::atomic::AtomicU32;

/// Sleeps while `word` is `while_is`, until somebody wakes this thread; `until_ns` at the latest,
/// on [the monotonic clock](crate::clock::monotonic_ns). Whether somebody has woken it: `false`
/// where the word is another one already, or the time is over.
pub fn wait(word: &AtomicU32, while_is: u32, until_ns: u64) -> bool {
    let until = libc::timespec {
        tv_sec: (until_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (until_ns % 1_000_000_000) as libc::c_long,
    };
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let (any, nobody) = (libc::FUTEX_BITSET_MATCH_ANY, ptr::null::<u32>());
    // SAFETY: `word` and `until` outlive the call, which reads both and writes neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            while_is,
            &raw const until,
            nobody,
            any,
        )
    };
    result == 0
}

/// Wakes the thread that has waited longest for `word`; whether there was one.
pub fn wake_one(word: &AtomicU32) -> io::Result<bool> {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel takes the address of `word` for a name, and reads nothing there.
    let woken = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
    crate::check(woken as i32).map(|woken| woken > 0)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::clock::monotonic_ns;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn word_that_is_another_one_and_a_time_that_is_over_end_the_wait() {
        let word = AtomicU32::new(1);
        assert!(!wait(&word, 0, monotonic_ns() + 100 * SECOND_NS));
        let until_ns = monotonic_ns() + 1_000_000;
        assert!(!wait(&word, 1, until_ns));
        assert!(monotonic_ns() >= until_ns);
        assert!(!wake_one(&word).unwrap(), "nobody waits");
    }

    #[test]
    fn each_is_woken_once() {
        let (word, woken) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    assert!(wait(&word, 0, monotonic_ns() + 100 * SECOND_NS));
                    woken.fetch_add(1, Ordering::Relaxed);
                });
            }
            for waker in 1..=3 {
                while !wake_one(&word).unwrap() {
                    std::thread::yield_now();
                }
                while woken.load(Ordering::Relaxed) < waker {
                    std::thread::yield_now();
                }
            }
        });
    }
}
