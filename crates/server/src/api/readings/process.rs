//! What the kernel tells of this process (proc(5)): when it started, and its descriptors.
//!
//! Each worker has a descriptor table of its own, for which the limit holds by itself. The table of
//! the control plane is the one that `/proc/PID/fd` shows: API connections, the store, Erlang
//! nodes.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sys::limits;

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
    pub(crate) fn now() -> io::Result<Descriptors> {
        let mut workers = Vec::new();
        for task in fs::read_dir("/proc/self/task")? {
            let task = task?.path();
            // A thread that has ended in between is none.
            let Ok(name) = fs::read_to_string(task.join("comm")) else { continue };
            let number = name.trim_end().strip_prefix("worker-").map(str::parse);
            if let Some(Ok(worker)) = number {
                workers.push((worker, count(&task)?));
            }
        }
        workers.sort_unstable();
        let most = Some(limits::descriptors()?.soft).filter(|&most| most != limits::UNLIMITED);
        Ok(Descriptors { control: count(Path::new("/proc/self"))?, workers, most })
    }
}

/// The size of that directory tells it, from Linux 6.2 on; before, it has none.
fn count(of: &Path) -> io::Result<usize> {
    let open = of.join("fd");
    match fs::metadata(&open)?.size() {
        0 => Ok(fs::read_dir(open)?.count()),
        count => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
    }
}

/// When this process started, in seconds since 1970. The kernel counts from its own start, and what
/// it thinks of that moves with every correction of the clock: so it is asked once.
pub(crate) fn started_at() -> io::Result<f64> {
    Ok(sys::clock::unix_ms() as f64 / 1e3 - sys::process::age()?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_counted_as_they_are_opened() {
        let before = Descriptors::now().unwrap();
        let files: Vec<_> = (0..50).map(|_| fs::File::open("/dev/null").unwrap()).collect();
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
