//! How a crowd is spread over threads and source addresses, so that neither the descriptor limit
//! nor the 16 bits of a port are in its way.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use figures::listeners::{loopback_sources, room, threads_for};

use crate::flood::{FloodConfig, FloodError};

/// Where the listeners go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plan {
    /// Listener `i` belongs to the thread `i % threads`.
    pub(super) threads: u32,
    /// Listener `i` connects from the address `i % sources.len()`; from any when there is none.
    pub(super) sources: Vec<IpAddr>,
}

impl Plan {
    /// The plan for `config` against `target`, with so many descriptors a thread.
    pub(super) fn new(
        config: &FloodConfig,
        target: SocketAddr,
        descriptors: u64,
        cores: u32,
    ) -> Result<Plan, FloodError> {
        let room = room(descriptors);
        let needed = config.users.div_ceil(room.max(1));
        let threads = match config.threads {
            0 => threads_for(config.users, descriptors, cores),
            threads if threads < needed => {
                return Err(FloodError::Descriptors { users: config.users, threads, needed, room });
            }
            threads => threads.min(config.users),
        };
        let sources = match (target.ip(), &config.sources) {
            (_, given) if !given.is_empty() => given.clone(),
            (IpAddr::V4(ip), _) if ip.is_loopback() => loopback(config.users),
            _ => Vec::new(),
        };
        match sources.iter().find(|source| source.is_ipv4() != target.is_ipv4()) {
            Some(&from) => Err(FloodError::Source { from, target }),
            None => Ok(Plan { threads, sources }),
        }
    }

    /// How many of `users` listeners belong to `thread`.
    pub(super) fn share(&self, users: u32, thread: u32) -> u32 {
        debug_assert!(thread < self.threads && self.threads <= users.max(1));
        (users - thread).div_ceil(self.threads)
    }
}

/// As many addresses of 127.0.0.0/8 as `users` need, from 127.0.0.1 on.
fn loopback(users: u32) -> Vec<IpAddr> {
    let first = u32::from(Ipv4Addr::LOCALHOST);
    let addresses = first..first + loopback_sources(users);
    addresses.map(|address| Ipv4Addr::from(address).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(users: u32, threads: u32, target: &str) -> Result<Plan, FloodError> {
        let config = FloodConfig { users, threads, ..FloodConfig::default() };
        Plan::new(&config, target.parse().unwrap(), 20_000, 2)
    }

    #[test]
    fn million_listeners_get_threads_and_addresses() {
        let plan = plan(1_000_000, 0, "127.0.0.1:8000").unwrap();
        assert_eq!(plan.threads, 51);
        assert_eq!(plan.sources.len(), 84);
        assert_eq!(plan.sources[83], "127.0.0.84".parse::<IpAddr>().unwrap());
        let shares = (0..plan.threads).map(|thread| plan.share(1_000_000, thread));
        assert!(shares.clone().all(|share| share <= 20_000));
        assert_eq!(shares.sum::<u32>(), 1_000_000);
    }

    #[test]
    fn small_crowd_needs_one_thread() {
        assert_eq!(plan(1, 0, "127.0.0.1:8000").unwrap().threads, 1);
        assert_eq!(plan(10_000, 0, "127.0.0.1:8000").unwrap().threads, 1);
        assert_eq!(plan(30_000, 0, "127.0.0.1:8000").unwrap().threads, 2);
        assert_eq!(plan(3, 8, "127.0.0.1:8000").unwrap().threads, 3);
    }

    #[test]
    fn too_few_threads_for_the_descriptors_are_refused() {
        let error = plan(50_000, 2, "127.0.0.1:8000").unwrap_err();
        assert!(error.to_string().contains("--threads 3"), "{error}");
    }

    #[test]
    fn sources_must_be_of_the_targets_family() {
        assert_eq!(plan(5, 0, "10.0.0.1:80").unwrap().sources, Vec::<IpAddr>::new());
        let sources = vec!["::1".parse().unwrap()];
        let config = FloodConfig { users: 5, sources, ..FloodConfig::default() };
        let plan = Plan::new(&config, "127.0.0.1:80".parse().unwrap(), 20_000, 2);
        assert!(matches!(plan, Err(FloodError::Source { .. })));
    }
}
