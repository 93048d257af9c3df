//! `encke graph`: friends graphs made, loaded and described.

mod generate;
mod load;
mod stats;
mod upload;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Makes, loads and describes friends graphs.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke graph generate --users 1000000 --edges-per-user 15 --seed 1 -o friends.txt
  encke graph load friends.txt --both --data ./encke-data
  encke graph stats --data ./encke-data --plot degrees.svg")]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    command: GraphCommand,
}

#[derive(Debug, Subcommand)]
enum GraphCommand {
    Generate(generate::GenerateArgs),
    Load(load::LoadArgs),
    Stats(stats::StatsArgs),
}

pub(crate) fn run(args: GraphArgs) -> Result<()> {
    match args.command {
        GraphCommand::Generate(args) => generate::run(args),
        GraphCommand::Load(args) => load::run(args),
        GraphCommand::Stats(args) => stats::run(args),
    }
}
