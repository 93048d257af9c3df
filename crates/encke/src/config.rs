//! Where options come from: the command line, then the environment, then a file, then the default.
//!
//! Each long option of each command, say `--max-backlog`, is also the environment variable
//! `ENCKE_MAX_BACKLOG`, and a key `max-backlog` (or `max_backlog`) of the TOML file. A key at the
//! top of the file belongs to the command that is run; a key in a table belongs to the command of
//! that name, so one file can hold the options of all of them:
//!
//! ```toml
//! [serve]
//! listen = "0.0.0.0:8000"
//! allow-origin = ["https://example.org"]
//!
//! [flood]
//! users = 10000
//! ```
//!
//! It works on clap's own description of the commands: what the file says becomes the default of an
//! option, so types, errors and precedence are those of the command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::{ArgAction, FalseyValueParser};
use clap::{Arg, ArgMatches, Command};
use thiserror::Error;
use toml::{Table, Value};

/// Why a file of settings cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    #[error("cannot read {}: {error}; check the path that --config gives", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("{} is not TOML: {error}", path.display())]
    Syntax { path: PathBuf, error: Box<toml::de::Error> },
    #[error(
        "unknown key `{key}` in {}: `{command}` has no option --{key}; see `{command} --help`",
        path.display()
    )]
    UnknownKey { path: PathBuf, key: String, command: String },
    #[error(
        "the key `{key}` in {} must be a string, a number, true or false, or a list of these",
        path.display()
    )]
    Type { path: PathBuf, key: String },
}

/// Gives every long option of `command` and of its subcommands its environment variable, but for
/// those that hide it.
pub(crate) fn with_environment(command: Command) -> Command {
    let with_variable = |arg: Arg| {
        let from_environment = takes_settings(&arg) && !arg.is_hide_env_set();
        let Some(long) = arg.get_long().filter(|_| from_environment) else { return arg };
        let variable = format!("ENCKE_{}", long.replace('-', "_").to_uppercase());
        let arg = arg.env(variable).hide_env_values(true);
        match arg.get_action() {
            // `ENCKE_JSON=1` as well as `true`; 0, no, off and nothing are false.
            ArgAction::SetTrue => arg.value_parser(FalseyValueParser::new()),
            _ => arg,
        }
    };
    command.mut_args(with_variable).mut_subcommands(with_environment)
}

/// Makes what the file at `path` says the defaults of `command`, whose leaf `words` is run.
pub(crate) fn with_file(
    mut command: Command,
    path: &Path,
    words: &[&str],
) -> Result<Command, ConfigError> {
    let read = |error| ConfigError::Read { path: path.to_owned(), error };
    let text = fs::read_to_string(path).map_err(read)?;
    let syntax = |error| ConfigError::Syntax { path: path.to_owned(), error: Box::new(error) };
    let table: Table = text.parse().map_err(syntax)?;
    // Tables last: what stands in one is meant more closely than what stands above all.
    for (key, value) in table.iter().filter(|(_, value)| !value.is_table()) {
        let name = key.replace('_', "-");
        let global = has_option(&command, &name);
        let target = if global { &mut command } else { leaf(&mut command, words) };
        set(target, path, key, value)?;
    }
    set_tables(&mut command, path, &table)?;
    Ok(command)
}

/// The words that name the command which `matches` is about.
pub(crate) fn words(matches: &ArgMatches) -> Vec<&str> {
    let levels = std::iter::successors(matches.subcommand(), |(_, matches)| matches.subcommand());
    levels.map(|(word, _)| word).collect()
}

fn set_tables(command: &mut Command, path: &Path, table: &Table) -> Result<(), ConfigError> {
    for (key, value) in table {
        let Value::Table(table) = value else { continue };
        if command.find_subcommand(key).is_none() {
            return Err(unknown_key(command, path, key));
        }
        let command = command.find_subcommand_mut(key).expect("it was found before");
        for (key, value) in table.iter().filter(|(_, value)| !value.is_table()) {
            set(command, path, key, value)?;
        }
        set_tables(command, path, table)?;
    }
    Ok(())
}

fn leaf<'c>(command: &'c mut Command, words: &[&str]) -> &'c mut Command {
    words.iter().fold(command, |command, word| {
        command.find_subcommand_mut(word).expect("the words come from a parse of this command")
    })
}

fn set(command: &mut Command, path: &Path, key: &str, value: &Value) -> Result<(), ConfigError> {
    let name = key.replace('_', "-");
    if !has_option(command, &name) {
        return Err(unknown_key(command, path, key));
    }
    let wrong_type = || ConfigError::Type { path: path.to_owned(), key: key.to_owned() };
    let values = match value {
        Value::Array(values) => values.iter().map(scalar).collect(),
        value => scalar(value).map(|value| vec![value]),
    };
    let values = values.ok_or_else(wrong_type)?;
    *command = std::mem::take(command).mut_args(|arg| {
        if arg.get_long() == Some(&name) { arg.default_values(values.clone()) } else { arg }
    });
    Ok(())
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Boolean(flag) => Some(flag.to_string()),
        Value::Datetime(_) | Value::Array(_) | Value::Table(_) => None,
    }
}

fn has_option(command: &Command, name: &str) -> bool {
    let named = |arg: &&Arg| arg.get_long() == Some(name) && takes_settings(arg);
    name != "config" && command.get_arguments().any(|arg| named(&arg))
}

/// Not `--help` and `--version`.
fn takes_settings(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Set | ArgAction::SetTrue | ArgAction::Append)
}

fn unknown_key(command: &Command, path: &Path, key: &str) -> ConfigError {
    let command = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    ConfigError::UnknownKey { path: path.to_owned(), key: key.to_owned(), command }
}

#[cfg(test)]
mod tests;
