//! `encke graph restore`: a data directory out of a backup.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use figures::numbers::grouped;

use super::backup::json;
use crate::cli::work::{Progress, unless_stopped};
use crate::console::say;

/// Makes the friends graph in a data directory out of a backup.
///
/// The directory is made where it is not there. One that a server uses, or that holds any
/// subscription, is refused and stays as it is. The backup is copied and looked through before it
/// takes its place: all of it, or nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph restore friends.backup --data ./encke-data
  encke graph restore friends.backup --json | jq .subscriptions")]
pub(crate) struct RestoreArgs {
    /// The backup, as `encke graph backup` wrote it.
    file: PathBuf,
    /// The data directory to make.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Print what was restored as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: RestoreArgs) -> Result<()> {
    let (file, data, started) = (args.file, args.data.clone(), Instant::now());
    let backup = unless_stopped(move || {
        let mut progress = Progress::new("checking");
        let mut set = |done, total| progress.set("checking", done, total);
        Ok(graph::restore(&file, &data, &mut set)?)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return Ok(say(json(&backup, seconds).to_string())?);
    }
    Ok(say(format!(
        "{}: {} subscriptions as of commit {}, in {seconds:.1} s",
        args.data.display(),
        grouped(backup.subscriptions),
        grouped(backup.transaction)
    ))?)
}
