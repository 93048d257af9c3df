//! Which threads hear signals, which signals the process ignores, and the end of others.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// Runs `start` with all signals blocked on this thread, so that the threads which it starts, who
/// inherit that (pthread_sigmask(3)), never run a signal handler.
///
/// Handlers write to a descriptor; on a thread with a private table its number is another file.
pub fn blocked<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `all` is a signal set's worth of memory, which the call fills.
    crate::check(unsafe { libc::sigfillset(all.as_mut_ptr()) })?;
    // SAFETY: `all` was filled, and `before` has room for what the call writes.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr()) };
    check_code(code)?;
    let result = start();
    // SAFETY: `before` was written by the call above; the old mask is not asked for.
    let code =
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut()) };
    check_code(code)?;
    Ok(result)
}

/// Ends every process of the group that the process `leader` leads, at once: SIGKILL (killpg(3)).
pub fn end_group(leader: u32) -> io::Result<()> {
    // 0 is the caller's own group, and 1 cannot be ended.
    let group = libc::pid_t::try_from(leader).ok().filter(|&group| group > 1);
    let group = group.ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: it touches no memory.
    crate::check(unsafe { libc::killpg(group, libc::SIGKILL) }).map(drop)
}

/// Whether this process ignores `signal`, as it does from its start when whoever started it did:
/// `SigIgn` in /proc/self/status (proc(5)).
pub fn is_ignored(signal: i32) -> io::Result<bool> {
    let mask = mask(&fs::read_to_string("/proc/self/status")?, "SigIgn:");
    Ok(mask.is_some_and(|mask| (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1))
}

/// A set of signals in a `status` of /proc: the first signal is the lowest bit.
fn mask(status: &str, field: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix(field))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// The calls of pthreads return their error instead of setting `errno`.
fn check_code(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked_here() -> u64 {
        mask(&fs::read_to_string("/proc/thread-self/status").unwrap(), "SigBlk:").unwrap()
    }

    #[test]
    fn threads_started_inside_hear_no_signals_and_those_outside_do() {
        let before = blocked_here();
        let thread = blocked(|| std::thread::spawn(blocked_here)).unwrap();
        // SIGKILL (9) and SIGSTOP (19) cannot be blocked; 32 and 33 are glibc's own.
        let mask = thread.join().unwrap();
        let expected = |signal: u32| ![9, 19, 32, 33].contains(&signal);
        assert!((1..=31).filter(|&s| expected(s)).all(|s| mask & 1 << (s - 1) != 0), "{mask:x}");
        assert_eq!(blocked_here(), before);
    }

    #[test]
    fn group_is_ended_and_never_our_own() {
        use std::os::unix::process::{CommandExt, ExitStatusExt};
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", "sleep 60 & sleep 60"]).process_group(0).spawn().unwrap();
        end_group(shell.id()).unwrap();
        assert_eq!(shell.wait().unwrap().signal(), Some(libc::SIGKILL));
        for leader in [0, 1, u32::MAX] {
            end_group(leader).unwrap_err();
        }
    }

    #[test]
    fn runtime_ignores_broken_pipes_and_nothing_else_is_ignored() {
        assert!(is_ignored(libc::SIGPIPE).unwrap(), "Rust's start sees to that");
        assert!(!is_ignored(libc::SIGTERM).unwrap());
        assert!(!is_ignored(0).unwrap() && !is_ignored(65).unwrap());
    }
}
