//! What the kernel tells of this process (proc(5)): when it started, and its descriptors.
//!
//! Each worker has a descriptor table of its own, for which the limit holds by itself. The table of
//! the control plane is the one that `/proc/PID/fd` shows: API connections, the store, Erlang
//! nodes.

use std::io;
use std::path::PathBuf;

use procfs::process::{LimitValue, Process};
use procfs::{Current, ProcResult, Uptime};

/// Descriptors that are open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Descriptors {
    /// In the table of the control plane.
    pub(crate) control: usize,
    /// In the tables of the workers, by the number of the worker.
    pub(crate) workers: Vec<(usize, usize)>,
    /// How many each table may have; `None` where there is no limit.
    pub(crate) most: Option<u64>,
}

impl Descriptors {
    /// The counts at this moment. From Linux 6.2 on it is a call for each table; before, the kernel
    /// lists them, which takes a thousandth of a second for some thousands.
    pub(crate) fn now() -> ProcResult<Descriptors> {
        let process = Process::myself()?;
        let most = match process.limits()?.max_open_files.soft_limit {
            LimitValue::Value(most) => Some(most),
            LimitValue::Unlimited => None,
        };
        let mut workers = Vec::new();
        for task in process.tasks()?.flatten() {
            let number = |name: &str| name.strip_prefix("worker-")?.parse().ok();
            // A thread that has ended in between is none.
            let Ok(stat) = task.stat() else { continue };
            if let Some(worker) = number(&stat.comm) {
                workers.push((worker, count(task.tid)?));
            }
        }
        workers.sort_unstable();
        Ok(Descriptors { control: process.fd_count()?, workers, most })
    }
}

fn count(tid: i32) -> ProcResult<usize> {
    Process::new_with_root(PathBuf::from(format!("/proc/self/task/{tid}")))?.fd_count()
}

/// When this process started, in seconds since 1970. The kernel counts from its own start, and what
/// it thinks of that moves with every correction of the clock: so it is asked once.
pub(crate) fn started_at() -> io::Result<f64> {
    let read = || -> ProcResult<f64> {
        let ticks = Process::myself()?.stat()?.starttime as f64;
        let age = Uptime::current()?.uptime - ticks / procfs::ticks_per_second() as f64;
        Ok(sys::clock::unix_ms() as f64 / 1e3 - age)
    };
    read().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_counted_as_they_are_opened() {
        let before = Descriptors::now().unwrap();
        let files: Vec<_> = (0..50).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        let during = Descriptors::now().unwrap();
        // Other tests open and close some meanwhile.
        assert!(during.control >= before.control + 25, "{before:?} {during:?}");
        assert!(during.most.is_none_or(|most| most > during.control as u64));
        drop(files);
    }

    #[test]
    fn start_is_before_now() {
        let age = sys::clock::unix_ms() as f64 / 1e3 - started_at().unwrap();
        assert!((-0.1..3600.0).contains(&age), "{age} s");
    }
}
