//! Two Enckes that are connected to each other tick as often as is needed, and no more.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::node::{World, figures, wait_figure};
use crate::harness::wait_for;

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

/// Who is silent for so many seconds, as where the machine stands still, is connected anew.
const TICK_SECONDS: u64 = 8;

#[test]
fn two_servers_that_are_connected_do_not_answer_ticks_with_ticks() {
    let registered = Arc::new(AtomicU16::new(0));
    let (relayed, passed) = relay(Arc::clone(&registered));
    let world = World::with_epmd_at(epmd(Arc::clone(&registered), relayed));
    let ticktime = format!("--erlang-ticktime={TICK_SECONDS}");
    let one = world.encke(&[&ticktime]);
    wait_for("one is registered", || registered.load(Ordering::Relaxed) != 0);
    let other = world.encke_as("other@127.0.0.1", &[&ticktime, "--erlang-connect=encke@127.0.0.1"]);
    wait_figure(&one, "nodes", 1);
    wait_figure(&other, "nodes", 1);
    let read = || passed.each_ref().map(|bytes| bytes.load(Ordering::Relaxed));
    let wait_ticks = |ticks: u64| {
        let before = read();
        let ticked = || read().iter().zip(before).all(|(now, before)| now - before >= 4 * ticks);
        wait_for("both tick", ticked);
    };
    // Each says something in a quarter of the tick time, in four bytes, and may be answered: eight
    // are those of three quarters at least. Ticks that answer ticks come by the thousand at once.
    wait_ticks(1);
    let begun = Instant::now();
    wait_ticks(8);
    let (took, quarter) = (begun.elapsed(), Duration::from_millis(250 * TICK_SECONDS));
    assert!(took > quarter, "eight ticks in {took:?}");
    for server in [&one, &other] {
        wait_figure(server, "nodes", 1);
        assert_eq!(figures(server)["connected"], 1, "it stayed connected");
    }
}
