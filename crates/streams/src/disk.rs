//! What is asked of the disk about what is appended: few calls, which a test counts and has fail.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

/// One of the calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DiskCall {
    Write,
    Sync,
    Cut,
}

/// Writes all of the bytes at a place.
pub(crate) fn write_at(file: &File, bytes: &[u8], position: u64) -> io::Result<()> {
    called(DiskCall::Write)?;
    file.write_all_at(bytes, position)
}

/// Returns once the data of the file and its length are on disk (`fdatasync`).
pub(crate) fn sync(file: &File) -> io::Result<()> {
    called(DiskCall::Sync)?;
    file.sync_data()
}

/// Cuts the file to the length.
pub(crate) fn cut(file: &File, len: u64) -> io::Result<()> {
    called(DiskCall::Cut)?;
    file.set_len(len)
}

#[cfg(not(test))]
fn called(_call: DiskCall) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
use self::faults::called;

/// Calls of the test that runs on this thread.
#[cfg(test)]
pub(crate) mod faults {
    use std::cell::RefCell;

    use super::*;

    /// `EIO` of Linux.
    const EIO: i32 = 5;

    thread_local! {
        static CALLS: RefCell<Vec<DiskCall>> = const { RefCell::new(Vec::new()) };
        static FAILING: RefCell<Vec<DiskCall>> = const { RefCell::new(Vec::new()) };
    }

    /// From now on calls of these kinds fail, and no others.
    pub(crate) fn fail(calls: &[DiskCall]) {
        FAILING.set(calls.into());
    }

    /// The calls since it was asked last.
    pub(crate) fn calls() -> Vec<DiskCall> {
        CALLS.take()
    }

    pub(super) fn called(call: DiskCall) -> io::Result<()> {
        CALLS.with_borrow_mut(|calls| calls.push(call));
        match FAILING.with_borrow(|failing| failing.contains(&call)) {
            true => Err(io::Error::from_raw_os_error(EIO)),
            false => Ok(()),
        }
    }
}
