//! The command line: which commands there are, where their options come from, and what they exit
//! with: 0 done, 1 failed, 2 wrong usage.
//!
//! Each command has a file of its own: its options, its help, and what it does.

mod client;
mod cluster;
mod completions;
mod conclude;
mod demo;
mod erlang;
mod flood;
mod graph;
mod ketama;
mod key;
mod listen;
mod man;
mod names;
mod nodes;
mod plot;
mod postgres;
mod serve;
mod signer;
mod spam;
mod strangers;
mod ticker;
mod token;
mod token_rules;
mod tokens;
mod tune;
mod watch;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use thiserror::Error;
use tracing::level_filters::LevelFilter;

use crate::config::{self, ConfigError};
use crate::console::{self, OutputError};
use crate::ketama::ServerListError;

/// Encke: pushes events to a million connected users, each to those who follow its subject.
#[derive(Debug, Parser)]
#[command(name = "encke", bin_name = "encke", version, propagate_version = true)]
#[command(
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
#[command(after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  encke demo                        see the whole system at work
  encke serve                       start the server
  encke listen bob                  hear what bob hears
  encke subscribe bob rj            bob follows rj
  encke send rj '\"hello\"'           everybody who follows rj hears it

Options may also stand in the environment (--max-backlog as ENCKE_MAX_BACKLOG) and in a TOML
file (--config), there with the name of their command as table. The command line wins, then the
environment, then the file.
Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// Options of every command.
#[derive(Debug, Args)]
struct Common {
    /// Take options from this TOML file.
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    config: Option<PathBuf>,
    /// Log from this level on, to standard error.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Common options")]
    #[arg(default_value = "info")]
    log_level: LogLevel,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> LevelFilter {
        match level {
            LogLevel::Off => LevelFilter::OFF,
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
            LogLevel::Debug => LevelFilter::DEBUG,
            LogLevel::Trace => LevelFilter::TRACE,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Demo(demo::DemoArgs),
    Serve(Box<serve::ServeArgs>),
    Send(client::SendArgs),
    Listen(listen::ListenArgs),
    Subscribe(client::SubscribeArgs),
    Unsubscribe(client::UnsubscribeArgs),
    Subscribers(client::SubscribersArgs),
    Graph(graph::GraphArgs),
    Key(key::KeyArgs),
    Postgres(postgres::PostgresArgs),
    Token(token::TokenArgs),
    Flood(flood::FloodArgs),
    Spam(spam::SpamArgs),
    Tune(tune::TuneArgs),
    Watch(watch::WatchArgs),
    Plot(plot::PlotArgs),
    Cluster(nodes::NodesArgs),
    Ketama(ketama::KetamaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// What is wrong with options that are each right by themselves.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    console::start_logging(cli.common.log_level.into());
    let done = match cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Serve(args) => serve::run(*args),
        Command::Send(args) => client::send(args),
        Command::Listen(args) => listen::run(args),
        Command::Subscribe(args) => client::subscribe(args),
        Command::Unsubscribe(args) => client::unsubscribe(args),
        Command::Subscribers(args) => client::subscribers(args),
        Command::Graph(args) => graph::run(args),
        Command::Key(args) => key::run(args),
        Command::Postgres(args) => postgres::run(args),
        Command::Token(args) => token::run(args),
        Command::Flood(args) => flood::run(args),
        Command::Spam(args) => spam::run(args),
        Command::Tune(args) => match tune::run(args) {
            // The report says it, and what to do.
            Ok(false) => return ExitCode::FAILURE,
            done => done.map(drop),
        },
        Command::Watch(args) => watch::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Cluster(args) => nodes::run(args),
        Command::Ketama(args) => ketama::run(args),
        Command::Completions(args) => completions::run(args, Cli::command()),
        Command::Man(args) => man::run(args, config::with_environment(Cli::command())),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if matches!(error.downcast_ref(), Some(OutputError::Closed)) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            console::tell(format!("encke: {error:#}"));
            let of_list = error.downcast_ref().is_some_and(ServerListError::is_usage);
            let is_usage = of_list || error.is::<UsageError>();
            if is_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// Reads the command line, twice when it names a file: once to learn its name and the command, and
/// once more with what the file says.
fn parse() -> Result<Cli> {
    let command = config::with_environment(Cli::command());
    let matches = command.clone().try_get_matches()?;
    let matches = match matches.get_one::<PathBuf>("config") {
        None => matches,
        Some(path) => {
            let mut command = command;
            // Builds the full names of subcommands, for messages.
            command.build();
            config::with_file(command, path, &config::words(&matches))?.try_get_matches()?
        }
    };
    Ok(read(&matches)?)
}

fn read(matches: &ArgMatches) -> Result<Cli, clap::Error> {
    Cli::from_arg_matches(matches)
}

/// Tells what is wrong with the command line, or what was asked for with `--help`.
fn usage(error: &anyhow::Error) -> ExitCode {
    if let Some(error) = error.downcast_ref::<clap::Error>() {
        // Fails only when nobody reads it.
        let _ = error.print();
        let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
        return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    console::tell(format!("encke: {error:#}"));
    // A file that is not there is a failure; one that says something wrong is wrong usage.
    match error.downcast_ref() {
        Some(ConfigError::Read { .. }) => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_well_formed() {
        config::with_environment(Cli::command()).debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            if command.get_name() != "help" {
                let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(after.contains("Examples:"), "{}", command.get_name());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
