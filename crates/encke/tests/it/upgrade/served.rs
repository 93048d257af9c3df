//! A server that is replaced while it serves: who owns it now, and the command that replaces it.
//!
//! The process that inherits is no child of ours. What tells it from all others is the data
//! directory on its command line, by which it is found and, at the end of a test, killed.

use std::borrow::Borrow;
use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;
use testing::wait_within;

use crate::harness::{DEADLINE, Program, Server, encke, wait_for};

/// A server, whoever serves.
pub(crate) struct Upgraded {
    /// The first one: its ports are those of all.
    server: Server,
    data: PathBuf,
    /// Kept for its end, which removes it.
    _dir: Option<TempDir>,
}

/// What an upgrade has said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Upgraded {
    pub(crate) fn serve(options: &[&str]) -> Upgraded {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start_in(dir.path(), options);
        Upgraded { data: dir.path().to_owned(), server, _dir: Some(dir) }
    }

    /// One that a test has started by itself, on `data`.
    pub(crate) fn of(server: Server, data: &Path) -> Upgraded {
        Upgraded { server, data: data.to_owned(), _dir: None }
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    /// Who has the store: the process whose number stands in its lock.
    pub(crate) fn owner(&self) -> u32 {
        self.owner_if_any().expect("somebody owns the store")
    }

    pub(crate) fn owner_if_any(&self) -> Option<u32> {
        fs::read_to_string(self.data.join("lock")).ok()?.trim().parse().ok()
    }

    /// `encke upgrade`.
    pub(crate) fn command(&self, options: &[&str]) -> Command {
        let mut command = encke(["upgrade", "--data"]);
        command.arg(&self.data).args(options);
        command
    }

    /// Replaces the server, which must succeed; returns what was said.
    #[track_caller]
    pub(crate) fn upgrade(&self, options: &[&str]) -> Said {
        let before = self.owner();
        let said = run(&mut self.command(options));
        assert_eq!(said.code, Some(0), "{said:?}\n{}", self.server.stderr());
        assert_ne!(self.owner(), before, "another process serves: {said:?}");
        said
    }

    /// Tries to, which must fail and leave everything as it was; returns the sentence.
    #[track_caller]
    pub(crate) fn refused(&self, options: &[&str]) -> String {
        let before = self.owner();
        let said = run(&mut self.command(options));
        self.assert_refused(&said, before)
    }

    /// Checks that `said` is what a failure says, and that `owner` is alone and owns as before.
    #[track_caller]
    pub(crate) fn assert_refused(&self, said: &Said, owner: u32) -> String {
        assert_eq!(said.code, Some(1), "{said:?}");
        let mut errors = said.stderr.lines().filter(|line| line.starts_with("encke: "));
        let sentence = errors.next().unwrap_or_else(|| panic!("no sentence: {said:?}")).to_owned();
        assert_eq!(errors.next(), None, "one sentence: {said:?}");
        assert!(sentence.len() > 30, "it says what to do: {sentence}");
        assert!(!said.stderr.contains("panicked"), "{said:?}");
        assert_eq!(self.owner(), owner, "the same process serves");
        wait_for("nobody else is left", || self.processes() == [owner]);
        sentence
    }

    /// All processes that serve from the data directory, or are about to.
    pub(crate) fn processes(&self) -> Vec<u32> {
        servers_on(&self.data)
    }

    /// Kills whoever owns it, as a power failure would.
    pub(crate) fn kill_owner(&self) {
        kill(self.owner());
        wait_for("nobody serves", || self.processes().is_empty());
    }

    /// The exit code of the first server, once it has ended.
    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.server.exit_code()
    }

    /// Waits until the process `pid`, which was replaced, has ended.
    #[track_caller]
    pub(crate) fn wait_ended(&self, pid: u32) {
        wait_for("the old process ends", || !self.processes().contains(&pid));
    }
}

impl Deref for Upgraded {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Borrow<Server> for Upgraded {
    fn borrow(&self) -> &Server {
        &self.server
    }
}

impl Drop for Upgraded {
    fn drop(&mut self) {
        kill_all_on(&self.data);
    }
}

/// Runs `command` to its end, which may take as long as OLD waits.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Said {
    let program = Program::spawn(command);
    said(program)
}

/// The same of one that was started before.
#[track_caller]
pub(crate) fn said(program: Program) -> Said {
    let finished = program.finish_within(DEADLINE);
    Said { code: finished.code(), stdout: finished.stdout, stderr: finished.stderr }
}

/// Servers whose data directory is `data`.
pub(crate) fn servers_on(data: &Path) -> Vec<u32> {
    let is_number = |name: &OsStr| name.to_str()?.parse::<u32>().ok();
    let folders = fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let pids = folders.filter_map(|folder| is_number(&folder.file_name()));
    let mut servers: Vec<u32> = pids.filter(|&pid| serves(pid, data)).collect();
    servers.sort_unstable();
    servers
}

/// Whether `pid` runs, and is `… serve … --data DATA …`: one that has ended has no arguments.
fn serves(pid: u32, data: &Path) -> bool {
    let Ok(line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let is = |wanted: &OsStr| {
        line.split(|&byte| byte == 0).any(|argument| argument == wanted.as_encoded_bytes())
    };
    is(OsStr::new("serve")) && is(data.as_os_str())
}

/// SIGKILL, to a process that may have ended by now.
pub(crate) fn kill(pid: u32) {
    let mut command = Command::new("kill");
    command.args(["-s", "KILL"]).arg(pid.to_string()).stderr(Stdio::null());
    assert!(command.status().is_ok(), "there is a kill");
}

/// Leaves nobody behind: whoever is replaced, and whoever inherits.
pub(crate) fn kill_all_on(data: &Path) {
    wait_within(DEADLINE, || {
        let left = servers_on(data);
        left.iter().copied().for_each(kill);
        left.is_empty()
    });
}

/// A script at `path`, for `--binary`.
pub(crate) fn script(path: &Path, text: &str) -> String {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// A program that is ours but for its command line, on which each `(from, to)` is changed: an
/// argument that begins with `from` becomes `to`, or goes where that is empty; what `from` does not
/// say comes behind all.
pub(crate) fn rewriting(path: &Path, changes: &[(&str, &str)]) -> String {
    let program = env!("CARGO_BIN_EXE_encke");
    let mut cases = String::new();
    let mut more = String::new();
    for (from, to) in changes {
        match (*from, *to) {
            ("", to) => more += &format!(" '{to}'"),
            (from, "") => cases += &format!("{from}*) continue;; "),
            (from, to) => cases += &format!("{from}*) arg='{to}';; "),
        }
    }
    let text = format!(
        "for arg; do shift; case \"$arg\" in {cases} esac; set -- \"$@\" \"$arg\"; done\n\
         exec {program} \"$@\"{more}"
    );
    script(path, &text)
}
