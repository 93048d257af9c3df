//! How fast a key finds its server, beside what its MD5 alone takes in the same run.
//!
//! `cargo bench -p ketama --bench lookup`: a million keys, `user:0` and so on, the best of five
//! rounds in which all loops take turns. What counts is the processor time of the thread, which a
//! busy machine stretches less than the clock's. Some ten seconds, on one core.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::unwrap_used, reason = "a benchmark that fails should stop")]

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use ketama::{Continuum, Server, hash};
use md5::{Digest, Md5};

const KEYS: usize = 1_000_000;
const ROUNDS: usize = 5;

fn main() {
    let keys: Vec<String> = (0..KEYS).map(|n| format!("user:{n}")).collect();
    let hashes: Vec<u32> = keys.iter().map(|key| hash(key.as_bytes())).collect();
    for servers in [10, 100, 1000] {
        let continuum = continuum(servers);
        println!("{servers} servers, {} points", continuum.points().len());
        let mut best = [Duration::MAX; 3];
        for _ in 0..ROUNDS {
            let times = [
                time(&keys, |key| Md5::digest(key.as_bytes())),
                time(&hashes, |hash| continuum.point_at(*hash).server),
                time(&keys, |key| continuum.server(key.as_bytes())),
            ];
            best.iter_mut().zip(times).for_each(|(best, time)| *best = time.min(*best));
        }
        let [md5, search, lookup] = best.map(|time| time.as_secs_f64() * 1e9 / KEYS as f64);
        println!("  MD5 of the key     {md5:6.1} ns");
        println!("  search of its hash {search:6.1} ns");
        println!(
            "  look-up, both      {lookup:6.1} ns, {:.2} million a second, {:.2} x MD5",
            1e3 / lookup,
            lookup / md5
        );
    }
}

fn continuum(servers: usize) -> Continuum {
    let server = |n| Server::new(&format!("10.0.{}.{}:11211", n / 250, n % 250), 100).unwrap();
    Continuum::new(&(0..servers).map(server).collect::<Vec<_>>()).unwrap()
}

fn time<'k, K, R>(keys: &'k [K], call: impl Fn(&'k K) -> R) -> Duration {
    let start = processor_time();
    for key in keys {
        black_box(call(key));
    }
    processor_time() - start
}

/// Of this thread, to a tick of the kernel's: the first number of its schedstat (proc(5)).
fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
