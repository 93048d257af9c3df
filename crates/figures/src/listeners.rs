//! Here is what many listeners on one machine take of it: source addresses, since the port of an
//! address has 16 bits, and threads, since each has descriptors of its own.

/// Ports that are used of one source address. The kernel has about 28,000 to give
/// (`net.ipv4.ip_local_port_range`), but looks for a free one by trying, and ports of a crowd that
/// left a minute ago are still in TIME_WAIT: at this share the search stays short.
pub const PORTS_PER_SOURCE: u32 = 12_000;

/// Descriptors of a thread that are not listeners.
const DESCRIPTORS_SPARE: u64 = 40;

/// Listeners that a thread holds before a further one pays, while cores are left.
const LISTENERS_PER_THREAD: u32 = 10_000;

/// Listeners that a thread with so many descriptors has room for.
pub fn room(descriptors: u64) -> u32 {
    u32::try_from(descriptors.saturating_sub(DESCRIPTORS_SPARE)).unwrap_or(u32::MAX)
}

/// Threads that a crowd of `users` takes, with so many descriptors each.
pub fn threads_for(users: u32, descriptors: u64, cores: u32) -> u32 {
    let needed = users.div_ceil(room(descriptors).max(1));
    let threads = needed.max(users.div_ceil(LISTENERS_PER_THREAD).min(cores));
    debug_assert!(u64::from(threads) * u64::from(room(descriptors).max(1)) >= u64::from(users));
    threads
}

/// Loopback addresses from which a crowd of `users` connects.
pub fn loopback_sources(users: u32) -> u32 {
    users.div_ceil(PORTS_PER_SOURCE)
}
