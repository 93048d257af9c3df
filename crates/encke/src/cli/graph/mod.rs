//! `encke graph`: friends graphs made, loaded, described, checked, backed up and restored.

mod backup;
mod check;
mod export;
mod generate;
mod input;
mod load;
mod load_cluster;
mod output;
mod restore;
mod source;
mod stats;
mod upload;

use anyhow::Result;
use clap::{Args, Subcommand};

/// Makes, loads, describes, checks, backs up and restores friends graphs.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke graph generate --users 1000000 --edges-per-user 15 --seed 1 -o friends.txt
  encke graph load friends.txt --both --data ./encke-data
  encke graph stats --data ./encke-data --plot degrees.svg
  encke graph check --data ./encke-data
  encke graph backup friends.backup
  encke graph restore friends.backup --data ./encke-data
  encke graph export -o friends.txt")]
pub(crate) struct GraphArgs {
    #[command(subcommand)]
    command: GraphCommand,
}

#[derive(Debug, Subcommand)]
enum GraphCommand {
    Generate(generate::GenerateArgs),
    Load(Box<load::LoadArgs>),
    Stats(stats::StatsArgs),
    Check(check::GraphCheckArgs),
    Backup(backup::BackupArgs),
    Restore(restore::RestoreArgs),
    Export(export::ExportArgs),
}

pub(crate) fn run(args: GraphArgs) -> Result<()> {
    match args.command {
        GraphCommand::Generate(args) => generate::run(args),
        GraphCommand::Load(args) => load::run(*args),
        GraphCommand::Stats(args) => stats::run(args),
        GraphCommand::Check(args) => check::run(args),
        GraphCommand::Backup(args) => backup::run(args),
        GraphCommand::Restore(args) => restore::run(args),
        GraphCommand::Export(args) => export::run(args),
    }
}
