//! `encke graph backup`: a running server's graph in a file, as of one moment.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use clap::Args;
use figures::numbers::grouped;
use graph::{Backup, check_backup};
use serde_json::{Value, json};

use super::output;
use super::source::{self, PairsFrom, SourceArgs};
use crate::cli::work::{Progress, unless_stopped};
use crate::console::say;

/// Writes the friends graph into a file, while the server serves.
///
/// All as of one commit, whatever is changed meanwhile. The file is looked through before it takes
/// its name, so it is whole and sound, or not there; one that was there before stays until then.
/// `encke graph restore` makes a data directory of it again. Keys of the API, revoked tokens and
/// certificates are files of their own beside the graph, and not in it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph backup friends.backup
  encke graph backup friends.backup --api https://push.internal:8443
  encke graph backup friends.backup --data ./encke-data     where no server runs")]
pub(crate) struct BackupArgs {
    /// The file to write.
    file: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Print what was written as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: BackupArgs) -> Result<()> {
    let (source, started) = (args.source.source()?, Instant::now());
    let path = args.file.clone();
    let backup = match source {
        PairsFrom::Server(server) => output::whole(&path, |file, partial| {
            source::download(&server, "/graph/backup", file)?;
            look_through(partial)
        }),
        PairsFrom::Directory(data) => unless_stopped(move || {
            output::whole(&path, |file, partial| {
                source::copy(&data, file)?;
                look_through(partial)
            })
        }),
    }?;
    let seconds = started.elapsed().as_secs_f64();
    if args.json {
        return Ok(say(json(&backup, seconds).to_string())?);
    }
    Ok(say(format!(
        "{}: {} subscriptions as of commit {}, {} bytes, in {seconds:.1} s",
        args.file.display(),
        grouped(backup.subscriptions),
        grouped(backup.transaction),
        grouped(backup.bytes)
    ))?)
}

fn look_through(file: &std::path::Path) -> Result<Backup> {
    let mut progress = Progress::new("checking");
    Ok(check_backup(file, &mut |done, total| progress.set("checking", done, total))?)
}

/// What a program reads of a backup. The digest is the one in `data.state` of such a store.
pub(super) fn json(backup: &Backup, seconds: f64) -> Value {
    let Backup { transaction, subscriptions, digest, bytes } = backup;
    json!({
        "subscriptions": subscriptions,
        "transaction": transaction,
        "digest": format!("{digest:016x}"),
        "bytes": bytes,
        "seconds": seconds,
    })
}
