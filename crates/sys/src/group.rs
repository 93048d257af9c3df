//! Which listeners of a group (`SO_REUSEPORT`) the kernel gives new connections to.
//!
//! By itself it picks one by a hash of the addresses, full or not. A classic BPF program on the
//! group (`SO_ATTACH_REUSEPORT_CBPF`, socket(7), the kernel's net/core/sock_reuseport.c) picks
//! instead: it answers with a listener's index, which is the order in which they called listen(2),
//! as long as none has been closed. An index that nobody has falls back to the hash. Whoever waits
//! in a listener's queue already stays there. The program needs no privilege.
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
    program
}

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpStream};
    use std::os::fd::OwnedFd;

    use socket2::SockAddr;

    use super::*;
    use crate::socket;

    fn group(members: usize) -> (SocketAddr, Vec<OwnedFd>) {
        let address = socket::claim("127.0.0.1:0".parse().unwrap()).unwrap();
        let listen = |_| socket::listen_in_group(address, 4096).unwrap();
        (address, (0..members).map(listen).collect())
    }

    fn connect(address: SocketAddr, clients: usize) -> Vec<TcpStream> {
        (0..clients).map(|_| TcpStream::connect(address).unwrap()).collect()
    }

    /// Everybody in the queue. A client that has connected over the loopback interface is in one.
    fn accept_all(listener: &OwnedFd) -> Vec<OwnedFd> {
        std::iter::from_fn(|| socket::accept(listener).ok()).collect()
    }

    #[test]
    fn members_outside_the_runs_get_nobody() {
        let (address, members) = group(6);
        prefer(&members[0], &[1..2, 3..5]).unwrap();
        let _clients = connect(address, 1000);
        let got: Vec<usize> = members.iter().map(|member| accept_all(member).len()).collect();
        assert_eq!((got[0], got[2], got[5]), (0, 0, 0), "{got:?}");
        // Five standard deviations around a third.
        assert!([1, 3, 4].iter().all(|&member| (258..=408).contains(&got[member])), "{got:?}");
        assert_eq!(got.iter().sum::<usize>(), 1000);
    }

    #[test]
    fn preference_ends_for_all_through_any_member() {
        assert!(is_supported());
        let (address, members) = group(3);
        prefer_none(&members[0]).unwrap();
        prefer(&members[0], &[0..1]).unwrap();
        prefer(&members[1], &[2..3]).unwrap();
        let _clients = connect(address, 100);
        assert_eq!(accept_all(&members[2]).len(), 100);
        prefer_none(&members[1]).unwrap();
        let _clients = connect(address, 300);
        assert!(members.iter().all(|member| !accept_all(member).is_empty()));
    }

    #[test]
    fn who_waits_at_a_member_that_leaves_is_served_there() {
        use std::io::{Read, Write};
        let (address, members) = group(2);
        prefer(&members[0], &[0..1]).unwrap();
        let mut waiting = connect(address, 50);
        prefer(&members[0], &[1..2]).unwrap();
        let others = connect(address, 50);
        let served = accept_all(&members[0]);
        assert_eq!((served.len(), accept_all(&members[1]).len()), (50, others.len()));
        for (client, server) in waiting.iter_mut().zip(&served) {
            socket::send(server, b"hello").unwrap();
            client.write_all(b"hi").unwrap();
            let mut hello = [0; 5];
            client.read_exact(&mut hello).unwrap();
            assert_eq!(&hello, b"hello");
        }
    }

    /// What the caller must know: not bind(2) gives the index, but listen(2).
    #[test]
    fn index_is_the_order_of_listening() {
        let address = socket::claim("127.0.0.1:0".parse().unwrap()).unwrap();
        let bound: Vec<Socket> = (0..3)
            .map(|_| {
                let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
                socket.set_reuse_port(true).unwrap();
                socket.bind(&SockAddr::from(address)).unwrap();
                socket
            })
            .collect();
        for member in [2, 0, 1] {
            bound[member].listen(64).unwrap();
        }
        let bound: Vec<OwnedFd> = bound.into_iter().map(OwnedFd::from).collect();
        for (index, member) in [2, 0, 1].into_iter().enumerate() {
            let index = index as u16;
            prefer(&bound[0], &[index..index + 1]).unwrap();
            let _clients = connect(address, 10);
            assert_eq!(accept_all(&bound[member]).len(), 10, "index {index}");
        }
    }

    #[test]
    #[ignore = "it measures and asserts nothing"]
    fn attaching_takes_this_long() {
        let (_address, members) = group(54);
        for runs in [1, 2, 27, 128, 256_u16] {
            let members_of_runs: Vec<_> = (0..runs).map(|run| 2 * run..2 * run + 1).collect();
            let before = crate::clock::process_cpu();
            for _ in 0..2000 {
                prefer(&members[0], &members_of_runs).unwrap();
            }
            println!("{runs} runs: {:?}", (crate::clock::process_cpu() - before) / 2000);
        }
    }

    #[test]
    fn kernel_takes_the_longest_program() {
        let (address, members) = group(2);
        let last = 2 * RUNS_MAX as u16 - 1;
        let runs: Vec<_> = (0..=last).step_by(2).map(|index| index..index + 1).collect();
        assert_eq!(runs.len(), RUNS_MAX);
        prefer(&members[1], &runs).unwrap();
        // All but one of these indexes have no listener here: the hash decides.
        let _clients = connect(address, 300);
        assert!(members.iter().all(|member| !accept_all(member).is_empty()));
        assert!(prefer(&members[1], &[]).is_err(), "no run would divide by zero");
    }
}
