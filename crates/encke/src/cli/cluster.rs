//! The options of `encke serve` that make it a node of a cluster.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use postgres::PostgresError;
use server::cluster::{ClusterConfig, Credentials, NatsConfig, Url};

use super::postgres::postgres_config;
use crate::units::parse_seconds;

/// One of many nodes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Name of the cluster to be a node of.
    ///
    /// All nodes of one name serve one audience. Letters, digits, - and _.
    #[arg(long, value_name = "NAME", requires = "nats")]
    cluster: Option<String>,
    /// URL of a NATS server with the cluster's log: nats://HOST:PORT or tls://HOST:PORT.
    ///
    /// NATS 2.12.3 or later, with JetStream. Put USER:PASSWORD@ or TOKEN@ before the host if NATS
    /// asks for it. Repeat the option, or give a list with commas.
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "cluster")]
    #[arg(value_parser = |text: &str| Ok::<_, Infallible>(Url::from(text)))]
    nats: Vec<Url>,
    /// Name of this node in the cluster.
    ///
    /// Default: the machine's name. No two nodes may have the same name: if a second one comes, the
    /// first ends.
    #[arg(long, value_name = "NAME", requires = "cluster", value_parser = parse_node)]
    node: Option<String>,
    /// PostgreSQL 15 or later with the graph: a URL, or words as libpq takes them.
    ///
    /// Without it, each node keeps the graph that was loaded there, and it does not change. Give
    /// the password in a file, PGPASSWORD or ~/.pgpass: others on this machine can read a command
    /// line.
    #[arg(long, value_name = "URL", requires = "cluster")]
    postgres: Option<PostgresUrl>,
    /// File with the password of PostgreSQL and nothing else.
    #[arg(long, value_name = "FILE", requires = "postgres")]
    postgres_password_file: Option<PathBuf>,
    /// Certificates (PEM) to trust PostgreSQL by.
    #[arg(long, value_name = "FILE", requires = "postgres")]
    postgres_root: Option<PathBuf>,
    /// Schema of Encke's tables.
    #[arg(long, value_name = "NAME", default_value = "encke")]
    postgres_schema: String,
    /// Time between comparisons of the whole graph with PostgreSQL, in seconds; 0 never compares.
    ///
    /// Each node does it at another time of day.
    #[arg(long, value_name = "SECONDS", default_value = "86400", value_parser = parse_seconds)]
    graph_check: Duration,
    /// File with credentials for NATS, as nsc makes them.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    nats_credentials: Option<PathBuf>,
    /// Certificates (PEM) to trust NATS by.
    ///
    /// Default: the system's.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    nats_ca: Option<PathBuf>,
    /// File with this node's certificate (PEM) for NATS, if NATS asks for one.
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    nats_cert: Option<PathBuf>,
    /// Private key of --nats-cert.
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
    nats_key: Option<PathBuf>,
    /// Number of NATS servers that keep the log: 1, 3 or 5.
    ///
    /// It counts when this node makes the log. An existing log stays as it is.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_replicas)]
    nats_replicas: usize,
    /// Time over which clients are sent to other nodes when this node ends, in seconds; 0 is all at
    /// once.
    ///
    /// At most 0.6 of --grace. Default: so that each other node gets 2,000 a second.
    #[arg(long, value_name = "SECONDS", requires = "cluster", value_parser = parse_seconds)]
    drain: Option<Duration>,
}

/// The longest name of a node.
const NODE_NAME_MAX: usize = 64;

impl ClusterArgs {
    /// The node's settings; `None` unless it is to be one.
    pub(crate) fn config(self) -> Result<Option<ClusterConfig>> {
        let Some(cluster) = self.cluster else { return Ok(None) };
        let node = match self.node {
            Some(node) => node,
            None => machine_name()?,
        };
        let mut nats = NatsConfig::new(&cluster, self.nats);
        nats.name = format!("encke {node}");
        if let Some(file) = self.nats_credentials {
            nats.credentials = Credentials::File(file);
        }
        nats.roots = self.nats_ca;
        nats.certificate = self.nats_cert.zip(self.nats_key);
        nats.replicas = self.nats_replicas;
        let store = self.postgres.map(|url| {
            let (password, root) = (self.postgres_password_file, self.postgres_root);
            let mut config = postgres_config(&url.0, password, &self.postgres_schema, root)?;
            config.set_application_name(&format!("encke {node}"));
            Ok::<_, PostgresError>(config)
        });
        let store = store.transpose()?;
        let (history, check_every, drain) = (Duration::ZERO, self.graph_check, self.drain);
        Ok(Some(ClusterConfig { node, nats, history, store, check_every, drain }))
    }
}

/// An address that may have a password in it, and is never shown.
#[derive(Clone)]
pub(crate) struct PostgresUrl(pub(crate) String);

impl FromStr for PostgresUrl {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<PostgresUrl, Infallible> {
        Ok(PostgresUrl(text.to_owned()))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(an address)")
    }
}

/// What the machine calls itself.
fn machine_name() -> Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    parse_node(name.trim()).map_err(|_| {
        anyhow::anyhow!(
            "the machine's name {:?} cannot be a node's name: set one with --node",
            name.trim()
        )
    })
}

fn parse_node(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=NODE_NAME_MAX).contains(&text.len()) && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(format!("write 1 to {NODE_NAME_MAX} letters, digits, '-', '_' and '.'"))
}

fn parse_replicas(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| [1, 3, 5].contains(number));
    number.ok_or_else(|| "write 1, 3 or 5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_that_make_no_node_are_refused() {
        for name in ["a", "node-1.example_x", &"x".repeat(64)] {
            assert_eq!(parse_node(name).as_deref(), Ok(name));
        }
        for name in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
            assert!(parse_node(name).is_err(), "{name:?}");
        }
        assert_eq!(parse_replicas("3"), Ok(3));
        assert!(parse_replicas("2").is_err() && parse_replicas("x").is_err());
    }
}
