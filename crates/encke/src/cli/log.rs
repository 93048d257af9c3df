//! `encke log`: the events that stay, as they lie on disk.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use archive::Kept;
use clap::{Args, Subcommand};
use figures::numbers::grouped;
use hub::{IdError, IdText};
use serde_json::json;

use crate::console::{OutputError, say};

/// The log's directory within that of the data.
const DIR: &str = "log";

/// Describes, checks and exports the events that `encke serve --keep` has written to disk.
///
/// The commands read the log and change nothing. They may run while a server uses it.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke log stats --data ./encke-data
  encke log check --data ./encke-data
  encke log export --data ./encke-data > events.ndjson")]
pub(crate) struct LogArgs {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, Subcommand)]
enum LogCommand {
    /// Print how much is kept: events, bytes, the first event and the last one.
    #[command(after_help = "Examples:\n  encke log stats --data ./encke-data --json")]
    Stats(LookArgs),
    /// Look for damage, and end with exit code 1 if there is any.
    ///
    /// A torn end that the next start of the server cuts off is told, and is no damage.
    #[command(after_help = "Examples:\n  encke log check --data ./encke-data")]
    Check(LookArgs),
    /// Print the kept events, one line of JSON each, in the order of their ids.
    #[command(after_help = "\
Examples:
  encke log export --data ./encke-data > events.ndjson
  encke log export --data ./encke-data --about room:7")]
    Export(LogExportArgs),
}

/// Where the log is.
#[derive(Debug, Args)]
struct LookArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct LogExportArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Only events about this id.
    #[arg(long, value_name = "ID", value_parser = parse_about)]
    about: Option<String>,
}

/// An id, or the key of a topic as the log has it.
fn parse_about(text: &str) -> Result<String, IdError> {
    IdText::of_key(text).map(|_| text.to_owned())
}

pub(crate) fn run(args: LogArgs) -> Result<()> {
    match args.command {
        LogCommand::Stats(args) => stats(&args),
        LogCommand::Check(args) => check(&args),
        LogCommand::Export(args) => export(&args),
    }
}

/// The log in the data directory `data`.
fn dir_in(data: &Path) -> Result<PathBuf> {
    let dir = data.join(DIR);
    ensure!(
        dir.is_dir(),
        "there is no log in {}: give the data directory of a server with --keep (--data)",
        data.display()
    );
    Ok(dir)
}

fn stats(args: &LookArgs) -> Result<()> {
    let dir = dir_in(&args.data)?;
    let (mut first, mut last, mut expired) = (None, None, 0_u64);
    let report = archive::export(&dir, &mut |Kept { event, at_ms, has_expired }| {
        expired += u64::from(has_expired);
        let told = (event.id().to_owned(), at_ms);
        first.get_or_insert_with(|| told.clone());
        last = Some(told);
    });
    let report = report.with_context(|| dir.display().to_string())?;
    if args.json {
        let told = |of: &Option<(String, u64)>| {
            of.as_ref().map(|(id, at_ms)| json!({ "id": id, "sent_ms": at_ms }))
        };
        let line = json!({
            "events": report.records,
            "expired": expired,
            "bytes": report.bytes,
            "segments": report.segments,
            "first": told(&first),
            "last": told(&last),
            "damaged": !report.damaged.is_empty(),
            "in_use": report.in_use,
        });
        return Ok(say(line.to_string())?);
    }
    let (events, bytes) = (grouped(report.records), grouped(report.bytes));
    say(format!("events    {events}, of which {} have expired", grouped(expired)))?;
    say(format!("bytes     {bytes} in {} files", report.segments))?;
    for (name, told) in [("first", first), ("last ", last)] {
        if let Some((id, _)) = told {
            say(format!("{name}     {id}"))?;
        }
    }
    if !report.damaged.is_empty() {
        say("damaged   events are missing: `encke log check` tells where")?;
    }
    Ok(())
}

fn check(args: &LookArgs) -> Result<()> {
    let dir = dir_in(&args.data)?;
    let report = archive::check(&dir).with_context(|| dir.display().to_string())?;
    // What a server is writing now is no torn end.
    let torn = report.torn.as_ref().filter(|_| !report.in_use);
    let damaged = !report.damaged.is_empty();
    if args.json {
        let lost = report.damaged.iter().map(
            |lost| json!({ "file": lost.file, "after": lost.after, "before": end(lost.before) }),
        );
        let line = json!({
            "damaged": damaged,
            "lost": lost.collect::<Vec<_>>(),
            "torn_bytes": torn.map_or(0, |torn| torn.bytes),
            "events": report.records,
            "bytes": report.bytes,
            "segments": report.segments,
            "in_use": report.in_use,
        });
        say(line.to_string())?;
    } else {
        for lost in &report.damaged {
            let (file, after) = (lost.file.display(), lost.after);
            say(match end(lost.before) {
                Some(before) => {
                    format!("{file}: events between the numbers {after} and {before} are lost")
                }
                None => format!("{file}: its events behind the number {after} are lost"),
            })?;
        }
        if let Some(torn) = torn {
            let (file, bytes) = (torn.file.display(), grouped(torn.bytes));
            say(format!(
                "{file}: {bytes} bytes at its end were not written completely; the next \
                         start cuts them off"
            ))?;
        }
    }
    if damaged {
        bail!(
            "the log in {} is damaged: the server goes on without the events that are lost, and \
             tells clients of a gap; the cause may be the disk, so check it (dmesg)",
            dir.display()
        );
    }
    if !args.json {
        let (events, bytes) = (grouped(report.records), grouped(report.bytes));
        say(format!("sound: {events} events, {bytes} bytes in {} files", report.segments))?;
    }
    Ok(())
}

/// The number below which events are lost; `None` where nobody knows up to where they went.
fn end(before: u64) -> Option<u64> {
    Some(before).filter(|before| *before != u64::MAX)
}

fn export(args: &LogExportArgs) -> Result<()> {
    let dir = dir_in(&args.data)?;
    let mut written: Result<(), OutputError> = Ok(());
    let report = archive::export(&dir, &mut |Kept { event, has_expired, .. }| {
        let is_about = |id: &String| event.about() == **id || event.also().any(|also| also == **id);
        let is_wanted = !has_expired && args.about.as_ref().is_none_or(is_about);
        if is_wanted && written.is_ok() {
            written = say(event.json());
        }
    });
    let report = report.with_context(|| dir.display().to_string())?;
    written?;
    ensure!(
        report.damaged.is_empty(),
        "the log in {} is damaged, so events are missing: `encke log check` tells where",
        dir.display()
    );
    Ok(())
}
