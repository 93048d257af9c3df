//! The PostgreSQL of a demo with nodes: found on this machine, made anew on a free port, and gone
//! with the demo.
//!
//! It does not run as root, so there it runs as the user `postgres`, whom its packages make. Others
//! on this machine reach its port, so it has a password, which only the demo and its nodes know. As
//! before NATS a shell stands before it that ends it when its standard input ends, whose other end
//! only the demo holds.

use std::env;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use ledger::{Ledger, LedgerConfig};
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::cli::demo::child::{AtDrop, OwnChild};

/// Names the folder of its programs, where that is not found by itself.
const NAMED: &str = "ENCKE_POSTGRES_BIN";

/// Where Debian keeps a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// Its files are lost with the demo anyway, so it need not end in order, but with its children.
///
/// It is told again until it is gone: a shell has what it starts in the background ignore this
/// signal until it says otherwise, so the first may come too early.
const SCRIPT: &str = "\"$@\" </dev/null & read -r _; \
                      while kill -QUIT $! 2>/dev/null; do sleep 0.1; done; wait";

/// `initdb` ends by itself, and else at once, with its children, and the shell too: all of its
/// group.
const INITDB_SCRIPT: &str = "exec 3<&0; (read -r _ <&3; kill -KILL 0) & \"$@\" </dev/null 3<&-; \
                             made=$?; kill $!; exit $made";

/// How long it may take to answer, and to end.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// How nodes reach it.
#[derive(Clone)]
pub(in super::super) struct Database {
    /// Without the password, since others can read a command line.
    pub(in super::super) url: String,
    pub(in super::super) password: String,
}

/// A server at work. It ends when this is dropped.
pub(super) struct PostgresProcess {
    shell: OwnChild,
    database: Database,
    ledger: Ledger,
}

impl PostgresProcess {
    /// Makes one of the `programs` in `folder`, and waits until it answers.
    pub(super) async fn start(programs: &Path, folder: &Path) -> Result<PostgresProcess> {
        let user = User::of_server(folder)?;
        fs::create_dir_all(folder).context("cannot make a directory for PostgreSQL")?;
        user.own(folder)?;
        let (data, log) = (folder.join("data"), folder.join("log"));
        let database = Database {
            url: format!("postgresql://postgres@127.0.0.1:{}/postgres?sslmode=disable", free()?),
            password: format!("{:016x}{:016x}", getrandom::u64()?, getrandom::u64()?),
        };
        let secret = folder.join("password");
        // From its first moment on for nobody else.
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&secret);
        let written = file.and_then(|mut file| file.write_all(database.password.as_bytes()));
        written.context("cannot write to the directory")?;
        user.own(&secret)?;
        let mut initdb = user.command(Path::new("sh"));
        initdb.args(["-c", INITDB_SCRIPT, "sh"]).arg(programs.join("initdb"));
        initdb.args(["--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]);
        initdb.arg("--username=postgres").arg("--pwfile").arg(&secret).arg("-D").arg(&data);
        initdb.stdout(Stdio::null()).stderr(create(&log)?);
        let mut making =
            OwnChild::spawn(&mut initdb, AtDrop::EndOfInput).context("cannot start initdb")?;
        if !making.wait().await.context("cannot watch initdb")?.success() {
            bail!("initdb fails; it said:\n{}", said(&log));
        }
        fs::remove_file(&secret).context("cannot remove what was written")?;
        let mut command = user.command(Path::new("sh"));
        command.args(["-c", SCRIPT, "sh"]).arg(programs.join("postgres")).arg("-D").arg(&data);
        let port = database.port().context("it was given one")?;
        command.args(["-p", port, "-k", "", "-c", "listen_addresses=127.0.0.1"]);
        command.args(["-c", "fsync=off", "-c", "full_page_writes=off"]);
        command.stdout(Stdio::null()).stderr(create(&log)?);
        let shell =
            OwnChild::spawn(&mut command, AtDrop::EndOfInput).context("cannot start PostgreSQL")?;
        let deadline = Instant::now() + START_TIMEOUT;
        let ledger = loop {
            match Ledger::connect(database.config()?).await {
                Ok(ledger) => break ledger,
                Err(error) if Instant::now() >= deadline => {
                    bail!("PostgreSQL does not answer ({error}); it said:\n{}", said(&log));
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        };
        Ok(PostgresProcess { shell, database, ledger })
    }

    /// How nodes reach it.
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Puts the pairs of `lines` into it, both ways if `both`. Returns how many there are.
    pub(super) async fn load(&self, lines: &str, both: bool) -> Result<u64> {
        let mut load = self.ledger.load();
        for line in lines.lines() {
            let (subscriber, subscribee) = line.split_once(' ').context("a line has two ids")?;
            load.push(subscriber, subscribee)?;
            if both {
                load.push(subscribee, subscriber)?;
            }
        }
        Ok(load.finish().await?.added)
    }

    /// Ends it, and waits for that.
    pub(super) async fn stop(mut self) -> Result<()> {
        let ended = self.shell.end(END_TIMEOUT).await.context("cannot watch PostgreSQL")?;
        ended.map(drop).context("PostgreSQL does not end")
    }
}

impl Database {
    /// The configuration for a program that has no command line.
    fn config(&self) -> Result<LedgerConfig> {
        let user = format!("postgres:{}@", self.password);
        Ok(LedgerConfig::from_url(&self.url.replacen("postgres@", &user, 1))?)
    }

    fn port(&self) -> Option<&str> {
        self.url.rsplit(':').next()?.split('/').next()
    }
}

/// Whom it runs as.
enum User {
    /// Who runs the demo.
    Ours,
    /// Another one, since it does not run as root.
    Other { user: u32, group: u32 },
}

impl User {
    /// The one for files in `folder`, to which it is let through.
    fn of_server(folder: &Path) -> Result<User> {
        let above = folder.parent().context("the folder stands in another one")?;
        if fs::metadata("/proc/self").context("cannot read /proc")?.uid() != 0 {
            return Ok(User::Ours);
        }
        fs::set_permissions(above, Permissions::from_mode(0o711))
            .context("cannot let PostgreSQL into the demo's directory")?;
        let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        let entry = users.lines().find_map(|line| line.strip_prefix("postgres:"));
        let ids = entry.and_then(|entry| {
            let mut fields = entry.split(':').skip(1);
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
        });
        let (user, group) = ids.context(
            "PostgreSQL does not run as root, and there is no user postgres: run the demo as \
             another user",
        )?;
        Ok(User::Other { user, group })
    }

    fn own(&self, path: &Path) -> Result<()> {
        match *self {
            User::Ours => Ok(()),
            User::Other { user, group } => {
                chown(path, Some(user), Some(group)).context("cannot give PostgreSQL its directory")
            }
        }
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        if let User::Other { user, group } = *self {
            command.uid(user).gid(group);
        }
        // The demo's own directory may be closed to that user.
        command.current_dir("/").stdin(Stdio::null());
        command
    }
}

/// What it says goes to the file at `log`.
fn create(log: &Path) -> Result<File> {
    File::create(log).context("cannot write to the directory")
}

/// What it has said.
fn said(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}

/// A port that nobody has: none of those that the kernel gives to whoever asks for any
/// (`net.ipv4.ip_local_port_range`), or one of the demo's own connections might take it before
/// PostgreSQL does.
fn free() -> Result<u16> {
    for _ in 0..100 {
        let port = 10_000 + u16::try_from(getrandom::u32()? % 22_000)?;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("there is no free port from 10000 to 31999")
}

/// The folder of its programs: what the environment names, that of the newest version that Debian
/// has, or where the path leads. `None` where there is none.
pub(super) fn find() -> Option<PathBuf> {
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
    fn password_is_not_in_what_others_can_read() {
        let url = "postgresql://postgres@127.0.0.1:5433/postgres?sslmode=disable".to_owned();
        let database = Database { url, password: "abc".to_owned() };
        assert_eq!(database.port(), Some("5433"));
        assert!(!database.url.contains("abc") && database.config().is_ok());
    }
}
