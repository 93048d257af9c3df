//! The PostgreSQL of a demo with nodes: found on this machine, made anew on a free port, and gone
//! with the demo.
//!
//! Others on this machine reach its port, so it has a password, which only the demo and its nodes
//! know.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use postgres::{PostgresConfig, PostgresStore};
use rig::Postgres;
use rig::postgres::{Place, User};
use tokio::time::{Instant, sleep};

use super::audiences::pairs;
use crate::cli::demo::child;
use crate::cli::demo::process::Database;
use crate::system::random_digits;

/// What `initdb` is told. Its files are lost with the demo anyway, so nothing waits for a disk.
const INITDB: [&str; 2] = ["--auth=scram-sha-256", "--locale=C"];
const SETTINGS: [&str; 2] = ["fsync=off", "full_page_writes=off"];

/// How long it may take to answer, and to end.
const START_TIMEOUT: Duration = Duration::from_secs(30);
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// A server at work. It ends when this is dropped.
pub(super) struct PostgresProcess {
    postgres: Postgres,
    database: Database,
    store: PostgresStore,
}

impl PostgresProcess {
    /// Makes one of the `programs` in `folder`, and waits until it answers.
    pub(super) async fn start(programs: &Path, folder: &Path) -> Result<PostgresProcess> {
        let user = User::of_server()?;
        let cannot = |what: &str, path: &Path| {
            format!("cannot {what} {}; see what is there, and the free space", path.display())
        };
        fs::create_dir_all(folder).with_context(|| cannot("make", folder))?;
        let_in(folder, user)?;
        let port = rig::free_port()?;
        let database = Database {
            url: format!("postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"),
            password: random_digits::<16>()?,
        };
        let secret = folder.join("password");
        // From its first moment on for nobody else.
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&secret);
        let written = file.and_then(|mut file| file.write_all(database.password.as_bytes()));
        written.with_context(|| cannot("write", &secret))?;
        user.own(&secret)?;
        let (data, log) = (folder.join("data"), folder.join("log"));
        let place = Place { programs: programs.to_owned(), data, log, user };
        let mut options: Vec<&OsStr> = INITDB.iter().map(OsStr::new).collect();
        options.extend([OsStr::new("--pwfile"), secret.as_os_str()]);
        let mut making = place.initdb(&options)?;
        let made =
            child::ended(&mut making).await.with_context(|| child::cannot("watch initdb"))?;
        if !made.success() {
            bail!("initdb fails; it said:\n{}", place.said());
        }
        fs::remove_file(&secret).with_context(|| cannot("remove", &secret))?;
        let postgres = Postgres::start(&place, port, &SETTINGS)?;
        let deadline = Instant::now() + START_TIMEOUT;
        while !postgres.ready()? {
            if Instant::now() >= deadline {
                let seconds = START_TIMEOUT.as_secs();
                bail!("PostgreSQL does not start within {seconds} s; it said:\n{}", place.said());
            }
            sleep(Duration::from_millis(20)).await;
        }
        let store = PostgresStore::connect(database.config()?).await;
        let silent = || format!("PostgreSQL does not answer; it said:\n{}", place.said());
        let store = store.with_context(silent)?;
        Ok(PostgresProcess { postgres, database, store })
    }

    /// How nodes reach it.
    pub(super) fn database(&self) -> &Database {
        &self.database
    }

    /// Puts the pairs of `lines` into it, both ways if `both`. Returns how many there are.
    pub(super) async fn load(&self, lines: &[u8], both: bool) -> Result<u64> {
        let mut load = self.store.load();
        for (subscriber, subscribee) in pairs(lines) {
            load.push(subscriber, subscribee)?;
            if both {
                load.push(subscribee, subscriber)?;
            }
        }
        Ok(load.finish().await?.added)
    }

    /// Ends it, and waits for that.
    pub(super) async fn stop(mut self) -> Result<()> {
        child::end_server(self.postgres.server(), "PostgreSQL", END_TIMEOUT).await
    }
}

impl Database {
    /// The configuration for a program that has no command line.
    fn config(&self) -> Result<PostgresConfig> {
        let user = format!("postgres:{}@", self.password);
        Ok(PostgresConfig::from_url(&self.url.replacen("postgres@", &user, 1))?)
    }
}

/// Gives `folder` to whom the server runs as, and lets that one through to it.
fn let_in(folder: &Path, user: User) -> Result<()> {
    if user != User::Ours {
        let above = folder.parent().expect("the folder stands in another one");
        fs::set_permissions(above, Permissions::from_mode(0o711))
            .with_context(|| format!("cannot let PostgreSQL into {}", above.display()))?;
    }
    Ok(user.own(folder)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn password_is_not_in_what_others_can_read() {
        let url = "postgresql://postgres@127.0.0.1:5433/postgres?sslmode=disable".to_owned();
        let database = Database { url, password: "abc".to_owned() };
        assert!(!database.url.contains("abc") && database.config().is_ok());
    }
}
