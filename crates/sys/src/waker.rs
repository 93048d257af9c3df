//! A waker: eventfd(2), by which any thread ends another thread's epoll wait.
//!
//! It is never read. Edge-triggered, each ring is a report of its own, which saves the woken thread
//! a call. The counter behind it would be full after 2^64 rings.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Wakes one sleeping thread.
///
/// Made before its thread takes a private descriptor table and kept there under the same number
/// (see [`crate::table`]), so both sides may use it.
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// A waker that has not been rung.
    pub fn new() -> io::Result<Waker> {
        // SAFETY: no pointers are passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        let fd = crate::check(fd)?;
        // SAFETY: the descriptor was just made and belongs to nobody else.
        Ok(Waker { fd: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Makes the descriptor readable. It cannot fail in a way that matters: the counter is full
    /// only when 2^64 rings were not heard, and then it is readable all the same.
    pub fn ring(&self) {
        let one = 1_u64;
        // SAFETY: the eight bytes of `one` outlive the call.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), 8) };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epoll::{Epoll, Events};

    #[test]
    fn each_ring_ends_one_wait() {
        let (epoll, waker) = (Epoll::new().unwrap(), Waker::new().unwrap());
        epoll.add_edges(&waker, 42).unwrap();
        let mut events = Events::with_capacity(4);
        for _ in 0..3 {
            waker.ring();
            epoll.wait(&mut events, None).unwrap();
            assert_eq!(events.iter().map(|event| event.token).collect::<Vec<_>>(), [42]);
            epoll.wait(&mut events, Some(0)).unwrap();
            assert_eq!(events.iter().count(), 0);
        }
    }
}
