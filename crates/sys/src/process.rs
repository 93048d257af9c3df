//! Figures of this process, out of /proc (proc(5)). For reports, not for the hot path.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::machine::ticks_a_second;

/// Bytes of this process that are in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Resident {
    /// All of it: `VmRSS`.
    pub total: u64,
    /// Heap, stacks and other private memory: `RssAnon`.
    pub anonymous: u64,
    /// Mapped files, such as the graph's pages in the page cache: `RssFile`.
    pub file: u64,
}

/// Reads the resident memory of this process.
pub fn resident() -> io::Result<Resident> {
    Ok(parse_status(&fs::read_to_string("/proc/self/status")?))
}

/// Reads the resident memory of the process `pid`.
pub fn resident_of(pid: u32) -> io::Result<Resident> {
    Ok(parse_status(&fs::read_to_string(format!("/proc/{pid}/status"))?))
}

fn parse_status(status: &str) -> Resident {
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|rest| rest.split_whitespace().next()).map(str::parse::<u64>);
        kib.and_then(Result::ok).unwrap_or(0) * 1024
    };
    Resident { total: bytes("VmRSS:"), anonymous: bytes("RssAnon:"), file: bytes("RssFile:") }
}

/// How long ago this process was started, to a hundredth of a second.
pub fn age() -> io::Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let uptime = fs::read_to_string("/proc/uptime")?;
    let age = parse_age(&stat, &uptime, ticks_a_second());
    age.ok_or_else(|| io::Error::other("what /proc/self/stat says of this process is not known"))
}

/// `pid (comm) state ppid ... starttime ...`, the 22nd, in ticks since the machine's start; a name
/// may have blanks and brackets. `uptime idle`, in seconds.
fn parse_age(stat: &str, uptime: &str, ticks_a_second: u64) -> Option<Duration> {
    let (_, behind_name) = stat.rsplit_once(')')?;
    let ticks: u64 = behind_name.split_whitespace().nth(19)?.parse().ok()?;
    let started = Duration::from_millis(ticks.checked_mul(1_000)?.checked_div(ticks_a_second)?);
    let uptime = uptime.split_whitespace().next()?.parse().ok()?;
    // Both are rounded.
    Some(Duration::try_from_secs_f64(uptime).ok()?.saturating_sub(started))
}

/// The effective user of this process.
pub fn user() -> u32 {
    // SAFETY: no pointers are passed, and it cannot fail.
    unsafe { libc::geteuid() }
}

/// How often the calling thread has waited for a disk, because a page of a mapped file, or of
/// memory that was swapped out, was not in memory: major faults, getrusage(2).
pub fn thread_major_faults() -> u64 {
    major_faults_of(libc::RUSAGE_THREAD)
}

/// The major faults of all threads of this process together.
pub fn major_faults() -> u64 {
    major_faults_of(libc::RUSAGE_SELF)
}

/// Has the descriptors of the file at `path` that are open in this thread's table end where the
/// process becomes another program, for a library that does not see to it by itself.
pub fn close_on_exec(path: &Path) -> io::Result<()> {
    let file = fs::metadata(path)?;
    for open in fs::read_dir("/proc/thread-self/fd")? {
        let open = open?;
        // One that is closed meanwhile is none of them.
        let Ok(it) = fs::metadata(open.path()) else { continue };
        let number = open.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok());
        if let Some(number) = number
            && (it.dev(), it.ino()) == (file.dev(), file.ino())
        {
            // SAFETY: it touches no memory, and a flag of a descriptor that others own as well does
            // nothing to their use of it.
            let result = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
            if result < 0 {
                return Err(io::Error::last_os_error());
            }
        }
    }
    Ok(())
}

fn major_faults_of(whose: libc::c_int) -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a rusage that outlives the call.
    let result = unsafe { libc::getrusage(whose, usage.as_mut_ptr()) };
    debug_assert_eq!(result, 0, "who asks exists, and so does the place for the answer");
    // SAFETY: all bits zero are a rusage, whatever the kernel has written.
    unsafe { usage.assume_init() }.ru_majflt as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_is_the_sum_of_its_parts() {
        let resident = resident().unwrap();
        assert!(resident.anonymous > 0 && resident.file > 0);
        assert!(resident.total >= resident.anonymous);
        assert!(resident_of(std::process::id()).unwrap().file > 0);
        assert!(thread_major_faults() <= major_faults());
    }

    #[test]
    fn age_is_of_the_process_whatever_its_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 5 6 0 0 20 0 3 0 4250 9 8 7";
        let age = |stat: &str, ticks| parse_age(stat, "50.25 80.00\n", ticks);
        assert_eq!(age(stat, 100), Some(Duration::from_millis(7_750)));
        assert_eq!(age(&stat.replace("4250", "5030"), 100), Some(Duration::ZERO));
        assert_eq!(age(stat, 0), None);
        assert_eq!(age("7 (a) S 1", 100), None);
        let before = super::age().unwrap();
        assert!(super::age().unwrap() >= before);
    }
}
