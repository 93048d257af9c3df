//! The program as a child process: its lines, its end, its signals, its memory and descriptors.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testing::wait_within;

use super::{DEADLINE, wait_for};

/// Lines of standard output that wait for their test, far more than any prints.
const LINES_MAX: usize = 100_000;

/// `encke ARGS`, without settings from the tester's environment.
pub(crate) fn encke<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = without_settings(Path::new(env!("CARGO_BIN_EXE_encke")));
    command.args(args);
    command
}

/// `program`, without settings from the tester's environment.
pub(crate) fn without_settings(program: &Path) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if ["ENCKE_", "OTEL_"].iter().any(|of| name.to_string_lossy().starts_with(of)) {
            command.env_remove(name);
        }
    }
    command
}

/// A running child. Dropping it kills it; when the test has failed, its standard error is shown.
pub(crate) struct Program {
    child: Child,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
    /// A file, so that what it has said is there to be read at once.
    errors: File,
}

/// A child that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// What was not read of standard output.
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    /// The exit code; a child that a signal ended has none.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }
}

impl Program {
    /// Starts `command` with both outputs read as they come.
    pub(crate) fn spawn(command: &mut Command) -> Program {
        Program::start(command.stdin(Stdio::null()))
    }

    /// Starts `command`, which is told through its standard input what to do.
    pub(crate) fn spawn_with_input(command: &mut Command) -> (Program, ChildStdin) {
        let mut program = Program::start(command.stdin(Stdio::piped()));
        let input = program.child.stdin.take().unwrap();
        (program, input)
    }

    fn start(command: &mut Command) -> Program {
        let errors = tempfile::tempfile().unwrap();
        let stderr = errors.try_clone().unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let (sender, lines) = mpsc::sync_channel(LINES_MAX);
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let reader = thread::spawn(move || {
            // To the end, whatever it says: a program may end when nobody reads it any more.
            for line in stdout.split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                // Fails only when the test has no more interest.
                let _ = sender.send(line.strip_suffix('\r').unwrap_or(&line).to_owned());
            }
        });
        Program { child, lines, reader: Some(reader), errors }
    }

    /// Runs `command` to its end.
    pub(crate) fn run(command: &mut Command) -> Finished {
        Program::spawn(command).finish()
    }

    /// The next line of standard output.
    pub(crate) fn line(&self) -> String {
        self.line_within(DEADLINE).unwrap_or_else(|why| panic!("{why}"))
    }

    /// The next line of standard output, or why there is none. One that has come is taken, however
    /// little the time is.
    pub(crate) fn line_within(&self, time: Duration) -> Result<String, String> {
        self.lines.recv_timeout(time).map_err(|error| match error {
            RecvTimeoutError::Timeout => "no line came in time".to_owned(),
            RecvTimeoutError::Disconnected => {
                format!("standard output ended; standard error: {}", self.stderr())
            }
        })
    }

    /// What standard error has said so far.
    pub(crate) fn stderr(&self) -> String {
        let mut said = vec![0; usize::try_from(self.errors.metadata().unwrap().len()).unwrap()];
        self.errors.read_exact_at(&mut said, 0).unwrap();
        String::from_utf8_lossy(&said).into_owned()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends the signal of that name, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        testing::signal(self.pid(), name);
    }

    /// Sends it the `signals`, one right behind the other, as soon as there is a file of a name
    /// that the shell's `pattern` matches. A shell does so: it looks without a pause, and has no
    /// process to start for a signal, which takes longer than the moments that count.
    pub(crate) fn signal_at(&self, pattern: &Path, signals: &str) {
        let script = "until set -- $PATTERN && [ -e \"$1\" ]; do :; done; \
                      for signal in $SIGNALS; do kill -s \"$signal\" \"$PROGRAM\"; done";
        let mut shell = Command::new("sh");
        shell
            .env("PATTERN", pattern)
            .env("SIGNALS", signals)
            .env("PROGRAM", self.pid().to_string());
        let mut shell = Program::spawn(shell.args(["-c", script]));
        wait_for(&format!("there is {}", pattern.display()), || shell.has_ended());
        assert_eq!(shell.exit_code(), Some(0), "{}", shell.stderr());
    }

    /// SIGKILL, and waits until it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Whether it has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The exit code, once it has ended by itself.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap().and_then(|status| status.code())
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn finish(self) -> Finished {
        self.finish_within(DEADLINE)
    }

    /// Waits for its end, for another time.
    #[track_caller]
    pub(crate) fn finish_within(mut self, time: Duration) -> Finished {
        let mut stdout = String::new();
        let mut take = |line: String| stdout.extend([&line, "\n"]);
        let ends = wait_within(time, || {
            // A child whose lines nobody takes waits for room, and does not end.
            self.lines.try_iter().for_each(&mut take);
            self.has_ended()
        });
        assert!(ends, "no end within {time:?}: {}", self.stderr());
        let status = self.child.wait().unwrap();
        self.lines.iter().for_each(&mut take);
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Finished { status, stdout, stderr: self.stderr() }
    }

    /// Bytes of its heap and stacks that are in memory.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        sys::process::resident_of(self.pid()).unwrap().anonymous
    }

    /// Open sockets of its workers, whose descriptor tables are their own. Each worker has one that
    /// is no client's: its listener.
    pub(crate) fn worker_sockets(&self) -> usize {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let mut sockets = 0;
        for task in tasks {
            let task = task.unwrap().path();
            let name = fs::read_to_string(task.join("comm")).unwrap_or_default();
            if !name.starts_with("worker-") {
                continue;
            }
            for descriptor in fs::read_dir(task.join("fd")).unwrap() {
                // One that is closed in between is no leak.
                let target = fs::read_link(descriptor.unwrap().path()).unwrap_or_default();
                sockets += usize::from(target.to_string_lossy().starts_with("socket:"));
            }
        }
        sockets
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            println!("standard error of encke (pid {}):\n{}", self.pid(), self.stderr());
        }
    }
}
