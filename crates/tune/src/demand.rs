//! What a number of users takes of a machine.
//!
//! Pure arithmetic on figures that were measured, named at each constant. It grows with the users,
//! so what fits can be found by halving.

use engine::limits::DESCRIPTORS_RESERVED;
use engine::workers::{descriptors_for, fair_capacity, workers_for};
use figures::listeners::{loopback_sources, threads_for};
use hub::ConnRef;
use serde::Serialize;

use super::machine::Machine;

/// Which ends of the connections are on the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// The server's.
    Server,
    /// The server's and the clients', over the loopback: `encke demo`, `encke flood`.
    Both,
}

impl Ends {
    fn count(self) -> u64 {
        match self {
            Ends::Server => 1,
            Ends::Both => 2,
        }
    }
}

/// Kernel memory of one socket: a million pairs took 6.4 GB on Linux 6.18.
const KERNEL_BYTES_PER_SOCKET: u64 = 3_200;

/// Memory of the process for an idle connection (`cargo bench --bench limit`, the slope).
const USER_BYTES_PER_CONNECTION: u64 = 100;

/// Memory of the crowd for one listener (the module doc of `load::flood`).
const USER_BYTES_PER_LISTENER: u64 = 72;

/// The stored graph for a user with 15 friends of their own making, both ways (573 MB for a
/// million, `cargo bench -p graph --bench graph`): pages that are better kept in memory.
const GRAPH_BYTES_PER_USER: u64 = 573;

/// Memory of a worker without connections: stack, buffers, mailbox, the allocator's arena. `serve`
/// with 200 workers takes 170 KiB for each over what it takes with 2 (`RssAnon`); the rest is for
/// mail.
const BYTES_PER_WORKER: u64 = 256 * 1024;

/// Memory of the program before its first connection, and what is left to others.
const BYTES_BESIDE: u64 = 256 << 20;

/// Threads of the program beside its workers, and of whoever comes while it runs.
const THREADS_BESIDE: u64 = 64;

/// Pieces of the process' memory per thread (a stack and the allocator's arena, each with what may
/// not be touched: 4.1 lines of /proc/PID/maps for each of 200 workers), and the program's own.
const MAPS_PER_THREAD: u64 = 5;
const MAPS_BESIDE: u64 = 1_000;

/// What the users take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Demand {
    /// How many there are, each with one connection.
    pub(crate) users: u64,
    /// Which ends of their connections are here.
    pub(crate) ends: Ends,
    /// Workers that the server starts.
    pub(crate) workers: u64,
    /// Threads of the crowd, when it is here.
    pub(crate) listener_threads: u64,
    /// Source addresses of the crowd, when it is here.
    pub(crate) listener_sources: u64,
    /// Descriptors of each worker with which one worker per core would do.
    pub(crate) descriptors_wanted: u64,
    /// Whether a firewall keeps track of connections.
    pub(crate) tracked: bool,
    files_of_others: u64,
    threads_of_others: u64,
    entries_of_others: u64,
}

impl Demand {
    /// What `users` take of `machine`.
    pub(crate) fn of(machine: &Machine, users: u32, ends: Ends) -> Demand {
        let (connections, cores) = (u64::from(users), machine.cores);
        let descriptors = machine.descriptors.hard;
        let crowd = |figure: u32| if ends == Ends::Both { figure.into() } else { 0 };
        Demand {
            users: connections,
            ends,
            workers: workers_for(connections, descriptors, cores) as u64,
            listener_threads: crowd(threads_for(users, descriptors, cores as u32)),
            listener_sources: crowd(loopback_sources(users)),
            descriptors_wanted: descriptors_for(connections.div_ceil(cores as u64)),
            tracked: machine.conntrack_entries.is_some_and(|entries| entries > 0),
            files_of_others: machine.files_open,
            threads_of_others: machine.threads,
            entries_of_others: machine.conntrack_entries.unwrap_or(0),
        }
    }

    /// The demand on a machine of which nothing is known, with one worker: so a file of settings is
    /// enough for all.
    pub(crate) fn anywhere(users: u32, ends: Ends) -> Demand {
        Demand {
            users: users.into(),
            ends,
            workers: 1,
            listener_threads: u64::from(ends == Ends::Both),
            listener_sources: 0,
            descriptors_wanted: descriptors_for(users.into()),
            tracked: true,
            files_of_others: 0,
            threads_of_others: 0,
            entries_of_others: 0,
        }
    }

    /// Whether the clients are on this machine.
    pub(crate) fn crowd_is_here(&self) -> bool {
        self.ends == Ends::Both
    }

    /// Sockets on this machine.
    pub(crate) fn sockets(&self) -> u64 {
        self.users * self.ends.count()
    }

    /// Files of the whole machine.
    pub(crate) fn files(&self) -> u64 {
        let threads = self.workers + self.listener_threads;
        self.sockets() + threads * DESCRIPTORS_RESERVED + self.files_of_others
    }

    /// Threads of the program.
    pub(crate) fn own_threads(&self) -> u64 {
        self.workers + self.listener_threads + THREADS_BESIDE
    }

    /// Threads of the whole machine.
    pub(crate) fn threads(&self) -> u64 {
        self.own_threads() + self.threads_of_others
    }

    /// Connections that a firewall keeps track of. One on the loopback is one, whatever its ends.
    pub(crate) fn entries(&self) -> u64 {
        self.users + self.entries_of_others
    }

    /// Pieces of the process' memory.
    pub(crate) fn maps(&self) -> u64 {
        (self.workers + self.listener_threads) * MAPS_PER_THREAD + MAPS_BESIDE
    }

    /// Connections that meet one worker's listener when one of so many users comes back at once.
    pub(crate) fn herd_of_worker(&self, users_per_one: u64) -> u64 {
        debug_assert!(self.workers > 0 && users_per_one > 0);
        let herd = self.users / users_per_one / self.workers;
        herd.min(engine::limits::LISTEN_BACKLOG as u64)
    }

    /// Memory that idle users take, in its parts.
    pub(crate) fn memory(&self) -> Memory {
        let listeners = if self.crowd_is_here() { self.users * USER_BYTES_PER_LISTENER } else { 0 };
        let threads = (self.workers + self.listener_threads) * BYTES_PER_WORKER;
        Memory {
            sockets: self.sockets() * KERNEL_BYTES_PER_SOCKET,
            process: self.users * USER_BYTES_PER_CONNECTION + listeners + threads + BYTES_BESIDE,
            graph: self.users * GRAPH_BYTES_PER_USER,
        }
    }

    /// The demand of a server with one worker: what is enough for that is enough for any number.
    pub(crate) fn of_one_worker(&self) -> Demand {
        Demand { workers: 1, ..self.clone() }
    }

    /// Connections that as many workers as there can be hold on `machine`.
    pub(crate) fn connections_max(machine: &Machine) -> u64 {
        let each = u128::from(fair_capacity(machine.descriptors.hard));
        u64::try_from(ConnRef::WORKERS_MAX as u128 * each).unwrap_or(u64::MAX)
    }
}

/// Bytes of memory, by what they are for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Memory {
    /// The kernel's sockets.
    pub(crate) sockets: u64,
    /// The program's own.
    pub(crate) process: u64,
    /// The pages of the friends graph, which the kernel takes back when it needs them.
    pub(crate) graph: u64,
}

impl Memory {
    /// What must be there.
    pub(crate) fn need(self) -> u64 {
        self.sockets + self.process
    }

    /// What lets the graph stay in memory, too.
    pub(crate) fn want(self) -> u64 {
        self.need() + self.graph
    }
}
