//! `encke graph load`: a file of pairs into a data directory, a running server or a cluster.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use figures::numbers::grouped;
use graph::{LoadOptions, LoadReport, Phase};
use serde_json::json;
use server::open_graph;

use super::{input, load_cluster, upload};
use crate::cli::client::{CaArg, KeyArg};
use crate::cli::cluster::PostgresUrl;
use crate::cli::postgres::postgres_config;
use crate::cli::work::{Progress, unless_stopped};
use crate::client::ServerUrl;
use crate::console::{say, tell};

/// Loads a file of pairs: each line `a b` makes a follow b.
///
/// Into a data directory that no server uses (--data), all at once or not at all; into a running
/// server (--api), piece by piece; or into the PostgreSQL of a cluster (--postgres), all at once or
/// not at all, whether its nodes run or not: they take it from there. Blank lines and lines that
/// start with # are skipped.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph load friends.txt --both --data ./encke-data
  encke graph load friends.txt --api http://127.0.0.1:8001
  encke graph load friends.txt --postgres postgresql://encke@db.example/app
  zcat friends.txt.gz | encke graph load - --data ./encke-data")]
pub(crate) struct LoadArgs {
    /// The file; - is standard input.
    file: PathBuf,
    /// The data directory to load into.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Load into the server whose API this is, instead of a data directory.
    // Not from the environment: where the API is must not decide where the pairs go.
    #[arg(long, value_name = "URL", hide_env = true)]
    api: Option<ServerUrl>,
    /// Load into the graph of a cluster, whose store of record this is: a URL, or words as libpq
    /// takes them.
    #[arg(long, value_name = "URL", hide_env = true, conflicts_with = "api")]
    postgres: Option<PostgresUrl>,
    /// A file with its password and nothing else.
    #[arg(long, value_name = "FILE", hide_env = true, requires = "postgres")]
    postgres_password_file: Option<PathBuf>,
    /// Certificates that PostgreSQL's must lead to (PEM).
    #[arg(long, value_name = "FILE", hide_env = true, requires = "postgres")]
    postgres_root: Option<PathBuf>,
    /// The schema of Encke's tables.
    #[arg(long, value_name = "NAME", default_value = "encke")]
    postgres_schema: String,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    ca: CaArg,
    /// Load each pair both ways: friends follow one another.
    #[arg(long)]
    both: bool,
    /// Leave malformed lines out instead of loading nothing.
    #[arg(long)]
    skip_malformed: bool,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: LoadArgs) -> Result<()> {
    let started = Instant::now();
    let options = LoadOptions { both: args.both, skip_malformed: args.skip_malformed };
    let (file, data) = (args.file.clone(), args.data);
    let report = match (args.api, args.postgres) {
        (None, Some(url)) => {
            let (password, root) = (args.postgres_password_file, args.postgres_root);
            let config = postgres_config(&url.0, password, &args.postgres_schema, root)?;
            load_cluster::run(file, config, options)?
        }
        (Some(api), _) => {
            upload::run(&file, &api.with_ca(args.ca.ca).with_key(args.key.key)?, options)?
        }
        (None, None) => unless_stopped(move || load(&file, &data, options))?,
    };
    let seconds = started.elapsed().as_secs_f64();
    let LoadReport { pairs, added, malformed } = report;
    for (number, error) in &malformed.first {
        tell(format!("{}:{number}: {error}; skipped", args.file.display()));
    }
    if args.json {
        let skipped = malformed.count;
        let line =
            json!({ "pairs": pairs, "added": added, "skipped": skipped, "seconds": seconds });
        return Ok(say(line.to_string())?);
    }
    let mut text = format!(
        "{} pairs, {} new subscriptions, in {seconds:.1} s",
        grouped(pairs),
        grouped(added)
    );
    if malformed.count > 0 {
        text += &format!("; malformed lines skipped: {}", grouped(malformed.count));
    }
    Ok(say(text)?)
}

fn load(file: &Path, data: &Path, options: LoadOptions) -> Result<LoadReport> {
    let (mut input, bytes) = input::open(file)?;
    let graph = open_graph(data)?;
    let mut progress = Progress::new("reading");
    let name = file.display().to_string();
    let report = graph.load(&name, &mut *input, bytes, options, &mut |now| {
        progress.set(phase(now.phase), now.done, now.total);
    });
    drop(progress);
    Ok(report?)
}

fn phase(phase: Phase) -> &'static str {
    match phase {
        Phase::Reading => "reading",
        Phase::Sorting => "sorting",
        Phase::Writing => "writing",
        Phase::Syncing => "syncing",
    }
}
