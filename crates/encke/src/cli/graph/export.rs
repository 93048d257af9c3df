//! `encke graph export`: a graph as the text that `encke graph load` reads.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use graph::ExportError;

use super::output;
use super::source::{self, PairsFrom, SourceArgs};
use crate::cli::work::{Progress, unless_stopped};
use crate::console::OutputError;

/// Writes all subscriptions as text: a line `a b` for each a that follows b.
///
/// All as of one commit, from a running server or from a data directory, in the form that `encke
/// graph load` reads, without --both. Integers come before names.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph export -o friends.txt
  encke graph export | gzip > friends.txt.gz
  encke graph export --data ./encke-data | wc -l")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Write into this file, which has its name when all of it is there, instead of standard
    /// output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: ExportArgs) -> Result<()> {
    let source = args.source.source()?;
    let Some(path) = args.output else { return export(source, io::stdout()) };
    match source {
        PairsFrom::Server(server) => {
            output::whole(&path, |file, _| source::download(&server, "/graph/export", file))
        }
        PairsFrom::Directory(data) => {
            unless_stopped(move || output::whole(&path, |file, _| write(&data, file)))
        }
    }
}

/// Into standard output.
fn export(source: PairsFrom, out: impl Write + Send + 'static) -> Result<()> {
    let done = match source {
        PairsFrom::Server(server) => {
            let mut out = out;
            source::download(&server, "/graph/export", &mut out)
        }
        PairsFrom::Directory(data) => unless_stopped(move || write(&data, out)),
    };
    // Whoever reads it may have enough.
    done.map_err(|error| match error.downcast::<io::Error>() {
        Ok(error) => OutputError::from(error).into(),
        Err(error) => error,
    })
}

fn write(data: &std::path::Path, out: impl Write) -> Result<()> {
    let graph = source::open_unused(data)?;
    let mut progress = Progress::new("writing");
    let mut out = BufWriter::new(out);
    let written = graph.export(&mut out, &mut |done, total| progress.set("writing", done, total));
    match written {
        Ok(_) => Ok(()),
        Err(ExportError::Write(error)) => Err(error.into()),
        Err(ExportError::Read(error)) => Err(error.into()),
    }
}
