//! Linux in a thin safe coat.
//!
//! The only crate with `unsafe`: each block is one system call, behind a safe function. It decides
//! nothing. It gives the engine and the load tools epoll, a waker, sockets, private descriptor
//! tables, and descriptors from process to process. It gives clocks and the figures of the process
//! and of the machine's sockets, and it guards the graph's mapped file. Cost: the system call, and
//! no allocation on any path that a connection takes.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod allocator;
pub mod clock;
pub mod epoll;
pub mod futex;
pub mod group;
pub mod limits;
pub mod machine;
pub mod mapped;
pub mod passing;
pub mod pipe;
pub mod plain_file;
pub mod priority;
pub mod process;
pub mod secrets;
pub mod signals;
pub mod socket;
pub mod socket_memory;
pub mod table;
pub mod waker;

use std::io;

/// Turns the kernel's -1 into the error behind it.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The result of a call that returns a length.
fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}
