//! What the machine has for this process, and makes it wait for, out of /proc (proc(5)). For
//! reports, not for the hot path.

use std::fs;
use std::thread;
use std::time::Duration;

/// Time since the machine's start. `None` is what the kernel does not tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Cores had work, and the host of this virtual machine gave them to others: the sum of all.
    pub stolen: Option<Duration>,
    /// Somebody on this machine waited for memory, which had to be taken from others first:
    /// pressure stall information, which a kernel may be built without.
    pub memory: Option<Duration>,
}

/// What tells this boot of the machine from others (random(4)): a UUID, the same for all processes
/// of it. `None` where the system has none.
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The cores that this process may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Reads what there was of it so far.
pub fn waits() -> Waits {
    let read = |path: &str| fs::read_to_string(path).ok();
    Waits {
        stolen: read("/proc/stat").and_then(|stat| parse_stolen(&stat, ticks_a_second())),
        memory: read("/proc/pressure/memory").and_then(|pressure| parse_some(&pressure)),
    }
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`, in ticks.
fn parse_stolen(stat: &str, ticks_a_second: u64) -> Option<Duration> {
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    let ms = ticks.checked_mul(1_000)?.checked_div(ticks_a_second)?;
    Some(Duration::from_millis(ms))
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`, in microseconds.
fn parse_some(pressure: &str) -> Option<Duration> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_whitespace().find_map(|field| field.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// The unit of times in /proc.
pub(crate) fn ticks_a_second() -> u64 {
    // SAFETY: no pointers are passed; -1 stands for what is not known.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    u64::try_from(ticks).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_writes_is_read() {
        let stat = "cpu  2948156 1200092 581623 1712330 15781 0 158102 6264 0 0\ncpu0 1 2 3\n";
        assert_eq!(parse_stolen(stat, 100), Some(Duration::from_millis(62_640)));
        assert_eq!(parse_stolen(stat, 0), None);
        assert_eq!(parse_stolen("cpu 1 2 3\n", 100), None);
        let pressure = "some avg10=0.00 avg60=0.12 avg300=0.32 total=225267992\n\
                        full avg10=0.00 avg60=0.05 avg300=0.15 total=97625562\n";
        assert_eq!(parse_some(pressure), Some(Duration::from_micros(225_267_992)));
        assert_eq!(parse_some("some avg10=0.00\n"), None);
        let (before, after) = (waits(), waits());
        assert!(before.stolen.is_some() && before.stolen <= after.stolen);
        assert!(before.memory <= after.memory);
    }
}
