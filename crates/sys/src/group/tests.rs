//! Groups of listeners on the kernel that is here.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use socket2::SockAddr;

use super::*;
use crate::socket;

fn group(members: usize) -> (SocketAddr, Vec<OwnedFd>) {
    let address = socket::claim("127.0.0.1:0".parse().unwrap()).unwrap();
    let listen = |_| {
        let listener = socket::bind_in_group(address).unwrap();
        socket::listen(&listener, 4096).unwrap();
        listener
    };
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
