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
    /// Be a node of this cluster: all nodes of one name have one audience. Letters, digits, - and
    /// _.
    #[arg(long, value_name = "NAME", requires = "nats")]
    cluster: Option<String>,
    /// A server of the NATS (with JetStream, 2.12.3 or later) that has the cluster's log:
    /// nats://HOST:PORT or tls://HOST:PORT, with USER:PASSWORD@ or TOKEN@ before the host if need
    /// be. May be repeated, or a list with commas.
    #[arg(long, value_name = "URL", value_delimiter = ',', requires = "cluster")]
    #[arg(value_parser = |text: &str| Ok::<_, Infallible>(Url::from(text)))]
    nats: Vec<Url>,
    /// What this node is called among the others, whose name it must not have; the machine's name
    /// unless given. When a second one of a name comes, the first ends.
    #[arg(long, value_name = "NAME", requires = "cluster", value_parser = parse_node)]
    node: Option<String>,
    /// The graph's store of record, PostgreSQL 15 or later: a URL, or words as libpq takes them.
    /// Without one the graph of each node stands still as it was loaded there. Give the password in
    /// a file, PGPASSWORD or ~/.pgpass: others on this machine can read a command line.
    #[arg(long, value_name = "URL", requires = "cluster")]
    postgres: Option<PostgresUrl>,
    /// A file with its password and nothing else.
    #[arg(long, value_name = "FILE", requires = "postgres")]
    postgres_password_file: Option<PathBuf>,
    /// Certificates that PostgreSQL's must lead to (PEM).
    #[arg(long, value_name = "FILE", requires = "postgres")]
    postgres_root: Option<PathBuf>,
    /// The schema of Encke's tables.
    #[arg(long, value_name = "NAME", default_value = "encke")]
    postgres_schema: String,
    /// How often all of the graph here is compared with PostgreSQL, in seconds; 0 is never. Each
    /// node has its own time of day for it.
    #[arg(long, value_name = "SECONDS", default_value = "86400", value_parser = parse_seconds)]
    graph_check: Duration,
    /// A file with credentials of NATS, as nsc makes them.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    nats_credentials: Option<PathBuf>,
    /// A file of certificates (PEM) of whom to trust as NATS; whom the system trusts unless given.
    #[arg(long, value_name = "FILE", requires = "cluster")]
    nats_ca: Option<PathBuf>,
    /// A file with this node's certificate (PEM) for NATS, if that asks for one.
    #[arg(long, value_name = "FILE", requires = "nats_key")]
    nats_cert: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "nats_cert")]
    nats_key: Option<PathBuf>,
    /// On how many servers of NATS the log is kept when this node makes it: 1, 3 or 5.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_replicas)]
    nats_replicas: usize,
    /// Over how long the clients of this node are sent to the others when it ends, in seconds; 0 is
    /// all at once. Unless given, each of the others is sent 2,000 a second. At most 0.6 of
    /// --grace.
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
        anyhow::anyhow!("the machine's name {:?} is no name of a node: give --node", name.trim())
    })
}

fn parse_node(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if (1..=NODE_NAME_MAX).contains(&text.len()) && text.chars().all(plain) {
        return Ok(text.to_owned());
    }
    Err(format!("1 to {NODE_NAME_MAX} letters, digits, '-', '_' and '.'"))
}

fn parse_replicas(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| [1, 3, 5].contains(number));
    number.ok_or_else(|| "1, 3 or 5".into())
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
