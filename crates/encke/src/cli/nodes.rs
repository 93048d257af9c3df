//! `encke cluster`: the nodes of a cluster, from a terminal.

use anyhow::{Result, ensure};
use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::Value;

use super::client::{ApiArgs, runtime};
use crate::client::ApiClient;
use crate::console::say;

/// Looks at the nodes of a cluster.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke cluster status
  encke cluster status --api http://10.0.0.2:8001 --json")]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    command: NodesCommand,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    Status(NodesStatusArgs),
}

/// Lists the nodes as they see themselves.
///
/// Any node may be asked. Exit code 1 when one of them does not answer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke cluster status
  watch encke cluster status --api http://10.0.0.2:8001")]
struct NodesStatusArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// Print the API's answer.
    #[arg(long)]
    json: bool,
}

#[derive(Deserialize)]
struct Cluster {
    cluster: Option<String>,
    members: usize,
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    node: String,
    address: String,
    version: String,
    member: bool,
    #[serde(default)]
    ending: bool,
    epoch: u64,
    applied: u64,
    streams: u64,
    gaps: u64,
}

pub(crate) fn run(args: NodesArgs) -> Result<()> {
    let NodesCommand::Status(NodesStatusArgs { api, json }) = args.command;
    let server = api.server()?;
    let answer: Value =
        runtime()?.block_on(async { ApiClient::connect(&server).await?.get("/cluster").await })?;
    let whole = answer["at_least"] != true;
    let cluster: Cluster = serde_json::from_value(answer.clone())?;
    say(if json { answer.to_string() } else { table(&cluster) })?;
    let (answered, members) = (cluster.nodes.len(), cluster.members);
    ensure!(
        whole,
        "only {answered} of {members} nodes have answered: see that those which are missing above \
         run, and look at their logs"
    );
    Ok(())
}

fn table(Cluster { cluster, members, nodes }: &Cluster) -> String {
    let Some(cluster) = cluster else {
        return "This server is alone: `encke serve --cluster` makes it one of many.".to_owned();
    };
    let head = ["node", "address", "version", "state", "epoch", "applied", "streams", "gaps"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(nodes.iter().map(|node| {
        let state = match node {
            Node { ending: true, .. } => "ending",
            Node { member: true, .. } => "member",
            _ => "away",
        };
        [
            node.node.clone(),
            node.address.clone(),
            node.version.clone(),
            state.to_owned(),
            node.epoch.to_string(),
            node.applied.to_string(),
            node.streams.to_string(),
            node.gaps.to_string(),
        ]
    }));
    let widths: [usize; 8] =
        std::array::from_fn(|n| rows.iter().map(|row| row[n].chars().count()).max().unwrap_or(0));
    let mut text = format!("cluster {cluster}: {} of {members} nodes have answered", nodes.len());
    for row in rows {
        let cells = row.iter().zip(widths).enumerate().map(|(n, (cell, width))| {
            // Names to the left, numbers to the right.
            if n < 4 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text = text + "\n" + cells.collect::<Vec<_>>().join("  ").trim_end();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_has_a_row_for_each_node() {
        let node = Node {
            node: "a".into(),
            address: "10.0.0.1:8000".into(),
            version: "0.1.0".into(),
            member: true,
            ending: false,
            epoch: 1,
            applied: 4711,
            streams: 250_000,
            gaps: 0,
        };
        let cluster = Cluster { cluster: Some("push".into()), members: 2, nodes: vec![node] };
        assert_eq!(
            table(&cluster),
            "cluster push: 1 of 2 nodes have answered\n\
             node  address        version  state   epoch  applied  streams  gaps\n\
             a     10.0.0.1:8000  0.1.0    member      1     4711   250000     0"
        );
        let alone = Cluster { cluster: None, members: 0, nodes: Vec::new() };
        assert!(table(&alone).contains("--cluster"));
    }
}
