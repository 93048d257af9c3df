//! Signals to other processes.

use std::fs;
use std::process::Command;

use crate::wait_for;

/// Sends a process the signal of that name, such as `TERM`. After `STOP` all of it stands still:
/// the kernel tells one thread, and before that has run, the others go on.
///
/// # Panics
/// There is no such process, or it does not stop.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    let status = status.expect("there is a kill");
    assert!(status.success(), "kill -s {name} {pid}: {status}");
    if name == "STOP" {
        wait_for(&format!("process {pid} stands still"), || is_stopped(pid));
    }
}

/// Whether no thread of a process runs: proc(5), the third field of `stat`, behind the name.
fn is_stopped(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("the process is there");
    tasks.flatten().all(|task| {
        // A thread that is gone runs no more.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['T', 't', 'Z', 'X']))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_stands_still_after_stop_and_goes_on_after_cont() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        assert!(!is_stopped(child.id()));
        signal(child.id(), "STOP");
        assert!(is_stopped(child.id()));
        signal(child.id(), "CONT");
        assert!(!is_stopped(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
