//! A server behind a shell that ends it.
//!
//! No server of others ends with its standard input, as nodes do with `--until-eof`. So a shell
//! stands before each, and ends it when *its* input ends, whose other end only the starter holds.
//! No end of the starter, by whatever, leaves the server behind.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::RigError;
use crate::child::{AtDrop, OwnChild};

/// A server at work. Dropping it ends it, and waits for that.
#[derive(Debug)]
pub struct Server {
    shell: OwnChild,
    program: PathBuf,
    pid: u32,
    log: PathBuf,
}

/// Starts the program, tells its number, and goes on when the input ends. Where nobody is left to
/// be told, since the starter is gone by now, it goes on too instead of ending by SIGPIPE, which
/// would leave the program behind.
const BEGIN: &str = "\"$@\" </dev/null >/dev/null & trap '' PIPE; echo $!; read -r _; ";

/// A shell that runs `program` and the arguments that are added, until `end` ends `$!`.
pub(crate) fn shell(program: &[OsString], end: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{BEGIN}{end}; wait")).arg("sh").args(program);
    shell
}

impl Server {
    /// Starts the `shell`, which tells the number of the server's process in its first line. What
    /// the server says goes to the file at `log`, which is made anew.
    pub(crate) fn start(
        shell: &mut Command,
        program: &Path,
        log: &Path,
    ) -> Result<Server, RigError> {
        let file = File::create(log).map_err(RigError::file(log))?;
        shell.stdout(Stdio::piped()).stderr(file);
        let mut begin = || -> io::Result<(OwnChild, u32)> {
            let mut shell = OwnChild::spawn(shell, AtDrop::EndOfInput)?;
            let output = shell.take_output().ok_or(io::ErrorKind::BrokenPipe)?;
            let mut line = String::new();
            BufReader::new(output).read_line(&mut line)?;
            let pid = line.trim_end().parse().map_err(|_| io::ErrorKind::UnexpectedEof)?;
            Ok((shell, pid))
        };
        let (shell, pid) = begin().map_err(RigError::start(program))?;
        Ok(Server { shell, program: program.to_owned(), pid, log: log.to_owned() })
    }

    /// The number of its own process, not that of its shell.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it runs: its shell takes note of its end only when it ends itself, so until then
    /// nobody else has its number.
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        // Its state stands behind its name (proc(5)).
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
    }

    /// What it has said since it was started.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Begins its end, as when it is dropped.
    pub fn end(&mut self) {
        self.shell.end_input();
    }

    /// Whether it is gone, and its shell too.
    ///
    /// # Errors
    /// The system does not say.
    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.shell.try_wait()?.is_some())
    }

    pub(crate) fn expect_alive(&self) -> Result<(), RigError> {
        match self.is_alive() {
            true => Ok(()),
            false => Err(RigError::Ended { program: self.program.clone(), said: self.log() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(program: &[&str], folder: &Path) -> Result<Server, RigError> {
        let program: Vec<OsString> = program.iter().map(OsString::from).collect();
        let mut shell = shell(&program, "kill -KILL $!");
        Server::start(&mut shell, Path::new("it"), &folder.join("log"))
    }

    #[test]
    fn dropped_server_is_gone_with_its_shell() {
        let folder = tempfile::tempdir().unwrap();
        let server = start(&["sleep", "3600"], folder.path()).unwrap();
        let pid = server.pid();
        assert!(server.is_alive() && Path::new(&format!("/proc/{pid}")).exists());
        drop(server);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn server_that_ends_by_itself_is_told_with_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let server = start(&["sh", "-c", "echo no such option >&2"], folder.path()).unwrap();
        while server.is_alive() {
            std::thread::yield_now();
        }
        let told = server.expect_alive().unwrap_err().to_string();
        assert!(told.contains("it has ended") && told.contains("no such option"), "{told}");
    }

    #[test]
    fn starter_that_is_gone_before_it_is_told_leaves_nothing_behind() {
        let (nobody, telling) = io::pipe().unwrap();
        drop(nobody);
        let mut shell = shell(&["sleep".into(), "3600".into()], "kill -KILL $!");
        let (mut rest, held) = io::pipe().unwrap();
        let shell = shell.stdin(Stdio::null()).stdout(telling).stderr(held);
        let status = shell.status().unwrap();
        // The parent's ends of both pipes go with the command.
        *shell = Command::new("true");
        assert!(status.code().is_some(), "{status}");
        // Hangs while anybody is left who holds it.
        let mut said = String::new();
        io::Read::read_to_string(&mut rest, &mut said).unwrap();
    }

    #[test]
    fn input_that_ends_ends_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = start(&["sleep", "3600"], folder.path()).unwrap();
        assert!(!server.has_ended().unwrap());
        server.end();
        while !server.has_ended().unwrap() {
            std::thread::yield_now();
        }
        assert!(!server.is_alive());
    }
}
