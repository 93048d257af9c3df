//! Where options come from: the command line, then the environment, then a file, then the default.
//!
//! It works on clap's own description of the commands. What the environment and the file say
//! becomes part of that, so types, errors and precedence are those of the command line. The command
//! line is read once for each source, with one more each time, so that a value which is wrong is
//! told as that source's.

mod environment;
mod file;
mod renamed;

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::builder::{ArgAction, Resettable};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use thiserror::Error;

use crate::client::GivenToken;
pub(crate) use environment::{Environment, with_variables};
pub(crate) use file::{Fault, SettingsFile};
use proto::ApiKey;
pub(crate) use renamed::warnings_of_file;
use server::{TraceHeaders, WebhookUrl};

/// Why there are no options to go by.
#[derive(Debug, Error)]
pub(crate) enum SettingsError {
    /// What is wrong with the command line, or what was asked for with `--help`.
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    #[error("{variable} in the environment: {text}")]
    Environment { variable: String, text: String },
    #[error("cannot read {}: {error}; check the path that --config gives", path.display())]
    Read { path: PathBuf, error: std::io::Error },
    /// Its own text would show the line, in which a key may stand.
    #[error("{} is not TOML, {fault}", path.display())]
    Syntax { path: PathBuf, fault: Fault },
    #[error("{}, {fault}", path.display())]
    File { path: PathBuf, fault: Fault },
}

/// Where the value of an option comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    CommandLine,
    Environment { variable: String },
    File { path: PathBuf, line: usize },
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::CommandLine => f.write_str("command line"),
            Source::Environment { variable } => f.write_str(variable),
            Source::File { path, line } => write!(f, "{}, line {line}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

/// The options of one run of one command.
pub(crate) struct Settings {
    pub(crate) matches: ArgMatches,
    /// The whole program, with what the environment and the file say.
    command: Command,
    file: Option<SettingsFile>,
    /// What is to be said of old names among them: one sentence each.
    pub(crate) old_names: Vec<String>,
}

/// Reads `args`, with the program's name first, as a command line of `program`, with what the
/// environment and the file that `--config` names say besides.
pub(crate) fn read(
    program: &Command,
    args: &[OsString],
    environment: &Environment,
) -> Result<Settings, SettingsError> {
    let mut command = with_variables(program.clone(), environment);
    // Which command is run, and with which file. What is wrong otherwise is told below.
    let first = command.clone().ignore_errors(true).try_get_matches_from(args)?;
    let words = words(&first);
    match program.clone().try_get_matches_from(args) {
        // The environment or the file may give what is missing.
        Err(error) if !may_be_mended(&error) => return Err(of_line(error, program, &words)),
        _ => {}
    }
    if let Err(error) = command.clone().try_get_matches_from(args)
        && let Some(arg) = arg_of(&command, &words, &error)
        && let Some(variable) = arg.get_env()
    {
        let variable = variable.to_string_lossy().into_owned();
        return Err(SettingsError::Environment { variable, text: text_of(&error, arg) });
    }
    // One command looks into files itself: keys at the top of them are another's.
    let path = first.get_one::<PathBuf>("config").filter(|_| words.first() != Some(&"config"));
    let file = path.map(|path| SettingsFile::read(path)).transpose()?;
    if let Some(file) = &file {
        file.apply(&mut command, &words)?;
    }
    let mut parsed = command.clone().try_get_matches_from(args);
    if let (Err(error), Some(file)) = (&parsed, &file)
        && file.gives_what_is_missing(&command, &words, error)
    {
        // What the file says is a default, and a default gives nothing that others require.
        let free = |arg: Arg| arg.requires(Resettable::Reset);
        command = mut_leaf(command, &words, |leaf| leaf.mut_args(free));
        parsed = command.clone().try_get_matches_from(args);
    }
    match parsed {
        Ok(matches) => {
            let old_names = renamed::warnings(&command, &words, args, environment, file.as_ref());
            Ok(Settings { matches, command, file, old_names })
        }
        Err(error) => Err(match (&file, arg_of(&command, &words, &error)) {
            (Some(file), Some(arg)) => file.error(&words, arg, &error),
            _ => of_line(error, &command, &words),
        }),
    }
}

/// What is wrong with the command line, without a secret that may stand in it: what a terminal
/// shows is copied into logs and questions.
fn of_line(error: clap::Error, command: &Command, words: &[&str]) -> SettingsError {
    let Some(arg) = arg_of(command, words, &error) else { return error.into() };
    match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value))
            if !value.is_empty() && (is_secret(arg) || has_password(arg, value)) =>
        {
            let text = text_of(&error, arg) + "\n\nFor more information, try '--help'.\n";
            clap::Error::raw(error.kind(), text).into()
        }
        _ => error.into(),
    }
}

/// One option as a command goes by it.
pub(crate) struct Setting<'a> {
    pub(crate) arg: &'a Arg,
    /// None where it is not given and has no default.
    pub(crate) values: Option<Vec<String>>,
    pub(crate) source: Source,
}

impl Setting<'_> {
    pub(crate) fn name(&self) -> &str {
        self.arg.get_long().unwrap_or_default()
    }

    /// Whether it is none that others may see.
    pub(crate) fn is_secret(&self) -> bool {
        is_secret(self.arg)
            || self.values.iter().flatten().any(|value| has_password(self.arg, value))
    }
}

impl Settings {
    /// The words that name the command which is run.
    pub(crate) fn words(&self) -> Vec<&str> {
        words(&self.matches)
    }

    /// The file that was read.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// The options of the command which is run, those of all commands first. `--config` itself is
    /// none of them.
    pub(crate) fn list(&self) -> Vec<Setting<'_>> {
        let words = self.words();
        let mut matches = &self.matches;
        while let Some((_, inner)) = matches.subcommand() {
            matches = inner;
        }
        let leaf = leaf(&self.command, &words).get_arguments();
        let args = self.command.get_arguments().chain(leaf.filter(|arg| !arg.is_global_set()));
        let shown = args.filter(|arg| is_setting(arg) && !arg.is_hide_set());
        shown.map(|arg| self.setting(&words, arg, matches)).collect()
    }

    fn setting<'a>(&'a self, words: &[&str], arg: &'a Arg, matches: &ArgMatches) -> Setting<'a> {
        let id = arg.get_id().as_str();
        let values =
            match arg.get_action() {
                ArgAction::SetTrue => Some(vec![matches.get_flag(id).to_string()]),
                _ => matches.try_get_raw(id).ok().flatten().map(|values| {
                    values.map(|value| value.to_string_lossy().into_owned()).collect()
                }),
            };
        let line = || self.file.as_ref()?.line(words, arg);
        let source = match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Source::CommandLine,
            Some(ValueSource::EnvVariable) => Source::Environment {
                variable: arg.get_env().unwrap_or_default().to_string_lossy().into_owned(),
            },
            _ => match (line(), self.path()) {
                (Some(line), Some(path)) => Source::File { path: path.to_owned(), line },
                _ => Source::Default,
            },
        };
        Setting { arg, values, source }
    }
}

/// The words that name the command which `matches` is about.
fn words(matches: &ArgMatches) -> Vec<&str> {
    let levels = std::iter::successors(matches.subcommand(), |(_, matches)| matches.subcommand());
    levels.map(|(word, _)| word).collect()
}

/// The command that `words` name.
fn leaf<'c>(command: &'c Command, words: &[&str]) -> &'c Command {
    words.iter().fold(command, |command, word| {
        command.find_subcommand(word).expect("the words come from a parse of this command")
    })
}

/// Whether what is wrong may be that something stands elsewhere.
fn may_be_mended(error: &clap::Error) -> bool {
    matches!(error.kind(), ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict)
}

/// The option whose value is wrong, if it is that.
fn arg_of<'c>(command: &'c Command, words: &[&str], error: &clap::Error) -> Option<&'c Arg> {
    let of_values = [ErrorKind::InvalidValue, ErrorKind::ValueValidation, ErrorKind::InvalidUtf8];
    if !of_values.contains(&error.kind()) {
        return None;
    }
    let Some(ContextValue::String(shown)) = error.get(ContextKind::InvalidArg) else { return None };
    arg_shown(command, words, shown)
}

/// The option that clap shows as `--max-backlog <BYTES>`.
fn arg_shown<'c>(command: &'c Command, words: &[&str], shown: &str) -> Option<&'c Arg> {
    let name = shown.strip_prefix("--")?.split([' ', '=']).next()?;
    let mut args = leaf(command, words).get_arguments().chain(command.get_arguments());
    args.find(|arg| arg.get_long() == Some(name))
}

/// The command, with `change` made to the one that `words` name.
fn mut_leaf(command: Command, words: &[&str], change: impl FnOnce(Command) -> Command) -> Command {
    match words {
        [] => change(command),
        [word, rest @ ..] => command.mut_subcommand(*word, |inner| mut_leaf(inner, rest, change)),
    }
}

/// What clap says of a value, without what surrounds it, and without a secret.
fn text_of(error: &clap::Error, arg: &Arg) -> String {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let text = text.split("\n\nFor more information").next().unwrap_or_default().trim_end();
    match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(value))
            if !value.is_empty() && (is_secret(arg) || has_password(arg, value)) =>
        {
            text.replace(value.as_str(), "…")
        }
        _ => text.to_owned(),
    }
}

/// Whether it may stand in the environment and in a file: all but `--help` and `--version`.
fn is_setting(arg: &Arg) -> bool {
    let takes = matches!(arg.get_action(), ArgAction::Set | ArgAction::SetTrue | ArgAction::Append);
    takes && arg.get_long().is_some_and(|long| long != "config")
}

/// What an option was called before.
fn old_names(arg: &Arg) -> Vec<&str> {
    let visible = arg.get_visible_aliases().unwrap_or_default();
    let all = arg.get_all_aliases().unwrap_or_default();
    all.into_iter().filter(|name| !visible.contains(name)).collect()
}

/// Whether `name` is what the option is called, or was called before.
fn is_called(arg: &Arg, name: &str) -> bool {
    arg.get_long() == Some(name) || old_names(arg).contains(&name)
}

/// The option, whose flag is given by a word: `ENCKE_JSON=1`, `json = true`.
fn with_words(arg: Arg) -> Arg {
    match arg.get_action() {
        ArgAction::SetTrue => arg.value_parser(parse_flag),
        _ => arg,
    }
}

fn parse_flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "" | "0" | "false" | "no" | "off" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

/// Keys, tokens and what a collector is shown have types of their own, whose text is nowhere shown.
fn is_secret(arg: &Arg) -> bool {
    use std::any::TypeId;
    let secrets = [
        TypeId::of::<ApiKey>(),
        TypeId::of::<GivenToken>(),
        TypeId::of::<TraceHeaders>(),
        TypeId::of::<WebhookUrl>(),
    ];
    secrets.iter().any(|secret| arg.get_value_parser().type_id() == *secret)
}

/// What the names of a URL's parameters have in them whose values are secret.
const SECRET_PARAMETERS: [&str; 6] = ["pass", "secret", "token", "key", "credential", "sig"];

/// Whether a URL, or words as libpq takes them, may have a secret in them. NATS takes a URL without
/// its scheme, too, and a token where others have a user; and its reader, as PostgreSQL's, finds a
/// password before an `@` wherever that stands.
fn has_password(arg: &Arg, value: &str) -> bool {
    let takes_url = arg.get_value_names().is_some_and(|names| names == ["URL"]);
    let after_scheme = value.split_once("://").map(|(_, rest)| rest);
    let has_user = after_scheme.is_some_and(|rest| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.contains('@')
    });
    let query = value.split_once('?').map_or("", |(_, query)| query);
    let has_parameter =
        query.split('&').filter_map(|parameter| parameter.split_once('=')).any(|(name, _)| {
            SECRET_PARAMETERS.iter().any(|part| name.to_ascii_lowercase().contains(part))
        });
    let mut words = value.split("password").skip(1);
    let has_word = words.any(|rest| rest.trim_start().starts_with('='));
    takes_url && value.contains('@') || has_user || has_parameter || has_word
}

/// The one of `names` that `name` may have been meant to be.
fn closest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let near = |meant: &'n str| (strsim::damerau_levenshtein(name, meant), meant);
    let (distance, meant) = names.map(near).min()?;
    (distance <= 2.max(name.len() / 6)).then_some(meant)
}

#[cfg(test)]
mod tests;
