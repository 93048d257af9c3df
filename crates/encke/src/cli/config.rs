//! `encke config`: what a file of settings says, and what holds for a command.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use clap::builder::Resettable;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::program;
use crate::console::{say, tell};
use crate::settings::{self, Environment, Setting, Settings, SettingsFile, Source};

/// Where the comments of `print` begin, if the value leaves room.
const SOURCE_COLUMN: usize = 40;

/// Checks a file of settings, and tells which settings hold and where they come from.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  encke config check encke.toml
  encke config print --config encke.toml
  encke config print flood")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Check(ConfigCheckArgs),
    Print(PrintArgs),
}

/// Checks a file of settings, each key for its command, and names every line that is wrong.
///
/// Starts nothing, and does not look into the files that it names. An old name of an option is
/// good, and is told with its present one. Exit code 0 when all is good, 1 when something is wrong.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke config check /etc/encke/encke.toml
  encke config check load.toml flood    keys at the top are those of `encke flood`")]
struct ConfigCheckArgs {
    /// The file.
    file: PathBuf,
    /// The command to which keys belong that stand in no table.
    #[arg(value_name = "COMMAND", default_value = "serve")]
    words: Vec<String>,
}

/// Prints the settings that a command would go by, each with where it comes from.
///
/// As TOML, which `--config` takes: what comes from the command line, the environment, the file and
/// from defaults. What is not given, and keys, tokens and passwords, are comments, the latter
/// without their value.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke config print
  encke config print --config /etc/encke/encke.toml
  ENCKE_MAX_BACKLOG=1MiB encke config print serve --listen 0.0.0.0:8000
  encke config print --json graph load")]
struct PrintArgs {
    /// Print one line of JSON.
    #[arg(long)]
    json: bool,
    /// The command, with its options if it is to have some.
    #[arg(value_name = "COMMAND", default_value = "serve")]
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Tells whether all is good. `file` is what `--config` names.
pub(crate) fn run(args: ConfigArgs, file: Option<PathBuf>) -> Result<bool> {
    match args.command {
        ConfigCommand::Check(args) => check(&args),
        ConfigCommand::Print(args) => print(args, file).map(|()| true),
    }
}

fn check(args: &ConfigCheckArgs) -> Result<bool> {
    let path = args.file.display();
    let file = SettingsFile::read(&args.file)?;
    let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
    let mut program = program();
    for word in &words {
        let Some(command) = program.find_subcommand(word) else {
            let text = format!("there is no command `{}`: see `encke help`", words.join(" "));
            return Err(super::UsageError(text).into());
        };
        program = command.clone();
    }
    let faults = file.check(&super::program(), &words);
    for fault in &faults {
        tell(format!("{path}, {fault}"));
    }
    if faults.is_empty() {
        for warning in settings::warnings_of_file(&super::program(), &words, &file) {
            tell(warning);
        }
        let keys = file.keys();
        say(format!("{path} is good: {keys} {}", if keys == 1 { "key" } else { "keys" }))?;
    }
    Ok(faults.is_empty())
}

fn print(args: PrintArgs, file: Option<PathBuf>) -> Result<()> {
    let config = file.map(|file| ["--config".into(), file.into_os_string()]);
    let before = ["encke".into()].into_iter().chain(config.into_iter().flatten());
    let words: Vec<OsString> = before.chain(args.words).collect();
    let settings = settings::read(&lenient(program()), &words, &Environment::of_process())?;
    if args.json {
        return Ok(say(as_json(&settings).to_string())?);
    }
    let name = settings.words().join(".");
    let (of_all, own): (Vec<_>, Vec<_>) =
        settings.list().into_iter().partition(|setting| setting.arg.is_global_set());
    for setting in &of_all {
        say(line(setting))?;
    }
    say(format!("\n[{name}]"))?;
    Ok(own.iter().try_for_each(|setting| say(line(setting)))?)
}

/// The command without what it needs: what it is to do does not matter here.
fn lenient(command: clap::Command) -> clap::Command {
    let command =
        command.mut_args(|arg| arg.required(false).required_unless_present(Resettable::Reset));
    command.mut_subcommands(lenient)
}

fn as_json(settings: &Settings) -> Value {
    let options = settings.list().into_iter().map(|setting| {
        let value = match shown(&setting) {
            Shown::Nothing | Shown::Secret => Value::Null,
            Shown::Values(values) => json!(values),
        };
        let mut option = json!({ "name": setting.name(), "value": value });
        if let Shown::Secret = shown(&setting) {
            option["secret"] = true.into();
        }
        let (source, place) = match &setting.source {
            Source::CommandLine => ("command line", None),
            Source::Environment { variable } => {
                ("environment", Some(("variable", json!(variable))))
            }
            Source::File { line, .. } => ("file", Some(("line", json!(line)))),
            Source::Default => ("default", None),
        };
        option["source"] = source.into();
        if let Some((name, place)) = place {
            option[name] = place;
        }
        option
    });
    let options: Vec<Value> = options.collect();
    json!({ "command": settings.words().join(" "), "file": settings.path(), "options": options })
}

/// What may be seen of a value.
enum Shown {
    Nothing,
    Secret,
    Values(Vec<String>),
}

fn shown(setting: &Setting<'_>) -> Shown {
    match &setting.values {
        None => Shown::Nothing,
        Some(_) if setting.is_secret() => Shown::Secret,
        Some(values) => Shown::Values(values.clone()),
    }
}

/// One line of TOML.
fn line(setting: &Setting<'_>) -> String {
    let name = setting.name();
    let (text, source) = match shown(setting) {
        Shown::Nothing => (format!("# {name} ="), "not given".to_owned()),
        Shown::Secret => (format!("# {name} ="), format!("not shown, {}", setting.source)),
        Shown::Values(values) => {
            let is_list = matches!(setting.arg.get_action(), clap::ArgAction::Append);
            let value = match &values[..] {
                [value] if !is_list => literal(value),
                values => format!(
                    "[{}]",
                    values.iter().map(|v| literal(v)).collect::<Vec<_>>().join(", ")
                ),
            };
            (format!("{name} = {value}"), setting.source.to_string())
        }
    };
    format!("{text:SOURCE_COLUMN$} # {source}")
}

/// A number or a truth as it is, everything else as a string.
fn literal(value: &str) -> String {
    let is_number = value.parse().is_ok_and(|number: i64| number.to_string() == value);
    match is_number || matches!(value, "true" | "false") {
        true => value.to_owned(),
        false => toml::Value::String(value.to_owned()).to_string(),
    }
}
