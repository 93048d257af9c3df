//! Clocks. Whoever needs the time takes it here, once per turn, so that the rest of the code can be
//! run under a clock of a test's choosing.

use std::io;
use std::time::Duration;

/// Nanoseconds on the monotonic clock, which all processes of this machine share: a time taken in
/// one process can be subtracted in another.
pub fn monotonic_ns() -> u64 {
    since_epoch_of(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// Milliseconds on the monotonic clock.
pub fn monotonic_ms() -> u64 {
    since_epoch_of(libc::CLOCK_MONOTONIC).as_millis() as u64
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    since_epoch_of(libc::CLOCK_REALTIME).as_millis() as u64
}

/// Whether the wall clock stands in 1970 or later.
pub fn is_set() -> bool {
    unix_ms() >= 1_000
}

/// Nanoseconds since 1970.
pub fn unix_ns() -> u64 {
    since_epoch_of(libc::CLOCK_REALTIME).as_nanos() as u64
}

/// Processor time that this process has used, user and kernel, all threads.
pub fn process_cpu() -> Duration {
    since_epoch_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// The processor time of the process `pid`.
///
/// # Errors
/// There is none.
pub fn process_cpu_of(pid: u32) -> io::Result<Duration> {
    let mut clock = 0;
    // SAFETY: `clock` is a clock's name that outlives the call.
    let code = unsafe { libc::clock_getcpuclockid(pid as libc::pid_t, &raw mut clock) };
    if code != 0 {
        return Err(io::Error::from_raw_os_error(code));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that outlives the call.
    crate::check(unsafe { libc::clock_gettime(clock, &raw mut time) })?;
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Processor time that the calling thread has used.
pub fn thread_cpu() -> Duration {
    since_epoch_of(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn since_epoch_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec that outlives the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    debug_assert_eq!(result, 0, "these clocks exist on every Linux");
    // Before 1970 it is 0, so that differences are small.
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), time.tv_nsec as u32)
}

/// Lets the calling thread's time-outs come up to `ns` late, so that the kernel wakes those whose
/// times fall together with one interrupt (prctl(2), `PR_SET_TIMERSLACK`; 50 µs unless set).
pub fn set_timer_slack(ns: u32) -> io::Result<()> {
    let ns = libc::c_ulong::from(ns);
    // SAFETY: no pointers are passed.
    crate::check(unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_go_forward() {
        let (ns, ms) = (monotonic_ns(), monotonic_ms());
        assert!(ns / 1_000_000 <= ms);
        assert!(unix_ms() > 1_700_000_000_000);
        assert!(process_cpu() >= thread_cpu());
    }

    #[test]
    fn processor_time_of_a_process_is_what_it_says_itself() {
        let (before, own) = (process_cpu(), process_cpu_of(std::process::id()).unwrap());
        assert!(before <= own && own <= process_cpu());
        // More than the kernel ever gives (proc_sys_kernel(5), `pid_max`).
        assert!(process_cpu_of(1 << 23).is_err());
    }
}
