//! A PostgreSQL of a test's own: made once for a user, copied for each server, gone with it.
//!
//! It does not run as root, so there it runs as the user `postgres`, as Debian's package makes it.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use crate::{DEADLINE, free_port, wait_within};

/// How long the last processes of a server that was killed may keep its files. What is left then is
/// deleted by the next program that makes a server.
const LEAVING_MAX: Duration = Duration::from_secs(2);

/// Where Debian keeps the newest it has, and others their only one.
fn programs() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let mut places: Vec<PathBuf> = versions.map(|entry| entry.path().join("bin")).collect();
        places.sort();
        let path = std::env::var_os("PATH").unwrap_or_default();
        places.splice(0..0, std::env::split_paths(&path));
        places.into_iter().rev().find(|place| place.join("initdb").is_file())
    };
    FOUND.get_or_init(find).as_deref()
}

/// Whether there is one on this machine.
pub fn is_installed() -> bool {
    programs().is_some()
}

/// A running server. It is killed, and its files deleted, when this is dropped.
#[derive(Debug)]
pub struct Postgres {
    directory: PathBuf,
    port: u16,
    settings: Vec<String>,
    /// Of the postmaster, while it runs.
    pid: Option<u32>,
}

impl Postgres {
    /// Starts one, with settings such as `fsync=off`; `None`, and the test is skipped, where there
    /// is no PostgreSQL.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(settings: &[&str]) -> Option<Postgres> {
        let Some(template) = template() else {
            crate::skip("PostgreSQL is not here: apt-get install postgresql");
            return None;
        };
        let directory = temporary("server");
        copy(&template, &directory.join("data"));
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Postgres { directory, port: 0, settings, pid: None };
        server.run();
        Some(server)
    }

    /// Its superuser's URL, over TCP.
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgresql://postgres@127.0.0.1:{}/{database}?sslmode=disable", self.port)
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The files of its databases.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Writes a file that the server can read, and nobody else, beside its data; returns its path.
    ///
    /// # Panics
    /// When that does not work.
    pub fn put_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        fs::write(&path, text).expect("the server's directory is there");
        done(Command::new("chmod").arg("600").arg(&path));
        own(&path);
        path
    }

    /// Starts it again where it was stopped or killed, on the same port.
    ///
    /// # Panics
    /// When it does not answer within [`DEADLINE`].
    pub fn run(&mut self) {
        assert!(self.pid.is_none(), "the server runs already");
        let answers = wait_within(DEADLINE, || {
            if self.pid.is_none() {
                if self.port == 0 || TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                    self.port = free_port();
                }
                self.pid = Some(self.spawn());
            }
            if self.answers() {
                return true;
            }
            if !self.is_alive() {
                // Another has taken the port, or those whom a kill left are still ending.
                self.pid = None;
            }
            false
        });
        assert!(answers, "{}", self.log());
    }

    fn spawn(&self) -> u32 {
        let log = self.directory.join("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log);
        let mut command = as_server(programs().expect("it was there").join("postgres"));
        command.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1", "-k", ""]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.expect("the server's directory is there"));
        let (send_pid, pid) = sync_channel(1);
        // Someone must wait for it, or it stays as a zombie; and it ends with the thread that
        // started it, so also where this program is killed.
        thread::spawn(move || {
            let mut child = command.spawn().expect("PostgreSQL starts");
            let _ = send_pid.send(child.id());
            child.wait()
        });
        pid.recv().expect("PostgreSQL starts")
    }

    fn is_alive(&self) -> bool {
        self.pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
    }

    fn answers(&self) -> bool {
        let mut ready = Command::new(programs().expect("it was there").join("pg_isready"));
        ready.args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()]);
        // That it is this server and not another that took the port, its own file says.
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        file.lines().next() == self.pid.map(|pid| pid.to_string()).as_deref()
            && ready.status().is_ok_and(|status| status.success())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Ends it in order: what was committed is in the files.
    pub fn stop(&mut self) {
        self.end("-INT");
    }

    /// Ends it and all its processes at once, as a loss of power would but for the disk.
    pub fn kill(&mut self) {
        let Some(pid) = self.pid else { return };
        let children = children(pid);
        self.end("-KILL");
        for child in children {
            // Most have gone with it.
            let _ = Command::new("kill").args(["-KILL", &child]).stderr(Stdio::null()).status();
        }
    }

    fn end(&mut self, signal: &str) {
        let Some(pid) = self.pid else { return };
        let _ = Command::new("kill").args([signal, &pid.to_string()]).status();
        wait_within(DEADLINE, || !self.is_alive());
        self.pid = None;
    }

    /// A copy of its files, to be put back later. The server must be stopped.
    ///
    /// # Panics
    /// When it runs.
    pub fn save(&self, name: &str) {
        assert!(self.pid.is_none(), "a running server's files cannot be copied");
        copy(&self.data(), &self.directory.join(name));
    }

    /// Puts back what [`Postgres::save`] saved. The server must be stopped.
    ///
    /// # Panics
    /// When it runs.
    pub fn restore(&self, name: &str) {
        assert!(self.pid.is_none(), "a running server's files cannot be replaced");
        fs::remove_dir_all(self.data()).expect("the files are there");
        copy(&self.directory.join(name), &self.data());
    }

    /// Runs SQL by psql; returns its rows, fields parted by `|`, or what the server said.
    pub fn sql(&self, sql: &str) -> Result<String, String> {
        sql_at(&self.url(), sql)
    }

    /// Puts what pg_dump says of the database into a new one; returns that one's URL.
    ///
    /// # Panics
    /// When one of both programs fails.
    pub fn dump_into(&self, database: &str) -> String {
        let file = self.directory.join("dump.sql");
        let file = file.to_str().expect("a temporary directory is text");
        ran("pg_dump", &["--file", file, &self.url()]).expect("it is dumped");
        self.sql(&format!("create database {database}")).expect("it is made");
        let url = self.url_of(database);
        ran("psql", &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, &url])
            .expect("it is filled");
        url
    }
}

/// As [`Postgres::sql`], in another database.
///
/// # Errors
/// What the server said.
pub fn sql_at(url: &str, sql: &str) -> Result<String, String> {
    ran("psql", &["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql, url])
}

/// Runs one of PostgreSQL's programs; returns what it prints, or its error.
fn ran(program: &str, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(programs().expect("it was there").join(program));
    let output = command.args(args).stdin(Stdio::null()).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
        // Its last processes may still be there for a moment.
        wait_within(LEAVING_MAX, || fs::remove_dir_all(&self.directory).is_ok());
    }
}

/// The files of an empty server, for all test programs: made by the first that wants them, while
/// the others wait for its lock.
fn template() -> Option<PathBuf> {
    let programs = programs()?;
    // Those of another version, or of another user, are others.
    let server = fs::metadata(programs.join("postgres")).expect("it was there");
    let user = fs::metadata("/proc/self").expect("a process has an entry").uid();
    let name = format!("encke-template-postgres-{user}-{}-{}", server.mtime(), server.len());
    let folder = std::env::temp_dir().join(name);
    let lock = crate::lock_file(&folder.with_extension("lock"));
    lock.lock().expect("a lock is waited for");
    let data = folder.join("data");
    if !data.is_dir() {
        let directory = temporary("template");
        let fresh = directory.join("data");
        let mut initdb = as_server(programs.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]);
        initdb.args(["--username=postgres", "-D"]).arg(fresh);
        done(initdb.stdout(Stdio::null()));
        // Whole, or not there at all.
        fs::rename(&directory, &folder).expect("both are temporary");
    }
    Some(data)
}

/// A new directory that the server owns. Those of programs that have ended are deleted.
fn temporary(what: &str) -> PathBuf {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    const PREFIX: &str = "encke-postgres-";
    for entry in fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let pid = rest.and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Another program may be at it too.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let name = format!("{PREFIX}{}-{count}-{what}", std::process::id());
    let path = std::env::temp_dir().join(name);
    fs::create_dir(&path).expect("a temporary directory can be made");
    own(&path);
    path
}

fn copy(from: &Path, to: &Path) {
    done(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Gives it to the user that the server runs as.
fn own(path: &Path) {
    if is_root() {
        done(Command::new("chown").arg("postgres:").arg(path));
    }
}

/// A command as the user that the server runs as, in this very process.
fn as_server(program: PathBuf) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(program);
    // The caller's directory may be closed to that user.
    command.current_dir("/");
    command
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|entry| entry.uid() == 0)
}

fn done(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// The pids of a process's children.
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
