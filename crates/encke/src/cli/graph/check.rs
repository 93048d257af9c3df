//! `encke graph check`: whether a stored graph is as it was written.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use figures::numbers::grouped;
use graph::Check;

use serde_json::json;

use super::source::check_is_there;
use crate::cli::work::{Progress, unless_stopped};
use crate::console::say;

/// Looks for damage in a data directory that no server uses.
///
/// Reads all of it and changes nothing: each page, each list and its checksum, both directions, and
/// what the directory held before. Starting a server looks at the same, but for the directions, and
/// stops at the first fault. Ends with 1 when anything is damaged.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph check --data ./encke-data
  encke graph check --json | jq .findings")]
pub(crate) struct GraphCheckArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: GraphCheckArgs) -> Result<()> {
    let (data, started) = (args.data.clone(), Instant::now());
    check_is_there(&data)?;
    let check = unless_stopped(move || {
        let mut progress = Progress::new("checking");
        Ok(graph::check(&data, &mut |done, total| progress.set("checking", done, total))?)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let Check { findings, findings_total, subscriptions, disk_bytes } = check;
    let damaged = findings_total > 0;
    if args.json {
        let line = json!({
            "damaged": damaged,
            "findings": findings,
            "findings_total": findings_total,
            "subscriptions": subscriptions,
            "store_bytes": disk_bytes,
            "seconds": seconds,
        });
        say(line.to_string())?;
    } else {
        findings.iter().try_for_each(say)?;
        match findings_total - findings.len() as u64 {
            0 => {}
            more => say(format!("and {} more", grouped(more)))?,
        }
    }
    if damaged {
        bail!(
            "the friends graph in {} is damaged: move data.mdb and data.state away from there, \
             then `encke graph restore BACKUP`, or load the graph again; the cause may be the \
             disk, so check it (dmesg)",
            args.data.display()
        );
    }
    if !args.json {
        say(format!(
            "sound: {} subscriptions, {} bytes, read in {seconds:.1} s",
            grouped(subscriptions.unwrap_or_default()),
            grouped(disk_bytes)
        ))?;
    }
    Ok(())
}
