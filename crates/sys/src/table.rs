//! Private descriptor tables: unshare(2) with `CLONE_FILES`.
//!
//! A thread with a table of its own takes no shared table lock, pays no atomic count on each system
//! call, and has `RLIMIT_NOFILE` descriptors for itself. The price is a rule: a descriptor never
//! crosses threads, except one that was opened before and kept by name.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Gives the calling thread a descriptor table of its own, with the standard streams and the
/// descriptors in `keep`, under the numbers that they had; every other copy is closed, so that a
/// socket that its owner closes elsewhere really ends.
pub fn make_private(keep: &[&dyn AsFdDyn]) -> io::Result<()> {
    // SAFETY: no pointers are passed; only the calling thread's own table changes.
    crate::check(unsafe { libc::unshare(libc::CLONE_FILES) })?;
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.number() as u32).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().filter(|&number| number > 2) {
        close_range(first, number - 1)?;
        first = number + 1;
    }
    close_range(first, u32::MAX)
}

/// `AsFd` as a trait object.
pub trait AsFdDyn {
    /// The descriptor's number.
    fn number(&self) -> i32;
}

impl<T: AsFd> AsFdDyn for T {
    fn number(&self) -> i32 {
        self.as_fd().as_raw_fd()
    }
}

fn close_range(first: u32, last: u32) -> io::Result<()> {
    if first > last {
        return Ok(());
    }
    // SAFETY: no pointers are passed; called only on a table that no other thread sees, in which
    // nothing but the kept descriptors is in use.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    crate::check(result as i32).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waker::Waker;
    use std::net::TcpListener;
    use std::net::TcpStream;

    #[test]
    fn private_table_keeps_what_is_named_and_drops_the_rest() {
        let waker = Waker::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                make_private(&[&waker]).unwrap();
                let free = std::fs::File::open("/dev/null").unwrap();
                assert!(free.as_raw_fd() <= waker.as_fd().as_raw_fd() + 1);
                waker.ring();
            });
        });
        drop(listener);
        assert!(TcpStream::connect(address).is_err(), "no copy keeps the listener open");
    }
}
