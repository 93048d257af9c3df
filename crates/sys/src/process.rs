//! Figures of this process, out of /proc (proc(5)). For reports, not for the hot path.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// The same of all threads of this process together.
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
}
