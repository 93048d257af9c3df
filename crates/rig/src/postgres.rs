//! A PostgreSQL: found on this machine, its files made, started and ended.
//!
//! It does not run as root, so there it runs as the user `postgres`, whom its packages make.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::RigError;
use crate::child::{AtDrop, OwnChild};
use crate::server::{Server, shell};

/// Names the folder of its programs, where that is not found by itself.
pub const NAMED: &str = "ENCKE_POSTGRES_BIN";

/// Where Debian keeps a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// It ends at once, without an order, but with its children.
///
/// It is told again until it is gone: a shell has what it starts in the background ignore this
/// signal until it says otherwise, so the first may come too early.
const END: &str = "while kill -QUIT $! 2>/dev/null; do sleep 0.02; done";

/// `initdb` ends by itself, and else at once, with its children, and the shell too: all of its
/// group.
const INITDB_SCRIPT: &str = "exec 3<&0; (read -r _ <&3; kill -KILL 0) & \"$@\" </dev/null 3<&-; \
                             made=$?; kill $!; exit $made";

/// Whom it runs as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User {
    /// Who runs this program.
    Ours,
    /// Another one, since it does not run as root.
    Other {
        /// The number of the user.
        user: u32,
        /// And of its group.
        group: u32,
    },
}

impl User {
    /// The one of this machine.
    ///
    /// # Errors
    /// This is root, and there is no other one.
    pub fn of_server() -> Result<User, RigError> {
        if !fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0) {
            return Ok(User::Ours);
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let (user, group) = ids(&users).ok_or(RigError::NoUser)?;
        Ok(User::Other { user, group })
    }

    /// Gives it a file or a folder.
    ///
    /// # Errors
    /// The system refuses.
    pub fn own(self, path: &Path) -> Result<(), RigError> {
        match self {
            User::Ours => Ok(()),
            User::Other { user, group } => {
                chown(path, Some(user), Some(group)).map_err(RigError::file(path))
            }
        }
    }

    fn become_by(self, command: &mut Command) {
        if let User::Other { user, group } = self {
            command.uid(user).gid(group);
        }
        // The starter's own directory may be closed to that user.
        command.current_dir("/");
    }
}

/// The numbers of the user `postgres` and of its group.
fn ids(passwd: &str) -> Option<(u32, u32)> {
    let entry = passwd.lines().find_map(|line| line.strip_prefix("postgres:"))?;
    let mut fields = entry.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Where a server has what.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder of its programs.
    pub programs: PathBuf,
    /// The folder of its databases.
    pub data: PathBuf,
    /// The file to which goes what it says.
    pub log: PathBuf,
    /// Whom it runs as: the folders of both are this one's.
    pub user: User,
}

impl Place {
    /// Begins to make the files of an empty server, with these `options` of `initdb`; it ends by
    /// itself, well or badly.
    ///
    /// # Errors
    /// It does not start.
    pub fn initdb<S: AsRef<OsStr>>(&self, options: &[S]) -> Result<OwnChild, RigError> {
        let program = self.programs.join("initdb");
        let mut shell = Command::new("sh");
        shell.args(["-c", INITDB_SCRIPT, "sh"]).arg(&program);
        shell.args(["--no-sync", "--encoding=UTF8", "--username=postgres"]).args(options);
        shell.arg("-D").arg(&self.data);
        self.user.become_by(&mut shell);
        let log = File::create(&self.log).map_err(RigError::file(&self.log))?;
        shell.stdout(Stdio::null()).stderr(log);
        OwnChild::spawn(&mut shell, AtDrop::EndOfInput).map_err(RigError::start(&program))
    }

    /// What the last of its programs has said.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}

/// A server at work. Dropping it ends it, and waits for that.
#[derive(Debug)]
pub struct Postgres {
    server: Server,
    data: PathBuf,
}

impl Postgres {
    /// Starts one on its files, at a port of 127.0.0.1, with settings such as `fsync=off`.
    ///
    /// # Errors
    /// It does not start.
    pub fn start<S: AsRef<str>>(
        place: &Place,
        port: u16,
        settings: &[S],
    ) -> Result<Postgres, RigError> {
        let program = place.programs.join("postgres");
        let words: [OsString; 1] = [program.clone().into()];
        let mut shell = shell(&words, END);
        shell.arg("-D").arg(&place.data).args(["-p", &port.to_string()]);
        // No socket in a folder that others have too.
        shell.args(["-c", "listen_addresses=127.0.0.1", "-k", ""]);
        for setting in settings {
            shell.args(["-c", setting.as_ref()]);
        }
        place.user.become_by(&mut shell);
        let server = Server::start(&mut shell, &program, &place.log)?;
        Ok(Postgres { server, data: place.data.clone() })
    }

    /// Whether it takes clients.
    ///
    /// # Errors
    /// It has ended.
    pub fn ready(&self) -> Result<bool, RigError> {
        self.server.expect_alive()?;
        let file = fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        Ok(is_ready(&file, self.server.pid()))
    }

    /// Its process.
    pub fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    /// The number of its first process.
    pub fn pid(&self) -> u32 {
        self.server.pid()
    }

    /// Ends it and all its processes at once, as a loss of power would but for the disk.
    pub fn kill(self) {
        let pid = self.pid();
        let children = children(pid);
        // Its first process alone ends by this, and its children have no time to write anything.
        for pid in std::iter::once(pid.to_string()).chain(children) {
            // Most have gone with it.
            let _ = Command::new("kill").args(["-KILL", &pid]).stderr(Stdio::null()).status();
        }
    }
}

/// Whether the file of a server's first process (src/include/miscadmin.h, pidfile.h: its number in
/// the first line, its state in the eighth) says that `pid` takes clients.
fn is_ready(file: &str, pid: u32) -> bool {
    let mut lines = file.lines();
    lines.next() == Some(&pid.to_string()) && lines.nth(6).map(str::trim) == Some("ready")
}

/// The numbers of a process's children.
fn children(pid: u32) -> Vec<String> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_child = |entry: &fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // After the name, which may hold anything, come the state and the parent.
        let fields = stat.rsplit(')').next().unwrap_or_default();
        fields.split_whitespace().nth(1) == Some(pid.to_string().as_str())
    };
    let names = processes.filter(is_child).map(|entry| entry.file_name());
    names.filter_map(|name| name.into_string().ok()).collect()
}

/// The folder of its programs: what the environment names, that of the newest version that Debian
/// has, or where the path leads. `None` where there is none.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = env::var_os(NAMED).map(PathBuf::from) {
        return Some(named).filter(|folder| has_server(folder));
    }
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    let number = |folder: &PathBuf| {
        let version = folder.parent()?.file_name()?.to_str()?;
        version.parse::<u32>().ok()
    };
    folders.sort_by_key(number);
    let path = env::var_os("PATH").unwrap_or_default();
    folders.into_iter().rev().chain(env::split_paths(&path)).find(|folder| has_server(folder))
}

fn has_server(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_is_ready_when_its_own_file_says_so() {
        let file =
            |pid: u32, state: &str| format!("{pid}\n/data\n1\n5433\n\n127.0.0.1\n  1 2\n{state}\n");
        assert!(is_ready(&file(7, "ready   "), 7));
        assert!(!is_ready(&file(7, "starting"), 7) && !is_ready("7\n", 7));
        // Left by one that was killed.
        assert!(!is_ready(&file(7, "ready   "), 77));
    }

    #[test]
    fn user_is_found_among_others() {
        let passwd = "root:x:0:0::/root:/bin/sh\npostgres:x:105:111:,,,:/var:/bin/bash\n";
        assert_eq!(ids(passwd), Some((105, 111)));
        assert_eq!(ids("postgresx:x:1:1::/:/bin/sh\n"), None);
    }
}
