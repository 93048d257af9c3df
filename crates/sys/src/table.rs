//! Private descriptor tables: unshare(2) with `CLONE_FILES`.
//!
//! A thread with a table of its own takes no shared table lock, pays no atomic count on each system
//! call, and has `RLIMIT_NOFILE` descriptors for itself. The price is a rule: a descriptor never
//! crosses threads, except one that was opened before and kept by name.

use std::fs::File;
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

/// How many more descriptors there are for the calling thread, `most` at most: it makes so many and
/// drops them. The first is of a file of its own, so that the machine's limit on files shows too.
pub fn free(most: usize) -> usize {
    let Some(first) = File::open("/dev/null").ok().filter(|_| most > 0) else { return 0 };
    let copies: Vec<File> = (1..most).map_while(|_| first.try_clone().ok()).collect();
    1 + copies.len()
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
    fn free_descriptors_are_counted_up_to_the_number_asked_for() {
        let limit = crate::limits::descriptors().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // A table of its own, in which other tests open nothing.
                make_private(&[]).unwrap();
                let open = 3;
                assert_eq!((free(0), free(1), free(10)), (0, 1, 10));
                let taken: Vec<_> = (0..5).map(|_| File::open("/dev/null").unwrap()).collect();
                let rest = limit.soft as usize - open - taken.len();
                assert_eq!(free(limit.soft as usize), rest);
                drop(taken);
                assert_eq!(free(limit.soft as usize), rest + 5);
            });
        });
    }

    #[test]
    fn private_table_keeps_what_is_named_and_drops_the_rest() {
        let waker = Waker::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                make_private(&[&waker]).unwrap();
                let free = File::open("/dev/null").unwrap();
                assert!(free.as_raw_fd() <= waker.as_fd().as_raw_fd() + 1);
                waker.ring();
            });
        });
        drop(listener);
        assert!(TcpStream::connect(address).is_err(), "no copy keeps the listener open");
    }
}
