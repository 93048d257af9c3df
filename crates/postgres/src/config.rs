//! How to reach the database.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use zeroize::Zeroizing;

use crate::error::PostgresError;
use crate::limits::{MIGRATION_WAIT, TABLE_WAIT};
use crate::url;

/// How to reach the database. Made by [`PostgresConfig::from_url`]; the fields have defaults that
/// may be changed.
#[derive(Clone)]
pub struct PostgresConfig {
    /// The connection, without password and TLS.
    pub(crate) postgres: Config,
    pub(crate) password: Option<Zeroizing<String>>,
    /// Whether the connection is encrypted, and whom it must lead to.
    pub tls: TlsMode,
    /// Certificates that the server's must lead to (PEM); without it those that the system trusts.
    pub root_file: Option<PathBuf>,
    /// A file that holds the password and nothing else; read at each connect, so that it may
    /// change.
    pub password_file: Option<PathBuf>,
    /// A file as libpq's `.pgpass`, for when there is no other password.
    pub pass_file: Option<PathBuf>,
    /// The schema of the tables: lower-case letters, digits and `_`. Default `encke`.
    pub schema: String,
    /// Whether this node may make and migrate the tables. Default true.
    pub migrate: bool,
    /// Whether it may make them where there are none. Default true. Nobody does who had them: what
    /// is gone is to be restored, and would find an empty graph in its place.
    pub create: bool,
    /// Whoever has this configuration, or a clone of it, had tables. Relaxed: nothing goes with it.
    pub(crate) had_tables: Arc<AtomicBool>,
    /// For each try to connect. Default 5 s.
    pub connect_timeout: Duration,
    /// For each request, but for loads, imports and bootstraps. Default 10 s.
    pub statement_timeout: Duration,
    /// How long a migration of the tables waits for that of another node, and then tries to lock
    /// them. Default 30 s.
    pub migration_wait: Duration,
    /// How long one try waits for the lock of a table: others wait behind it. Default 3 s.
    pub table_wait: Duration,
    /// How long the database may say nothing while all pairs are read: its connection may be dead.
    /// Default 60 s.
    pub silence: Duration,
}

/// Whether a connection is encrypted, and whom it must lead to: libpq's `sslmode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// Plain.
    Disable,
    /// Encrypted where the server can, whoever it is.
    Prefer,
    /// Encrypted, whoever it is; with a root file as [`TlsMode::VerifyCa`], as libpq has it.
    Require,
    /// Encrypted, with a certificate of an authority that is trusted.
    VerifyCa,
    /// TLS with a certificate that is trusted and is for the host's name.
    VerifyFull,
}

impl PostgresConfig {
    /// Reads `postgresql://user@host:port/database?sslmode=verify-full` or `host=… dbname=…`. What
    /// it does not say comes from the environment, as libpq has it: PGHOST, PGPORT, PGUSER,
    /// PGDATABASE, PGPASSWORD, PGPASSFILE (else `~/.pgpass`), PGSSLMODE, PGSSLROOTCERT, PGAPPNAME.
    pub fn from_url(url: &str) -> Result<PostgresConfig, PostgresError> {
        PostgresConfig::from_url_and(url, |name| std::env::var(name).ok().filter(|v| !v.is_empty()))
    }

    /// Reads the URL with another environment.
    fn from_url_and(
        url: &str,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<PostgresConfig, PostgresError> {
        let mut url = Zeroizing::new(url.trim().to_owned());
        let mut ours =
            |option: &str, variable: &str| url::take(&mut url, option).or_else(|| env(variable));
        let tls = ours("sslmode", "PGSSLMODE");
        let root_file = ours("sslrootcert", "PGSSLROOTCERT").filter(|file| file != "system");
        let pass_file = ours("passfile", "PGPASSFILE");
        // The parser's own words could quote a piece of a password.
        let mut postgres: Config = url.parse().map_err(|_| {
            unusable(
                "its URL cannot be read; write postgresql://user@host:port/database, with \
                 %-escapes for special characters, and options that libpq has (sslcert and sslkey \
                 are not supported)",
            )
        })?;
        let password = postgres.get_password().map(String::from_utf8_lossy);
        let password = password.map(|p| p.into_owned()).or_else(|| env("PGPASSWORD"));
        fill(&mut postgres, &env)?;
        let home_file = || Some(PathBuf::from(env("HOME")?).join(".pgpass"));
        Ok(PostgresConfig {
            password: password.map(Zeroizing::new),
            tls: match tls {
                Some(mode) => TlsMode::parse(&mode)?,
                // Who says whom to trust means it, which libpq takes for a wish.
                None if root_file.is_some() => TlsMode::VerifyFull,
                None => TlsMode::Prefer,
            },
            root_file: root_file.map(PathBuf::from),
            password_file: None,
            pass_file: pass_file.map(PathBuf::from).or_else(home_file),
            schema: "encke".into(),
            migrate: true,
            create: true,
            had_tables: Arc::default(),
            connect_timeout: *postgres.get_connect_timeout().unwrap_or(&Duration::from_secs(5)),
            statement_timeout: Duration::from_secs(10),
            migration_wait: MIGRATION_WAIT,
            table_wait: TABLE_WAIT,
            silence: Duration::from_secs(60),
            postgres,
        })
    }

    /// Names this node in `pg_stat_activity`, unless URL or environment named it.
    pub fn set_application_name(&mut self, name: &str) {
        if self.postgres.get_application_name().is_none_or(|name| name == "encke") {
            self.postgres.application_name(name);
        }
    }

    /// The schema's name, if it is one that needs no quotes.
    pub(crate) fn schema(&self) -> Result<&str, PostgresError> {
        let name = self.schema.as_str();
        let good = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let begins = name.bytes().next().is_some_and(|c| !c.is_ascii_digit());
        if begins && name.len() <= 40 && name.bytes().all(good) && !name.starts_with("pg_") {
            return Ok(name);
        }
        Err(unusable(
            "the name of its schema must have 1 to 40 lower-case letters, digits and '_', must not \
             begin with a digit or with pg_",
        ))
    }

    /// `sql` with the schema's name where it says `encke.` or `schema encke `.
    pub(crate) fn sql(&self, sql: &str) -> String {
        if self.schema == "encke" {
            return sql.to_owned();
        }
        let sql = sql.replace("encke.", &format!("{}.", self.schema));
        sql.replace(" schema encke ", &format!(" schema {} ", self.schema))
    }
}

/// What neither URL nor defaults say.
fn fill(postgres: &mut Config, env: &impl Fn(&str) -> Option<String>) -> Result<(), PostgresError> {
    if postgres.get_hosts().is_empty() && postgres.get_hostaddrs().is_empty() {
        // Several stand between commas, and one that is empty is the default.
        for host in env("PGHOST").unwrap_or_default().split(',').map(str::trim) {
            postgres.host(if host.is_empty() { "/var/run/postgresql" } else { host });
        }
    }
    if postgres.get_ports().is_empty()
        && let Some(ports) = env("PGPORT")
    {
        for port in ports.split(',').map(str::trim) {
            let port = if port.is_empty() { "5432" } else { port };
            let fails = |_| unusable("PGPORT is no port: 1 to 65535, or one for each host");
            postgres.port(port.parse().map_err(fails)?);
        }
    }
    if postgres.get_user().is_none() {
        match env("PGUSER").or_else(|| env("USER")) {
            Some(user) => postgres.user(user),
            None => return Err(unusable("its URL names no user: postgresql://user@host/database")),
        };
    }
    if postgres.get_dbname().is_none()
        && let Some(name) = env("PGDATABASE")
    {
        postgres.dbname(name);
    }
    if postgres.get_application_name().is_none() {
        postgres.application_name(env("PGAPPNAME").unwrap_or_else(|| "encke".into()));
    }
    postgres.ssl_mode(SslMode::Disable);
    // Of several hosts the one that takes changes.
    postgres.target_session_attrs(TargetSessionAttrs::ReadWrite);
    // A host that vanishes is noticed: by what is sent, and while nothing is.
    postgres.tcp_user_timeout(Duration::from_secs(10));
    postgres.keepalives_idle(Duration::from_secs(10));
    postgres.keepalives_interval(Duration::from_secs(5));
    postgres.keepalives_retries(3);
    Ok(())
}

fn unusable(what: &str) -> PostgresError {
    PostgresError::Unusable(what.into())
}

impl TlsMode {
    /// Reads libpq's word.
    pub fn parse(word: &str) -> Result<TlsMode, PostgresError> {
        Ok(match word {
            "disable" => TlsMode::Disable,
            "allow" | "prefer" => TlsMode::Prefer,
            "require" => TlsMode::Require,
            "verify-ca" => TlsMode::VerifyCa,
            "verify-full" => TlsMode::VerifyFull,
            _ => {
                return Err(unusable(
                    "sslmode must be disable, prefer, require, verify-ca or verify-full",
                ));
            }
        })
    }

    pub(crate) fn wire(self) -> SslMode {
        match self {
            TlsMode::Disable => SslMode::Disable,
            TlsMode::Prefer => SslMode::Prefer,
            TlsMode::Require | TlsMode::VerifyCa | TlsMode::VerifyFull => SslMode::Require,
        }
    }
}

impl fmt::Debug for PostgresConfig {
    /// Without the password, and without the options that might hold one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresConfig")
            .field("hosts", &self.postgres.get_hosts())
            .field("user", &self.postgres.get_user())
            .field("database", &self.postgres.get_dbname())
            .field("tls", &self.tls)
            .field("schema", &self.schema)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tokio_postgres::config::Host;

    use super::*;

    fn config(url: &str, env: &[(&str, &str)]) -> Result<PostgresConfig, PostgresError> {
        PostgresConfig::from_url_and(url, |name| {
            env.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn url_goes_before_environment() {
        let env = [("PGSSLMODE", "require"), ("PGPORT", "7"), ("PGPASSWORD", "p"), ("USER", "u")];
        let from_env = config("postgresql:///", &env).unwrap();
        assert_eq!(from_env.tls, TlsMode::Require);
        assert_eq!(from_env.postgres.get_ports(), [7]);
        assert_eq!(from_env.postgres.get_user(), Some("u"));
        assert_eq!(from_env.password.as_deref().map(String::as_str), Some("p"));
        let named = config("postgres://a@h/d?sslrootcert=/r.pem", &[]).unwrap();
        assert_eq!(named.tls, TlsMode::VerifyFull, "who names a root means it");
        let url =
            "postgres://a:b%40@h:5433/d?sslmode=verify-full&sslrootcert=%2Fr.pem&connect_timeout=2";
        let from_url = config(url, &env).unwrap();
        assert_eq!(from_url.tls, TlsMode::VerifyFull);
        assert_eq!(from_url.root_file, Some(PathBuf::from("/r.pem")));
        assert_eq!(from_url.password.as_deref().map(String::as_str), Some("b@"));
        assert_eq!(from_url.connect_timeout, Duration::from_secs(2));
        assert_eq!(from_url.postgres.get_dbname(), Some("d"));
    }

    #[test]
    fn several_hosts_of_the_environment_stand_between_commas() {
        let folder = || Host::Unix("/var/run/postgresql".into());
        let env = [("PGHOST", "a, b,"), ("PGPORT", "1,2,"), ("USER", "u")];
        let several = config("postgresql:///", &env).unwrap();
        let hosts = [Host::Tcp("a".into()), Host::Tcp("b".into()), folder()];
        assert_eq!(several.postgres.get_hosts(), hosts);
        assert_eq!(several.postgres.get_ports(), [1, 2, 5432]);
        let none = config("postgresql:///", &[("USER", "u")]).unwrap();
        assert_eq!(
            (none.postgres.get_hosts(), none.postgres.get_ports().len()),
            (&[folder()][..], 0)
        );
        for ports in ["1;2", "1,x", "0x1", "65536"] {
            let refused =
                config("postgresql:///", &[("PGPORT", ports), ("USER", "u")]).unwrap_err();
            assert!(refused.to_string().contains("PGPORT"), "{ports}: {refused}");
        }
    }

    #[test]
    fn words_are_read_as_well_as_urls() {
        let words = "host=h user = u sslmode='verify-ca' password='it''s' dbname=d";
        let words = words.replace("''", "\\'");
        let config = config(&words, &[]).unwrap();
        assert_eq!(config.tls, TlsMode::VerifyCa);
        assert_eq!(config.password.as_deref().map(String::as_str), Some("it's"));
    }

    #[test]
    fn no_secret_is_told() {
        let good = config("postgresql://u:secret@h/d", &[]).unwrap();
        assert!(!format!("{good:?}").contains("secret"), "{good:?}");
        for bad in ["postgresql://u:secret@h:port/d", "host=h secret", "host=h secret=1 user=u"] {
            let error = config(bad, &[]).unwrap_err();
            assert!(!format!("{error:?} {error}").contains("secret"), "{error}");
        }
    }

    #[test]
    fn schema_needs_no_quotes() {
        let mut config = config("postgresql://u@h/d", &[]).unwrap();
        for (name, good) in [
            ("encke", true),
            ("a_1", true),
            ("", false),
            ("A", false),
            ("1a", false),
            ("a;b", false),
        ] {
            config.schema = name.into();
            assert_eq!(config.schema().is_ok(), good, "{name}");
        }
    }
}
