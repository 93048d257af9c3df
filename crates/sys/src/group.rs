//! Which listeners of a group (`SO_REUSEPORT`) the kernel gives new connections to.
//!
//! By itself it picks one by a hash of the addresses, full or not. A classic BPF program on the
//! group picks instead (`SO_ATTACH_REUSEPORT_CBPF`, socket(7), the kernel's
//! net/core/sock_reuseport.c). It answers with a listener's index, which is the order in which they
//! called listen(2), as long as none has been closed. An index that nobody has falls back to the
//! hash. Whoever waits in a listener's queue already stays there. The program needs no privilege.
//!
//! Cost: to attach, 12 µs for two runs of indexes, 24 µs for 27 (`cargo test --release -p sys
//! attaching -- --ignored --nocapture`); then up to three instructions per run for each new
//! connection.

#![allow(clippy::single_range_in_vec_init, reason = "a list of runs may have one")]

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use libc::{BPF_ABS, BPF_ADD, BPF_ALU, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_MOD, BPF_RET, BPF_W};
use libc::{sock_filter, sock_fprog};
use socket2::{Domain, Socket, Type};

/// Runs of indexes that one program can name. It has four instructions of its own and three for
/// each run; the kernel allows 4,096 (`BPF_MAXINSNS`), and before Linux 6.8 no more than 20 KiB of
/// translated code (`net.core.optmem_max`), which is what bounds this.
pub const RUNS_MAX: usize = 256;

/// No listener has this index.
const NOBODY: u32 = u32::MAX;

// The kernel takes so many instructions at most (BPF_MAXINSNS).
const _: () = {
    assert!(2 + 3 * RUNS_MAX < 4096);
};

/// Gives new connections to the listeners in `runs` alone, evenly and at random. The runs ascend
/// and none is empty; there are from one to [`RUNS_MAX`] of them. `listener` is any of the group.
pub fn prefer(listener: &impl AsFd, runs: &[Range<u16>]) -> io::Result<()> {
    let mut program = program(runs);
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let len = size_of::<sock_fprog>() as u32;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF);
    let (fd, value) = (listener.as_fd().as_raw_fd(), (&raw const program).cast());
    // SAFETY: `value` has `len` bytes, the instructions that it points at outlive the call, and the
    // kernel copies and checks them.
    crate::check(unsafe { libc::setsockopt(fd, level, option, value, len) }).map(drop)
}

/// Lets the kernel's own hash spread new connections over the whole group again.
pub fn prefer_none(listener: &impl AsFd) -> io::Result<()> {
    let (fd, ignored) = (listener.as_fd().as_raw_fd(), 0_i32);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF);
    let (value, len) = ((&raw const ignored).cast(), size_of::<i32>() as u32);
    // SAFETY: the four bytes of `ignored` outlive the call, and mean nothing.
    match crate::check(unsafe { libc::setsockopt(fd, level, option, value, len) }) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Whether this kernel, or what stands between it and us, lets a group be told.
pub fn is_supported() -> bool {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None);
    socket.is_ok_and(|socket| {
        socket.set_reuse_port(true).is_ok()
            && prefer(&socket, &[0..1]).is_ok()
            && prefer_none(&socket).is_ok()
    })
}

/// A random number below the sum of the runs' lengths, and a chain that finds the run it falls in.
fn program(runs: &[Range<u16>]) -> Vec<sock_filter> {
    // Without any run the kernel refuses it: it does not divide by zero.
    assert!(runs.iter().all(|run| !run.is_empty()), "a run has a member");
    assert!(runs.is_sorted_by(|one, next| one.end <= next.start), "clients would reach nobody");
    let members = runs.iter().map(|run| run.len() as u32).sum();
    let random = (libc::SKF_AD_OFF + libc::SKF_AD_RANDOM) as u32;
    let mut program =
        vec![step(BPF_LD | BPF_W | BPF_ABS, random), step(BPF_ALU | BPF_MOD | BPF_K, members)];
    let mut before = 0;
    for run in runs {
        let gap = u32::from(run.start) - before;
        before += run.len() as u32;
        // Past this run: over the next two steps.
        program.push(sock_filter { jt: 2, ..step(BPF_JMP | BPF_JGE | BPF_K, before) });
        program.push(step(BPF_ALU | BPF_ADD | BPF_K, gap));
        program.push(step(BPF_RET | libc::BPF_A, 0));
    }
    // Not reached, but a program must end in an answer.
    program.push(step(BPF_RET | BPF_K, NOBODY));
    debug_assert_eq!(before, members, "each member has its place");
    program
}

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests;
