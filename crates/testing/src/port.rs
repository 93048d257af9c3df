//! Ports for programs that cannot take one from the kernel as they begin to listen.

use std::net::{Ipv4Addr, TcpListener};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Below those that the kernel gives to whoever asks for any (`net.ipv4.ip_local_port_range`,
/// 32768 to 60999). A port of those may be a stranger's local end a moment after it was free, and
/// tests open thousands of connections while others start their programs.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// A port that nobody has, on no address, and that this process gives out once only. Servers of a
/// cluster must know each other's before they start, and a server that is started again takes its
/// own again.
///
/// # Panics
/// When there is none.
pub fn free_port() -> u16 {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Test programs that run at the same time begin far from each other.
    let first = process::id().wrapping_mul(7919);
    for _ in 0..COUNT {
        let number = first.wrapping_add(GIVEN.fetch_add(1, Relaxed));
        let port = u16::try_from(FIRST + number % COUNT).expect("it is below 32000");
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return port;
        }
    }
    panic!("no port from {FIRST} on is free")
}
