//! `encke graph load --postgres`: a file of pairs into the store of record of a cluster.
//!
//! One transaction: all pairs or none, whatever happens to this process. Running nodes see it as
//! any change, and an empty graph that is filled as another graph, which they take whole.

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Error, Result, anyhow, ensure};
use graph::{LoadOptions, LoadReport, Malformed, for_each_line};
use hub::IdText;
use postgres::{COMMITTING, Load, Loaded, PostgresConfig, PostgresError, PostgresStore};
use tokio::task::spawn_blocking;

use super::input;
use crate::cli::client::runtime;
use crate::cli::work::Progress;
use crate::signals::Signals;

pub(super) fn run(
    file: PathBuf,
    config: PostgresConfig,
    options: LoadOptions,
) -> Result<LoadReport> {
    let runtime = runtime()?;
    // Relaxed: one thread writes and reads it, and nothing goes with it.
    let commits = Arc::new(AtomicBool::new(false));
    let done = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            done = load(file, config, options, &commits) => done,
            _ = signals.next() => Err(stopped(commits.load(Ordering::Relaxed))),
        }
    });
    // The reading thread may wait for a standard input that never ends.
    runtime.shutdown_background();
    done
}

/// What a signal leaves behind. A commit goes on without this process.
fn stopped(is_committing: bool) -> Error {
    match is_committing {
        true => anyhow!(
            "stopped while it was committed: all pairs were loaded or none; load the same file \
             again, which does no harm"
        ),
        false => anyhow!("stopped before it was done; nothing was loaded"),
    }
}

/// `commits` is set before the commit is asked for.
async fn load(
    file: PathBuf,
    config: PostgresConfig,
    options: LoadOptions,
    commits: &Arc<AtomicBool>,
) -> Result<LoadReport> {
    let mut load = PostgresStore::connect(config).await?.load();
    let name = file.display().to_string();
    let reading = spawn_blocking(move || {
        let mut progress = Progress::new("reading");
        let found = read(&file, &mut load, options, &mut progress);
        (load, found, progress)
    });
    let (mut load, found, mut progress) = reading.await?;
    let (pairs, malformed) = found.with_context(|| format!("nothing was loaded from {name}"))?;
    ensure!(options.skip_malformed || malformed.count == 0, "{}", malformed.complaint(&name));
    let commits = Arc::clone(commits);
    load.on_progress(move |what, done, total| {
        commits.fetch_or(what == COMMITTING, Ordering::Relaxed);
        progress.set(what, done, total);
    });
    let Loaded { added, .. } = load.finish().await?;
    Ok(LoadReport { pairs, added, malformed })
}

/// Why a line's pair was not taken, as an error of the reading.
fn refused(error: PostgresError) -> io::Error {
    io::Error::new(ErrorKind::InvalidInput, error)
}

fn read(
    file: &std::path::Path,
    load: &mut Load,
    options: LoadOptions,
    progress: &mut Progress,
) -> Result<(u64, Malformed)> {
    let (mut input, bytes) = input::open(file)?;
    let (mut pairs, mut number, mut malformed) = (0, 0, Malformed::default());
    let mut texts = [String::new(), String::new()];
    for_each_line(&mut input, |line, done| {
        number += 1;
        let (subscriber, subscribee) = match line {
            Ok(Some(pair)) => pair,
            Ok(None) => return Ok(()),
            Err(error) => {
                malformed.note(number, error);
                return Ok(());
            }
        };
        pairs += 1;
        if pairs % REPORT_EVERY == 0 {
            progress.set("reading", done, bytes);
        }
        let [a, b] = &mut texts;
        let (a, b) = (text(subscriber, a), text(subscribee, b));
        load.push(a, b).map_err(refused)?;
        if options.both {
            load.push(b, a).map_err(refused)?;
        }
        Ok::<_, io::Error>(())
    })?;
    Ok((pairs, malformed))
}

/// Lines between two words on how far it is.
const REPORT_EVERY: u64 = 1 << 14;

/// The text of `id`; `digits` is for an integer's.
fn text<'t>(id: IdText<'t>, digits: &'t mut String) -> &'t str {
    match id {
        IdText::Name(name) => name,
        IdText::Integer(id) => {
            *digits = id.to_bits().to_string();
            digits
        }
    }
}
