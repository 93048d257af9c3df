//! A PostgreSQL of a test's own: made once for a user, copied for each server, gone with it.

use std::fs::{self, Permissions};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rig::postgres::{self, Place, User};

use crate::folders::temporary;
use crate::{DEADLINE, free_port, wait_within};

/// How long the last processes of a server that was killed may keep its files. What is left then is
/// deleted by the next program that makes a server.
const LEAVING_MAX: Duration = Duration::from_secs(2);

/// The folder of its programs.
fn programs() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(postgres::find).as_deref()
}

/// Whom servers run as.
fn user() -> User {
    User::of_server().unwrap_or_else(|error| panic!("{error}"))
}

/// Where a server in that folder has what.
fn place(directory: &Path) -> Place {
    let programs = programs().expect("it was there").to_owned();
    Place { programs, data: directory.join("data"), log: directory.join("log"), user: user() }
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
    /// While it runs.
    running: Option<rig::Postgres>,
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
        let directory = temporary("postgres");
        own(&directory);
        copy(&template, &directory.join("data"));
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let mut server = Postgres { directory, port: 0, settings, running: None };
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
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("it is ours");
        own(&path);
        path
    }

    /// Starts it again where it was stopped or killed, on the same port.
    ///
    /// # Panics
    /// When it does not answer within [`DEADLINE`].
    pub fn run(&mut self) {
        assert!(self.running.is_none(), "the server runs already");
        let place = place(&self.directory);
        let answers = wait_within(DEADLINE, || {
            let running = self.running.get_or_insert_with(|| {
                if self.port == 0 || TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                    self.port = free_port();
                }
                let started = rig::Postgres::start(&place, self.port, &self.settings);
                started.unwrap_or_else(|error| panic!("{error}"))
            });
            running.ready().unwrap_or_else(|_| {
                // Another has taken the port, or those whom a kill left are still ending.
                self.running = None;
                false
            })
        });
        assert!(answers, "{}", place.said());
    }

    /// Ends it in order: what was committed is in the files.
    pub fn stop(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let _ = Command::new("kill").args(["-INT", &running.pid().to_string()]).status();
        wait_within(DEADLINE, || !running.server().is_alive());
    }

    /// Ends it and all its processes at once, as a loss of power would but for the disk.
    pub fn kill(&mut self) {
        self.running.take().into_iter().for_each(rig::Postgres::kill);
    }

    /// A copy of its files, to be put back later. The server must be stopped.
    ///
    /// # Panics
    /// When it runs.
    pub fn save(&self, name: &str) {
        assert!(self.running.is_none(), "a running server's files cannot be copied");
        copy(&self.data(), &self.directory.join(name));
    }

    /// Puts back what [`Postgres::save`] saved. The server must be stopped.
    ///
    /// # Panics
    /// When it runs.
    pub fn restore(&self, name: &str) {
        assert!(self.running.is_none(), "a running server's files cannot be replaced");
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
        let directory = temporary("postgres");
        own(&directory);
        let options = ["--auth=trust", "--locale=C.UTF-8"];
        let (place, mut ended) = (place(&directory), None);
        let making = place.initdb(&options);
        let mut making = making.unwrap_or_else(|error| panic!("{error}"));
        wait_within(DEADLINE, || {
            ended = making.try_wait().expect("a child can be watched");
            ended.is_some()
        });
        assert!(ended.is_some_and(|status| status.success()), "initdb said:\n{}", place.said());
        // Whole, or not there at all.
        fs::rename(&directory, &folder).expect("both are temporary");
    }
    Some(data)
}

fn copy(from: &Path, to: &Path) {
    done(Command::new("cp").arg("-a").arg(from).arg(to));
}

/// Gives it to the user that the server runs as.
fn own(path: &Path) {
    user().own(path).unwrap_or_else(|error| panic!("{error}"));
}

fn done(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}
