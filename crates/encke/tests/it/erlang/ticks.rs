//! Two Enckes that are connected to each other tick as often as is needed, and no more.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testing::wait_within;

use super::node::{World, wait_figure};
use crate::harness::{DEADLINE, wait_for};

/// Bytes that went through a relay, either way.
type Passed = Arc<[AtomicU64; 2]>;

/// Passes on what comes on either side, and counts it.
fn relay(to: Arc<AtomicU16>) -> (u16, Passed) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let passed = Passed::default();
    let counted = Arc::clone(&passed);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let port = to.load(Ordering::Relaxed);
            let Ok(other) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
            for (way, from, to) in [(0, &stream, &other), (1, &other, &stream)] {
                let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let counted = Arc::clone(&counted);
                thread::spawn(move || {
                    let mut piece = [0; 4096];
                    while let Ok(len @ 1..) = from.read(&mut piece) {
                        counted[way].fetch_add(len as u64, Ordering::Relaxed);
                        if to.write_all(&piece[..len]).is_err() {
                            return;
                        }
                    }
                });
            }
        }
    });
    (port, passed)
}

/// An epmd that tells everybody the port `told`, and notes the port of whoever registers first.
fn epmd(registered: Arc<AtomicU16>, told: u16) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut len = [0; 2];
            stream.read_exact(&mut len).unwrap();
            let mut request = vec![0; u16::from_be_bytes(len).into()];
            stream.read_exact(&mut request).unwrap();
            if request[0] == 120 {
                let port = u16::from_be_bytes([request[1], request[2]]);
                let _ = registered.compare_exchange(0, port, Ordering::Relaxed, Ordering::Relaxed);
                stream.write_all(&[118, 0, 0, 0, 0, 4]).unwrap();
                kept.push(stream);
            } else {
                stream.write_all(&[&[119, 0][..], &told.to_be_bytes()].concat()).unwrap();
            }
        }
    });
    port
}

#[test]
fn two_servers_that_are_connected_do_not_answer_ticks_with_ticks() {
    // On a busy machine one may be silent for too long, and is connected anew: then all have more
    // time.
    assert!([1, 4, 16].into_iter().any(stay_connected_by_few_ticks), "one is silent each time");
}

/// Whether two servers with a tick time of so many seconds stayed connected.
fn stay_connected_by_few_ticks(tick_seconds: u64) -> bool {
    let registered = Arc::new(AtomicU16::new(0));
    let (relayed, passed) = relay(Arc::clone(&registered));
    let world = World::with_epmd_at(epmd(Arc::clone(&registered), relayed));
    let ticktime = format!("--erlang-ticktime={tick_seconds}");
    let one = world.encke(&[&ticktime]);
    wait_for("one is registered", || registered.load(Ordering::Relaxed) != 0);
    let other = world.encke_as("other@127.0.0.1", &[&ticktime, "--erlang-connect=encke@127.0.0.1"]);
    wait_figure(&one, "nodes", 1);
    wait_figure(&other, "nodes", 1);
    let read = || passed.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
    let (before, begun) = (read(), Instant::now());
    // Each says something in a quarter of the tick time, in four bytes, and may be answered.
    const TICKS: u64 = 20;
    let quarter = Duration::from_millis(250 * tick_seconds);
    let ticked = || read().iter().zip(before).all(|(now, before)| now - before >= 4 * TICKS);
    assert!(wait_within(DEADLINE + 2 * TICKS as u32 * quarter, ticked), "both tick");
    let took = begun.elapsed();
    for server in [&one, &other] {
        wait_figure(server, "nodes", 1);
    }
    if [&one, &other].iter().any(|server| super::node::figures(server)["connected"] != 1) {
        return false;
    }
    assert!(took > quarter * TICKS as u32 / 2 / 2, "{TICKS} ticks in {took:?}");
    true
}
