//! A process that the demo has started, of which nothing is left when the demo removes its
//! directory.
//!
//! It stands in a process group of its own, so a terminal's Ctrl-C reaches the demo alone, and it
//! ends with its standard input, whose other end only the demo holds: also when the demo is gone,
//! by whatever. (A parent-death signal would come when the *thread* that started it ends, and takes
//! unsafe code between fork and exec.)

use std::io;
use std::process::{ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// How long one that is dropped may take to end before its whole group is ended.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it is looked whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What ends one that is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AtDrop {
    /// SIGKILL.
    Kill,
    /// The end of its input: it is a shell, and has a child of its own to end.
    EndOfInput,
}

/// A child at work. Dropping it ends it, and waits for that: what has only been sent a signal may
/// still make files, also in a directory that is being removed.
pub(super) struct OwnChild {
    child: Child,
    input: Option<ChildStdin>,
    at_drop: AtDrop,
}

impl OwnChild {
    /// Starts `command`.
    pub(super) fn spawn(command: &mut Command, at_drop: AtDrop) -> io::Result<OwnChild> {
        let mut child = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = child.stdin.take();
        Ok(OwnChild { child, input, at_drop })
    }

    /// Its standard output, if that is piped and was not taken before.
    pub(super) fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Its process id, until its end is known.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Waits until it has ended by itself.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends its input, and waits until it has ended; `None` when that takes longer than `within`.
    pub(super) async fn end(&mut self, within: Duration) -> io::Result<Option<ExitStatus>> {
        drop(self.input.take());
        timeout(within, self.child.wait()).await.ok().transpose()
    }

    /// Ends it by SIGKILL, and waits until it has ended.
    pub(super) async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Whether it has ended before `time` is over. Blocks meanwhile.
    fn ends_within(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        while let Ok(None) = self.child.try_wait() {
            if Instant::now() >= deadline {
                return false;
            }
            thread::sleep(LOOK_EVERY);
        }
        true
    }
}

impl Drop for OwnChild {
    /// Blocks for as long as the end takes, which is a moment: nothing else can wait in a drop.
    fn drop(&mut self) {
        drop(self.input.take());
        if self.at_drop == AtDrop::Kill {
            // It may have ended already.
            let _ = self.child.start_kill();
        }
        if !self.ends_within(DROP_TIMEOUT) {
            if let Some(leader) = self.id() {
                // What is left of it may have ended just now.
                let _ = sys::signals::end_group(leader);
            }
            self.ends_within(DROP_TIMEOUT);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use tokio::io::{AsyncBufReadExt, BufReader, Lines};

    use super::*;

    /// Starts a shell that runs `script`, and waits until that has said that it runs. Its output
    /// ends with the last of its group.
    async fn start(
        script: &str,
        folder: &Path,
        at_drop: AtDrop,
    ) -> (OwnChild, Lines<BufReader<ChildStdout>>) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(folder).stdout(Stdio::piped());
        let mut child = OwnChild::spawn(&mut command, at_drop).unwrap();
        let mut lines = BufReader::new(child.take_output().unwrap()).lines();
        lines.next_line().await.unwrap().unwrap();
        (child, lines)
    }

    #[tokio::test]
    async fn dropped_child_makes_no_more_files() {
        let scripts = [
            ("echo; while :; do : >\"$$\"; rm \"$$\"; done", AtDrop::Kill),
            // It has its input end, and does not: its group is ended.
            ("sleep 3600 </dev/null & echo; cat; wait", AtDrop::EndOfInput),
            // It takes its time to end.
            ("echo; read -r _; for n in $(seq 1000); do : >$n; done; rm *", AtDrop::EndOfInput),
        ];
        for (script, at_drop) in scripts {
            let folder = tempfile::tempdir().unwrap();
            let (child, mut output) = start(script, folder.path(), at_drop).await;
            let id = child.id().unwrap();
            drop(child);
            assert!(!Path::new("/proc").join(id.to_string()).exists(), "{at_drop:?}");
            let end = timeout(testing::DEADLINE, output.next_line()).await;
            assert_eq!(end.unwrap().unwrap(), None, "somebody of its group is left");
            fs::remove_dir_all(folder.path()).unwrap();
        }
    }

    #[tokio::test]
    async fn child_ends_with_its_input() {
        let folder = tempfile::tempdir().unwrap();
        let (mut child, _output) =
            start("echo; read -r _; exit 3", folder.path(), AtDrop::Kill).await;
        assert!(child.try_wait().unwrap().is_none());
        let status = child.end(DROP_TIMEOUT).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(3));
    }
}
