//! What a machine and its limits allow, as read from /proc and /sys (proc(5), cgroups(7), the
//! kernel's Documentation/admin-guide/sysctl).
//!
//! Reads only, and takes the root of both as an argument, so that tests describe machines by files
//! of their own. What cannot be read is absent here, not an error: a container hides much. A few
//! dozen small files, under a millisecond.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Bit of `CAP_SYS_RESOURCE`, which raising a hard limit takes (capabilities(7)).
const CAP_SYS_RESOURCE: u32 = 24;

/// A limit of the process (getrlimit(2)); `u64::MAX` is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limit {
    /// What holds.
    pub(crate) soft: u64,
    /// Up to where the process may raise it.
    pub(crate) hard: u64,
}

/// Whether a kernel setting can be written from here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// By us, now.
    Writable,
    /// By root.
    Denied,
    /// Not even by root: it is the host's, and we are in a container.
    Foreign,
    /// Not here: /proc/sys is mounted read-only.
    ReadOnly,
}

/// A kernel setting as it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reading {
    /// One to three numbers.
    pub(crate) values: Vec<u64>,
    /// Whether it can be written.
    pub(crate) access: Access,
}

/// How much of something is left, and out of how much.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capacity {
    /// How much is left.
    pub free: u64,
    /// How much there is.
    pub limit: u64,
}

/// A machine, or what a container shows of one.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Cores that the process may use.
    pub(crate) cores: usize,
    /// Descriptors of each table: `RLIMIT_NOFILE`.
    pub(crate) descriptors: Limit,
    /// Threads of this user: `RLIMIT_NPROC`.
    pub(crate) processes: Limit,
    /// Whether this process may raise hard limits, and is not bound by `RLIMIT_NPROC`.
    pub(crate) may_raise_limits: bool,
    /// Kernel settings by name, such as `fs.file-max`.
    pub(crate) settings: BTreeMap<&'static str, Reading>,
    /// Files that are open on the whole machine.
    pub(crate) files_open: u64,
    /// Threads that run on the whole machine.
    pub(crate) threads: u64,
    /// Connections that conntrack knows now; `None` when it is not there.
    pub(crate) conntrack_entries: Option<u64>,
    /// Packets that were dropped since boot for want of room before they were handled.
    pub(crate) packets_dropped: u64,
    /// Bytes that programs can have without swapping.
    pub(crate) memory: Option<Capacity>,
    /// Bytes that the control group that leaves least lets programs have.
    pub(crate) group_memory: Option<Capacity>,
    /// Threads that the control group allows.
    pub(crate) group_threads: Option<Capacity>,
    root: PathBuf,
}

impl Machine {
    /// Reads this machine, or what stands under another `root`, for a program with so many cores,
    /// and of its settings those in `keys`.
    pub(crate) fn read(root: &Path, cores: usize, keys: &[&'static str]) -> Machine {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let limits = text("proc/self/limits");
        let groups = Groups::parse(root, &text("proc/self/cgroup"));
        let number = |path: &str| first_number(&text(path));
        let status = text("proc/self/status");
        let reading = |key| setting(root, key, is_root(&status));
        let none = Limit { soft: u64::MAX, hard: u64::MAX };
        Machine {
            cores,
            descriptors: limit(&limits, "Max open files").unwrap_or(none),
            processes: limit(&limits, "Max processes").unwrap_or(none),
            may_raise_limits: capable(&status, CAP_SYS_RESOURCE),
            settings: keys.iter().filter_map(|&key| Some((key, reading(key)?))).collect(),
            files_open: number("proc/sys/fs/file-nr").unwrap_or(0),
            threads: threads(&text("proc/loadavg")).unwrap_or(0),
            conntrack_entries: number("proc/sys/net/netfilter/nf_conntrack_count"),
            packets_dropped: packets_dropped(&text("proc/net/softnet_stat")),
            memory: memory(&text("proc/meminfo")),
            group_memory: groups.memory(),
            group_threads: groups.threads(),
            root: root.to_owned(),
        }
    }

    /// The values of a kernel setting.
    pub(crate) fn values(&self, key: &str) -> Option<&[u64]> {
        self.settings.get(key).map(|reading| &*reading.values)
    }

    /// Writes a kernel setting. It holds for the whole machine, at once and until it is restarted.
    pub(crate) fn write(&self, key: &str, values: &str) -> std::io::Result<()> {
        fs::write(setting_path(&self.root, key), values)
    }
}

fn setting_path(root: &Path, key: &str) -> PathBuf {
    root.join("proc/sys").join(key.replace('.', "/"))
}

fn setting(root: &Path, key: &str, is_root: bool) -> Option<Reading> {
    let path = setting_path(root, key);
    let text = fs::read_to_string(&path).ok()?;
    let values: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    // Opening alone changes nothing, and says more than the mode: a mount can be read-only.
    let access = match OpenOptions::new().write(true).open(&path) {
        Ok(_) => Access::Writable,
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Access::ReadOnly,
        Err(_) if is_root => Access::Foreign,
        Err(_) => Access::Denied,
    };
    Some(Reading { values: values.ok()?, access })
}

/// A line of /proc/self/limits: `Max open files  20000  20000  files`.
fn limit(limits: &str, name: &str) -> Option<Limit> {
    let mut words = limits.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut value = || match words.next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    };
    Some(Limit { soft: value()?, hard: value()? })
}

fn capable(status: &str, capability: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let bits = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    bits >> capability & 1 == 1
}

/// Whether the effective user, the second number, is root.
fn is_root(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.and_then(|users| users.split_whitespace().nth(1)) == Some("0")
}

/// Memory of this machine: what programs can have without swapping (proc(5), `MemAvailable`), and
/// all of it. `None` where it is not told.
pub fn machine_memory() -> Option<Capacity> {
    memory(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// Bytes of memory that this process can ever have: the machine's, or what a control group around
/// it allows where that is less. `None` where neither is told.
pub fn memory_limit() -> Option<u64> {
    memory_limit_under(Path::new("/"))
}

fn memory_limit_under(root: &Path) -> Option<u64> {
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let machine = memory(&text("proc/meminfo")).map(|memory| memory.limit);
    let groups = Groups::parse(root, &text("proc/self/cgroup")).memory_limit();
    machine.into_iter().chain(groups).min()
}

fn memory(meminfo: &str) -> Option<Capacity> {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        Some(first_number(line)? * 1024)
    };
    Some(Capacity { free: bytes("MemAvailable:")?, limit: bytes("MemTotal:")? })
}

/// Out of /proc/loadavg: `4.14 2.42 4.61 8/138 2372` are 138 threads, of which 8 run.
fn threads(loadavg: &str) -> Option<u64> {
    loadavg.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// The second column of /proc/net/softnet_stat, over all processors.
fn packets_dropped(softnet: &str) -> u64 {
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet.lines().filter_map(column).sum()
}

fn first_number(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

/// The control groups of this process, of version 2 or 1 (cgroups(7)): folders from its own up to
/// the root of the hierarchy.
struct Groups {
    memory: Vec<PathBuf>,
    threads: Vec<PathBuf>,
}

impl Groups {
    fn parse(root: &Path, own: &str) -> Groups {
        let mounted = root.join("sys/fs/cgroup");
        let folders = |controller: &str| {
            own.lines()
                .filter_map(|line| {
                    let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
                    let mounted = match controllers {
                        "" => mounted.clone(),
                        names if names.split(',').any(|name| name == controller) => {
                            mounted.join(controller)
                        }
                        _ => return None,
                    };
                    let own = mounted.join(path.trim_start_matches('/'));
                    // A container may be told of a path that it does not see: then its own group
                    // is what is mounted.
                    let within = |folder: &&Path| folder.starts_with(&mounted);
                    Some(own.ancestors().take_while(within).map(Path::to_owned).collect())
                })
                .flat_map(|folders: Vec<PathBuf>| folders)
                .collect()
        };
        Groups { memory: folders("memory"), threads: folders("pids") }
    }

    fn memory(&self) -> Option<Capacity> {
        let version_2 = ("memory.max", "memory.current", "inactive_file");
        let version_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
        let rooms = self.memory.iter().flat_map(|folder| {
            [version_2, version_1].into_iter().filter_map(|(limit, used, cache)| {
                let used = number_in(&folder.join(used))?;
                let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
                let cache = stat.lines().find_map(|line| line.strip_prefix(cache));
                let cache = cache.and_then(first_number).unwrap_or(0);
                capacity(&folder.join(limit), used.saturating_sub(cache))
            })
        });
        rooms.min_by_key(|room| room.free)
    }

    fn memory_limit(&self) -> Option<u64> {
        let limits = self.memory.iter().flat_map(|folder| {
            ["memory.max", "memory.limit_in_bytes"].map(|name| capacity(&folder.join(name), 0))
        });
        limits.flatten().map(|room| room.limit).min()
    }

    fn threads(&self) -> Option<Capacity> {
        let rooms = self.threads.iter().filter_map(|folder| {
            capacity(&folder.join("pids.max"), number_in(&folder.join("pids.current"))?)
        });
        rooms.min_by_key(|room| room.free)
    }
}

fn number_in(path: &Path) -> Option<u64> {
    first_number(&fs::read_to_string(path).ok()?)
}

/// What the limit in the file at `path` leaves. Version 2 writes `max` for none, version 1 the
/// largest number of pages.
fn capacity(path: &Path, used: u64) -> Option<Capacity> {
    let limit = number_in(path).filter(|&limit| limit < 1 << 60)?;
    Some(Capacity { free: limit.saturating_sub(used), limit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_proc_are_understood() {
        let limits = "Limit             Soft Limit   Hard Limit   Units\n\
                      Max processes     96365        unlimited    processes\n\
                      Max open files    1024         20000        files\n";
        assert_eq!(limit(limits, "Max open files"), Some(Limit { soft: 1024, hard: 20_000 }));
        assert_eq!(limit(limits, "Max processes").map(|limit| limit.hard), Some(u64::MAX));
        assert_eq!(limit(limits, "Max locks"), None);
        assert!(capable("Name:\tx\nCapEff:\t000001ffffffffff\n", CAP_SYS_RESOURCE));
        assert!(!capable("CapEff:\t000001fffeffffff\n", CAP_SYS_RESOURCE));
        assert!(is_root("Uid:\t1000\t0\t0\t0\n") && !is_root("Uid:\t0\t1000\t0\t0\n"));
        assert_eq!(threads("4.14 2.42 4.61 8/138 2372\n"), Some(138));
        assert_eq!(packets_dropped("0389e377 000014ad 1f\n033a95e0 00000353 15\n"), 6_144);
        let memory = memory("MemTotal:  2048 kB\nMemFree:  7 kB\nMemAvailable:   1024 kB\n");
        assert_eq!(memory, Some(Capacity { free: 1 << 20, limit: 1 << 21 }));
    }

    #[test]
    fn group_that_leaves_least_counts() {
        let dir = tempfile::tempdir().unwrap();
        let group = dir.path().join("sys/fs/cgroup/shop/encke");
        fs::create_dir_all(&group).unwrap();
        let write = |name: &str, text: &str| fs::write(group.join(name), text).unwrap();
        write("memory.max", "max\n");
        write("memory.current", "900\n");
        write("pids.max", "100\n");
        write("pids.current", "30\n");
        write("../memory.max", "1000\n");
        write("../memory.current", "950\n");
        write("../memory.stat", "anon 5\ninactive_file 50\n");
        let groups = Groups::parse(dir.path(), "0::/shop/encke\n");
        assert_eq!(groups.memory(), Some(Capacity { free: 100, limit: 1000 }));
        assert_eq!(groups.threads(), Some(Capacity { free: 70, limit: 100 }));
        assert_eq!(groups.memory_limit(), Some(1000));
        let unseen = Groups::parse(dir.path(), "4:memory:/shop/encke\n8:pids:/\n");
        assert_eq!((unseen.memory(), unseen.threads()), (None, None));
    }

    #[test]
    fn least_of_the_machine_and_its_groups_is_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let limit = || memory_limit_under(dir.path());
        assert_eq!(limit(), None);
        write("proc/meminfo", "MemTotal:  2048 kB\nMemAvailable:   1024 kB\n");
        write("proc/self/cgroup", "4:memory:/shop/encke\n0::/shop\n");
        assert_eq!(limit(), Some(2 << 20), "no group says anything");
        write("sys/fs/cgroup/memory/shop/memory.limit_in_bytes", "9223372036854771712\n");
        write("sys/fs/cgroup/shop/memory.max", "max\n");
        assert_eq!(limit(), Some(2 << 20), "no group has a limit");
        write("sys/fs/cgroup/memory/shop/encke/memory.limit_in_bytes", "1500000\n");
        assert_eq!(limit(), Some(1_500_000));
        write("sys/fs/cgroup/memory.max", "1000000\n");
        assert_eq!(limit(), Some(1_000_000));
    }
}
