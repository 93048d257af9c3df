//! `cargo bench -p hub --bench addresses`: what it costs to count an address, when a million of
//! them are counted.
//!
//! An address' cells lie anywhere in some megabytes, so the calls are about addresses drawn at
//! random, each at another place. What is told is the mean of a million calls, of three rounds the
//! least. With a second thread that does the same at the same time as the last line.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use hub::{AddressKey, AddressKeys, CountSketch, RateSketch};

const CALLS: u32 = 1_000_000;
const ROUNDS: usize = 3;

/// Addresses far from one another, each once.
fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(number.wrapping_mul(2_654_435_761))
}

struct Addresses {
    keys: AddressKeys,
    connections: CountSketch,
    connects: RateSketch,
    request_bytes: RateSketch,
    started: Instant,
}

impl Addresses {
    fn new() -> Addresses {
        Addresses {
            keys: AddressKeys::random(),
            connections: CountSketch::default(),
            connects: RateSketch::new(200, 1),
            request_bytes: RateSketch::new(1 << 20, 4),
            started: Instant::now(),
        }
    }

    fn key(&self, number: u32) -> AddressKey {
        self.keys.key(address(number).into())
    }

    fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// As a worker does when a client connects.
    fn connect(&self, number: u32, now_ns: u64) -> bool {
        let key = self.key(number);
        self.connections.count(key) < 1000
            && self.connects.take(key, 1, now_ns)
            && self.connections.add(key, 1000)
    }

    fn close(&self, number: u32) {
        self.connections.remove(self.key(number));
    }

    fn request(&self, number: u32, now_ns: u64) -> bool {
        self.request_bytes.take(self.key(number), 300, now_ns)
    }
}

/// The least mean of the rounds.
fn told(name: &str, call: impl Fn(u32)) {
    let round = |_| {
        let begun = Instant::now();
        (0..CALLS).for_each(&call);
        begun.elapsed().as_nanos() as f64 / f64::from(CALLS)
    };
    let least = (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min);
    println!("{name:<34} {least:>6.0} ns");
}

fn all(addresses: &Addresses) {
    let now_ns = addresses.now_ns();
    told("an address hashed", |number| {
        black_box(addresses.key(number));
    });
    told("a connect and a close", |number| {
        black_box(addresses.connect(number, now_ns + u64::from(number) * 40_000));
        addresses.close(number);
    });
    told("a request", |number| {
        black_box(addresses.request(number, now_ns + u64::from(number) * 40_000));
    });
}

fn main() {
    let addresses = Addresses::new();
    all(&addresses);
    // From here on a million is connected.
    for number in 0..CALLS {
        addresses.connections.add(addresses.key(number + CALLS), u32::MAX);
    }
    println!("with a million connections");
    all(&addresses);
    let flooder = addresses.key(7);
    for _ in 0..1000 {
        addresses.connections.add(flooder, 1000);
    }
    told("a connect that is refused", |_| {
        assert!(!addresses.connect(black_box(7), 0));
    });
    println!("beside a thread that does the same");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in (0..CALLS).cycle().take_while(|_| !is_over.load(Ordering::Relaxed)) {
                black_box(addresses.connect(number, addresses.now_ns()));
                addresses.close(number);
            }
        });
        all(&addresses);
        is_over.store(true, Ordering::Relaxed);
    });
}
