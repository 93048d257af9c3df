//! The command line: which commands there are, where their options come from, and what they exit
//! with: 0 done, 1 failed, 2 wrong usage.
//!
//! Each command has a file of its own: its options, its help, and what it does.

mod address_limits;
mod client;
mod client_sends;
mod cluster;
mod completions;
mod conclude;
mod config;
mod connections;
mod demo;
mod erlang;
mod events;
mod flood;
mod graph;
mod keep;
mod ketama;
mod key;
mod listen;
mod log;
mod man;
mod mercure;
mod names;
mod nodes;
mod otlp;
mod plot;
mod postgres;
mod presence;
mod pusher;
mod ready;
#[cfg(test)]
mod reference;
mod remember;
mod send;
mod serve;
mod signer;
mod spam;
mod streams;
mod subscriptions;
mod ticker;
mod token;
mod token_rules;
mod tokens;
mod tune;
mod upgrade;
mod watch;
mod work;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use thiserror::Error;
use tracing::level_filters::LevelFilter;

use crate::console::{self, LogFormat, OutputError};
use crate::ketama::ServerListError;
use crate::settings::{self, Environment, Settings, SettingsError};

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

Options may also stand in the environment, with the name of their command (`flood --users` is
ENCKE_FLOOD_USERS; those of `serve` also go without, ENCKE_MAX_BACKLOG), and in a TOML file
(--config), there with the name of their command as table. The command line wins, then the
environment, then the file; `encke config print` tells what holds, and why.
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
    /// Log lines for people, or objects of JSON, one a line.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Common options")]
    #[arg(value_enum, default_value = "text")]
    log_format: LogFormat,
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
    Send(send::SendArgs),
    Listen(listen::ListenArgs),
    Subscribe(subscriptions::SubscribeArgs),
    Unsubscribe(subscriptions::UnsubscribeArgs),
    Subscribers(subscriptions::SubscribersArgs),
    Subscriptions(subscriptions::SubscriptionsArgs),
    Events(events::EventsArgs),
    Connections(connections::ConnectionsArgs),
    Members(connections::MembersArgs),
    Logout(connections::LogoutArgs),
    Ready(ready::ReadyArgs),
    Graph(graph::GraphArgs),
    Log(log::LogArgs),
    Key(key::KeyArgs),
    Postgres(postgres::PostgresArgs),
    Pusher(pusher::PusherCommandArgs),
    Token(token::TokenCommandArgs),
    Flood(flood::FloodArgs),
    Spam(spam::SpamArgs),
    Tune(tune::TuneArgs),
    Upgrade(upgrade::UpgradeArgs),
    Watch(watch::WatchArgs),
    Plot(plot::PlotArgs),
    Cluster(nodes::NodesArgs),
    Ketama(ketama::KetamaArgs),
    Config(config::ConfigArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

/// What is wrong with options that are each right by themselves.
#[derive(Debug, Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// All commands and options.
pub(crate) fn program() -> clap::Command {
    Cli::command()
}

/// Runs the program.
pub(crate) fn run() -> ExitCode {
    let environment = Environment::of_process();
    let (cli, settings) = match parse(&environment) {
        Ok(parsed) => parsed,
        Err(error) => return usage(&error),
    };
    console::start_logging(cli.common.log_level.into(), cli.common.log_format);
    for warning in environment.unknown(&program()).iter().chain(&settings.old_names) {
        tracing::warn!("{warning}");
    }
    let done = match cli.command {
        Command::Demo(args) => demo::run(args),
        Command::Serve(args) => serve::run(*args, &settings),
        Command::Send(args) => send::run(args),
        Command::Listen(args) => listen::run(args),
        Command::Subscribe(args) => subscriptions::subscribe(args),
        Command::Unsubscribe(args) => subscriptions::unsubscribe(args),
        Command::Subscribers(args) => subscriptions::subscribers(args),
        Command::Subscriptions(args) => subscriptions::subscriptions(args),
        Command::Events(args) => events::run(args),
        Command::Connections(args) => connections::connections(args),
        Command::Members(args) => connections::members(args),
        Command::Logout(args) => connections::logout(args),
        Command::Ready(args) => ready::run(args),
        Command::Graph(args) => graph::run(args),
        Command::Log(args) => log::run(args),
        Command::Key(args) => key::run(args),
        Command::Postgres(args) => postgres::run(args),
        Command::Pusher(args) => pusher::run(args),
        Command::Token(args) => token::run(args),
        Command::Flood(args) => flood::run(args),
        Command::Spam(args) => spam::run(args),
        Command::Tune(args) => match tune::run(args) {
            // The report says it, and what to do.
            Ok(false) => return ExitCode::FAILURE,
            done => done.map(drop),
        },
        Command::Upgrade(args) => upgrade::run(args, cli.common.config.as_deref()),
        Command::Watch(args) => watch::run(args),
        Command::Plot(args) => plot::run(args),
        Command::Cluster(args) => nodes::run(args),
        Command::Ketama(args) => ketama::run(args),
        Command::Config(args) => match config::run(args, cli.common.config) {
            // The report says it.
            Ok(false) => return ExitCode::FAILURE,
            done => done.map(drop),
        },
        Command::Completions(args) => completions::run(args, program()),
        Command::Man(args) => {
            man::run(args, settings::with_variables(program(), &Environment::default()))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if matches!(error.downcast_ref(), Some(OutputError::Closed)) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            if let Some(settings) = error.downcast_ref::<SettingsError>() {
                return usage(settings);
            }
            console::complain(&console::told(&error));
            let of_list = error.downcast_ref().is_some_and(ServerListError::is_usage);
            let is_usage = of_list || error.is::<UsageError>();
            if is_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// What the port program of libketama is called. Under this name ours takes the same argument.
const KETAMA_PROGRAM: &str = "ketama_erlang_driver";

/// Reads the command line, the environment and the file of settings: the options, and where each
/// comes from.
fn parse(environment: &Environment) -> Result<(Cli, Settings), SettingsError> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if args.first().is_some_and(|name| Path::new(name).file_name() == Some(KETAMA_PROGRAM.as_ref()))
    {
        args.insert(1, "ketama".into());
    }
    let settings = settings::read(&program(), &args, environment)?;
    Ok((Cli::from_arg_matches(&settings.matches)?, settings))
}

/// The options of a server that runs, read again: all may differ that stand in the file.
fn parse_serve() -> Result<(Box<serve::ServeArgs>, LogLevel, Settings)> {
    let (cli, settings) = parse(&Environment::of_process())?;
    let Command::Serve(args) = cli.command else {
        unreachable!("the command line of a process stays, and no file names a command")
    };
    Ok((args, cli.common.log_level, settings))
}

/// Tells why there are no options to go by, or what was asked for with `--help`.
fn usage(error: &SettingsError) -> ExitCode {
    match error {
        SettingsError::CommandLine(error) => {
            // Fails only when nobody reads it.
            let _ = error.print();
            let asked = [ErrorKind::DisplayHelp, ErrorKind::DisplayVersion];
            return if asked.contains(&error.kind()) { ExitCode::SUCCESS } else { 2.into() };
        }
        error => console::complain(&error.to_string()),
    }
    // A file that is not there is a failure; one that says something wrong is wrong usage.
    match error {
        SettingsError::Read { .. } => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_well_formed() {
        settings::with_variables(program(), &Environment::default()).debug_assert();
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

    /// What `-h` shows of an option is one line; the rest comes with `--help`.
    #[test]
    fn every_option_says_in_one_line_what_it_does() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let at = format!("{} {}: {help}", command.get_name(), arg.get_id());
                assert!(help.starts_with(|c: char| c.is_uppercase() || c.is_numeric()), "{at}");
                assert!(!help.contains('\n') && help.len() <= 200, "{at}");
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    /// A value that an option does not take: the message names both, and says what it takes. What
    /// the library says of numbers and addresses is for programmers.
    #[test]
    fn every_option_says_which_values_it_takes() {
        const CURES: [&str; 5] =
            ["write ", "possible values", "must not", "a scope is ", "none was supplied"];
        const FOR_PROGRAMMERS: [&str; 5] =
            ["invalid ", "target type", " is not in ", "Error", "syntax"];
        fn check(command: &clap::Command) {
            let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
            for option in shown.filter_map(clap::Arg::get_long) {
                for value in ["no such value", "-7", "99999999999999999999", ""] {
                    let args = [command.get_name().to_owned(), format!("--{option}={value}")];
                    let Err(error) = command.clone().try_get_matches_from(args) else { continue };
                    if !matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation)
                    {
                        continue;
                    }
                    let told = error.to_string();
                    let names = told.contains(&format!("--{option}")) && told.contains(value);
                    assert!(names, "{told}");
                    let told = told.trim_start_matches("error: invalid value");
                    assert!(CURES.iter().any(|cure| told.contains(cure)), "{told}");
                    assert!(!FOR_PROGRAMMERS.iter().any(|word| told.contains(word)), "{told}");
                }
            }
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }

    #[test]
    fn options_of_the_server_stand_in_groups() {
        let cli = Cli::command();
        let serve = cli.find_subcommand("serve").expect("there is a server");
        let loose = serve.get_arguments().filter(|arg| arg.get_help_heading().is_none());
        let loose: Vec<&str> = loose.map(|arg| arg.get_id().as_str()).collect();
        assert_eq!(loose, [""; 0]);
    }
}
