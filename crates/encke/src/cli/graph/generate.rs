//! `encke graph generate`: a friends graph to test with.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use figures::numbers::grouped;
use load::graph_model::{BarabasiAlbert, GenerateError};

use crate::cli::work::{Progress, unless_stopped};
use crate::console::{OutputError, tell};
use crate::units::whole;

/// Makes a friends graph: one pair `a b` a line, users numbered from 0.
///
/// The format is that of igraph's write_edgelist. The same options make the same graph everywhere.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph generate --users 1000000 --edges-per-user 15 --seed 1 -o friends.txt
  encke graph generate --users 1000 | sort -R | head")]
pub(crate) struct GenerateArgs {
    /// The kind of graph.
    #[arg(long, value_enum, default_value_t = Model::Ba)]
    model: Model,
    /// How many users.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    #[arg(value_parser = whole(0..=u32::MAX))]
    users: u32,
    /// How many friends each newcomer makes.
    #[arg(long, value_name = "N", default_value_t = 15)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    edges_per_user: u32,
    /// Chooses one of the graphs of this size.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = whole(0..=u64::MAX))]
    seed: u64,
    /// Where to; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Model {
    /// Barabási–Albert: newcomers prefer those who have many friends.
    Ba,
}

pub(super) fn run(args: GenerateArgs) -> Result<()> {
    let Model::Ba = args.model;
    let GenerateArgs { users, edges_per_user, seed, .. } = args;
    let model = BarabasiAlbert { users, edges_per_user, seed };
    let output = args.output;
    unless_stopped(move || {
        if output == Path::new("-") {
            generate(model, &mut io::stdout().lock()).map_err(into_output_error)
        } else {
            generate_file(model, &output)
        }
    })?;
    tell(format!("{} friendships of {} users", grouped(model.edges()), grouped(users.into())));
    Ok(())
}

/// Writes beside `path` and renames at the end, so that no half graph ever stands there.
fn generate_file(model: BarabasiAlbert, path: &Path) -> Result<()> {
    let name = path.file_name().with_context(|| {
        format!("-o {} names no file: end the path with the name of one", path.display())
    })?;
    let partial = path.with_file_name(format!("{}.partial", name.to_string_lossy()));
    let cannot =
        || format!("cannot write {}; check its directory, owner and free space", path.display());
    let written = File::create(&partial).with_context(cannot).and_then(|mut file| {
        generate(model, &mut file).with_context(cannot)?;
        fs::rename(&partial, path).with_context(cannot)
    });
    if written.is_err() {
        // What is wrong is told already.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn generate(model: BarabasiAlbert, out: &mut dyn Write) -> Result<(), GenerateError> {
    let mut progress = Progress::new("generating");
    model.generate(out, &mut |done, total| progress.set("generating", done, total))
}

fn into_output_error(error: GenerateError) -> anyhow::Error {
    match error {
        GenerateError::Write(error) => OutputError::from(error).into(),
        error @ GenerateError::NoEdges => error.into(),
    }
}
