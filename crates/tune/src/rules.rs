//! The kernel settings that bound a crowd, each with its arithmetic: the one place from which the
//! table, `--apply` and `deploy/sysctl.conf` come.
//!
//! Sources: the kernel's Documentation/admin-guide/sysctl (fs, net, kernel, vm) and
//! Documentation/networking/ip-sysctl. On Linux 6.18 it was measured that an idle connection takes
//! none of `tcp_mem`, and one with bytes under way a page. Of 5,000 sockets, 100 unread bytes in
//! each raised `mem` in /proc/net/sockstat by 5,120 pages, and reading them gave those back.

use super::demand::Demand;

/// A kernel setting, and what it must be.
pub(crate) struct Rule {
    /// Its name for sysctl(8).
    pub key: &'static str,
    /// What it is for, in a sentence.
    pub why: &'static str,
    /// Below this the users do not fit. Empty when they fit all the same.
    pub need: fn(&Demand) -> Vec<u64>,
    /// Below this they fit, and something suffers.
    pub want: fn(&Demand) -> Vec<u64>,
    /// What it is on most machines, below which a file of settings must not bring it; 0 where that
    /// depends on their memory. Empty for a setting whose default is enough for a large crowd: it
    /// stays out of the file.
    pub default: &'static [u64],
    /// Whether it belongs to a module that need not be loaded.
    pub of_module: bool,
}

/// Connections of which one has data under way at a time, when everybody hears an event a minute
/// and its acknowledgement takes a second.
const USERS_PER_BUSY_ONE: u64 = 60;

/// The share of the users that may vanish or come back at once.
const USERS_PER_STORMING_ONE: u64 = 4;

/// All rules, in the order of the table.
pub(crate) const RULES: [Rule; 15] = [
    Rule {
        key: "fs.file-max",
        why: "Files of the whole machine: each end of a connection is one, and a tenth is left to \
              others.",
        need: |demand| vec![demand.files()],
        want: |demand| vec![demand.sockets() * 11 / 10],
        default: &[0],
        of_module: false,
    },
    Rule {
        key: "fs.nr_open",
        why: "The most that a limit on descriptors (ulimit -n, LimitNOFILE) can be.",
        need: |_| vec![],
        want: |demand| vec![demand.descriptors_wanted],
        default: &[1 << 20],
        of_module: false,
    },
    Rule {
        key: "net.core.somaxconn",
        why: "Connections that wait to be accepted, for each worker; when a quarter of the users \
              come back at once, those over it try again a second later.",
        need: |_| vec![],
        want: |demand| vec![demand.herd_of_worker(USERS_PER_STORMING_ONE)],
        default: &[4096],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_max_syn_backlog",
        why: "Handshakes under way, for each worker; as many as may wait to be accepted.",
        need: |_| vec![],
        want: |demand| vec![demand.herd_of_worker(USERS_PER_STORMING_ONE)],
        default: &[4096],
        of_module: false,
    },
    Rule {
        key: "net.core.netdev_max_backlog",
        why: "Packets of the loopback that wait for a core; one that finds no room is dropped, and \
              is sent again 0.2 s later.",
        need: |_| vec![],
        want: |demand| vec![if demand.crowd_is_here() { 16_384 } else { 0 }],
        default: &[1000],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_mem",
        why: "Pages for bytes under way, of all sockets: an idle connection takes none, one that \
              has such bytes at least one. Past the second number buffers shrink, past the third \
              connections stall; the second holds an event for everybody at once.",
        need: |demand| {
            let busy = demand.sockets() / USERS_PER_BUSY_ONE;
            vec![0, 0, busy]
        },
        want: |demand| {
            let sockets = demand.sockets();
            vec![sockets * 3 / 4, sockets, sockets * 3 / 2]
        },
        default: &[0; 3],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_rmem",
        why: "Bytes that a client may send before they are read; a request head must fit.",
        need: |_| vec![0, 0, proto::request::HEAD_BYTES_MAX as u64],
        want: |_| vec![0, 2 * proto::request::HEAD_BYTES_MAX as u64, 0],
        default: &[],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_wmem",
        why: "Bytes that the kernel keeps for one connection; below Encke's own bound slow readers \
              meet theirs sooner.",
        need: |_| vec![],
        want: |_| vec![0, 0, 2 * u64::from(engine::limits::KERNEL_UNSENT_BYTES)],
        default: &[],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_max_orphans",
        why: "Connections that the server has ended and the client has not yet; past it they are \
              reset, and clients miss the proper end of their stream.",
        need: |_| vec![],
        want: |demand| vec![demand.users],
        default: &[0],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_max_tw_buckets",
        why: "Ended connections that are remembered for a minute; past it they are forgotten at \
              once, and late packets of theirs may be misread.",
        need: |_| vec![],
        want: |demand| vec![demand.users / USERS_PER_STORMING_ONE],
        default: &[0],
        of_module: false,
    },
    Rule {
        key: "net.ipv4.tcp_tw_reuse",
        why: "Whether a crowd that comes back may use ports again that it left within the last \
              minute.",
        need: |_| vec![],
        want: |demand| vec![u64::from(demand.crowd_is_here())],
        default: &[],
        of_module: false,
    },
    Rule {
        key: "net.netfilter.nf_conntrack_max",
        why: "Connections that a firewall keeps track of; past it packets are dropped, and new \
              clients do not get in.",
        need: |demand| vec![if demand.tracked { demand.entries() } else { 0 }],
        want: |demand| vec![demand.users * 5 / 4],
        default: &[262_144],
        of_module: true,
    },
    Rule {
        key: "kernel.threads-max",
        why: "Threads of the whole machine; each worker is one.",
        need: |demand| vec![demand.threads()],
        want: |_| vec![],
        default: &[],
        of_module: false,
    },
    Rule {
        key: "kernel.pid_max",
        why: "Numbers for processes and threads.",
        need: |demand| vec![demand.threads()],
        want: |_| vec![],
        default: &[],
        of_module: false,
    },
    Rule {
        key: "vm.max_map_count",
        why: "Pieces of a process' memory: a stack for each worker, and the chunks of the slabs.",
        need: |demand| vec![demand.maps()],
        want: |_| vec![],
        default: &[],
        of_module: false,
    },
];
