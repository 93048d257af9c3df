//! Signals to other processes.

use std::fs;
use std::process::Command;

use crate::wait_for;

/// What threads are that do not run (proc(5)), and those that never will.
const STOPPED: &[char] = &['T', 't', 'Z', 'X'];
const ENDED: &[char] = &['Z', 'X'];

/// Sends a process the signal of that name, such as `TERM`. After `STOP` all of it stands still:
/// the kernel tells one thread, and before that has run, the others go on. After `KILL` all of it
/// has ended: another process may have its files and ports.
///
/// # Panics
/// There is no such process, or it does not stop.
pub fn signal(pid: u32, name: &str) {
    let status = Command::new("kill").args(["-s", name, &pid.to_string()]).status();
    let status = status.expect("there is a kill");
    assert!(status.success(), "kill -s {name} {pid}: {status}");
    if name == "STOP" {
        wait_for(&format!("process {pid} stands still"), || are_all(pid, STOPPED));
    }
    if name == "KILL" {
        wait_for(&format!("process {pid} has ended"), || are_all(pid, ENDED));
    }
}

/// Whether each thread of a process is in one of these states: proc(5), the third field of `stat`,
/// behind the name.
fn are_all(pid: u32, states: &[char]) -> bool {
    // Who waits for it may have taken it away.
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    tasks.flatten().all(|task| {
        // A thread that is gone runs no more.
        let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(states))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_stands_still_after_stop_goes_on_after_cont_and_has_ended_after_kill() {
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        assert!(!are_all(child.id(), STOPPED));
        signal(child.id(), "STOP");
        assert!(are_all(child.id(), STOPPED) && !are_all(child.id(), ENDED));
        signal(child.id(), "CONT");
        assert!(!are_all(child.id(), STOPPED));
        signal(child.id(), "KILL");
        assert!(are_all(child.id(), ENDED));
        child.wait().unwrap();
        assert!(are_all(child.id(), ENDED), "and was waited for");
    }
}
