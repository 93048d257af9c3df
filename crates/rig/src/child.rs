//! A process that its starter ends, of which nothing is left when the starter removes its files.
//!
//! It stands in a process group of its own, so a terminal's Ctrl-C reaches the starter alone. It
//! ends with its standard input, whose other end only the starter holds. So it ends also when the
//! starter is gone, by whatever. (A parent-death signal would come when the *thread* that started
//! it ends, and takes unsafe code between fork and exec.)

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::wait_within;

/// How long one that is dropped may take to end before its whole group is ended.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// What ends one that is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtDrop {
    /// SIGKILL.
    Kill,
    /// The end of its input: it is a shell, and has a child of its own to end.
    EndOfInput,
}

/// A child at work. Dropping it ends it, and waits for that: what has only been sent a signal may
/// still make files, also in a directory that is being removed.
#[derive(Debug)]
pub struct OwnChild {
    child: Child,
    input: Option<ChildStdin>,
    at_drop: AtDrop,
}

impl OwnChild {
    /// Starts `command`.
    ///
    /// # Errors
    /// The system refuses.
    pub fn spawn(command: &mut Command, at_drop: AtDrop) -> io::Result<OwnChild> {
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = child.stdin.take();
        Ok(OwnChild { child, input, at_drop })
    }

    /// Its standard output, if that is piped and was not taken before.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    ///
    /// # Errors
    /// The system does not say.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends its input.
    pub fn end_input(&mut self) {
        drop(self.input.take());
    }

    /// Ends it by SIGKILL.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()
    }

    /// Whether it has ended before `time` is over. Blocks meanwhile.
    fn ends_within(&mut self, time: Duration) -> bool {
        wait_within(time, || !matches!(self.child.try_wait(), Ok(None)))
    }
}

impl Drop for OwnChild {
    /// Blocks for as long as the end takes, which is a moment: nothing else can wait in a drop.
    fn drop(&mut self) {
        self.end_input();
        if self.at_drop == AtDrop::Kill {
            // It may have ended already.
            let _ = self.child.kill();
        }
        if !self.ends_within(DROP_TIMEOUT) {
            // What is left of it may have ended just now. Nobody has waited for its leader, so
            // nobody else has its number.
            let _ = sys::signals::end_group(self.id());
            self.ends_within(DROP_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufRead, BufReader, Lines};
    use std::path::Path;

    use super::*;

    /// Starts a shell that runs `script`, and waits until that has said that it runs. Its output
    /// ends with the last of its group.
    fn start(
        script: &str,
        folder: &Path,
        at_drop: AtDrop,
    ) -> (OwnChild, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).stdout(Stdio::piped());
        let mut child = OwnChild::spawn(&mut command, at_drop).unwrap();
        let mut lines = BufReader::new(child.take_output().unwrap()).lines();
        lines.next().unwrap().unwrap();
        (child, lines)
    }

    #[test]
    fn dropped_child_makes_no_more_files() {
        let scripts = [
            ("echo; while :; do : >\"$$\"; rm \"$$\"; done", AtDrop::Kill),
            // It has its input end, and does not: its group is ended.
            ("sleep 3600 </dev/null & echo; cat; wait", AtDrop::EndOfInput),
            // It takes its time to end.
            ("echo; read -r _; for n in $(seq 1000); do : >$n; done; rm *", AtDrop::EndOfInput),
        ];
        for (script, at_drop) in scripts {
            let folder = tempfile::tempdir().unwrap();
            let (child, mut output) = start(script, folder.path(), at_drop);
            let id = child.id();
            drop(child);
            assert!(!Path::new("/proc").join(id.to_string()).exists(), "{at_drop:?}");
            // Hangs while somebody of its group is left.
            assert!(output.next().is_none());
            fs::remove_dir_all(folder.path()).unwrap();
        }
    }

    #[test]
    fn child_ends_with_its_input() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, _output) = start("echo; read -r _; exit 3", folder.path(), AtDrop::Kill);
        assert!(child.try_wait().unwrap().is_none());
        child.end_input();
        assert!(child.ends_within(DROP_TIMEOUT));
        assert_eq!(child.try_wait().unwrap().unwrap().code(), Some(3));
    }
}
