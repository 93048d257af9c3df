//! Options in a TOML file.
//!
//! The key of `--max-backlog` is `max-backlog` or `max_backlog`. At the top of the file it belongs
//! to the command that is run. In a table it belongs to the command of that name, so one file can
//! hold the options of all of them:
//!
//! ```toml
//! [serve]
//! listen = "0.0.0.0:8000"
//! allow-origin = ["https://example.org"]
//!
//! [graph.load]
//! both = true
//! ```
//!
//! What it says becomes the default of an option.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{
    SettingsError, arg_of, arg_shown, closest, is_called, is_setting, text_of, with_words,
};

/// What is wrong with one line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// A file of settings, key by key.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    pub(crate) path: PathBuf,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    /// The tables that it stands in.
    tables: Vec<String>,
    key: String,
    value: EntryValue,
    line: usize,
}

#[derive(Debug)]
enum EntryValue {
    Values(Vec<String>),
    Table,
    /// Neither text, number, truth nor a list of these.
    Other,
}

impl SettingsFile {
    /// Reads the file at `path`.
    pub(crate) fn read(path: &Path) -> Result<SettingsFile, SettingsError> {
        let read = |error| SettingsError::Read { path: path.to_owned(), error };
        let text = fs::read_to_string(path).map_err(read)?;
        // What some editors put before it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let syntax = |error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.as_bytes().iter().take(start);
            let line = before.filter(|byte| **byte == b'\n').count() + 1;
            let fault = Fault { line, text: error.message().to_owned() };
            SettingsError::Syntax { path: path.to_owned(), fault }
        };
        let table = DeTable::parse(text).map_err(syntax)?;
        let mut entries = Vec::new();
        collect(table.get_ref(), &[], text, &mut entries);
        // Tables last: what stands in one is meant more closely than what stands above all.
        entries.sort_by_key(|entry| (!entry.tables.is_empty(), entry.line));
        Ok(SettingsFile { path: path.to_owned(), entries })
    }

    /// Makes what it says the defaults of `program`, whose command `words` is run.
    pub(crate) fn apply(&self, program: &mut Command, words: &[&str]) -> Result<(), SettingsError> {
        let faults = |fault| SettingsError::File { path: self.path.clone(), fault };
        self.entries.iter().try_for_each(|entry| set(program, words, entry)).map_err(faults)
    }

    /// All that is wrong with it where keys at its top belong to the command `words`.
    pub(crate) fn check(&self, program: &Command, words: &[&str]) -> Vec<Fault> {
        let faults = self.entries.iter().filter_map(|entry| fault(program, words, entry));
        let mut faults: Vec<Fault> = faults.collect();
        faults.sort_by_key(|fault| fault.line);
        faults
    }

    /// How many keys it has, without tables.
    pub(crate) fn keys(&self) -> usize {
        self.entries.iter().filter(|entry| !matches!(entry.value, EntryValue::Table)).count()
    }

    /// The line that gives `arg` its value where the command `words` is run.
    pub(crate) fn line(&self, words: &[&str], arg: &Arg) -> Option<usize> {
        let names = |entry: &&Entry| is_called(arg, &entry.option());
        let of = |entry: &&Entry| entry.tables.is_empty() || entry.tables == words;
        // The last one counts, as in `apply`.
        self.entries.iter().rev().filter(of).find(names).map(|entry| entry.line)
    }

    /// The options in it: the command of each, its name, and where it stands, in words. At the top
    /// stand those of the command `words`.
    pub(super) fn options<'f>(
        &'f self,
        words: &'f [&'f str],
    ) -> impl Iterator<Item = (Vec<&'f str>, String, String)> {
        self.entries.iter().map(move |entry| {
            let tables = entry.tables.iter().map(String::as_str);
            let command = if entry.tables.is_empty() { words.to_vec() } else { tables.collect() };
            let place = format!("{}, line {}", self.path.display(), entry.line);
            (command, entry.option(), place)
        })
    }

    /// Whether `error` is that options are missing, and this file has them all.
    pub(super) fn gives_what_is_missing(
        &self,
        program: &Command,
        words: &[&str],
        error: &clap::Error,
    ) -> bool {
        let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else {
            return false;
        };
        let given = |shown: &String| self.line(words, arg_shown(program, words, shown)?);
        error.kind() == ErrorKind::MissingRequiredArgument
            && missing.iter().all(|shown| given(shown).is_some())
    }

    /// What clap says of the value that this file gives `arg`.
    pub(super) fn error(&self, words: &[&str], arg: &Arg, error: &clap::Error) -> SettingsError {
        let line = self.line(words, arg).unwrap_or_default();
        let fault = Fault { line, text: text_of(error, arg) };
        SettingsError::File { path: self.path.clone(), fault }
    }
}

impl Entry {
    fn option(&self) -> String {
        self.key.replace('_', "-")
    }

    fn fault(&self, text: String) -> Fault {
        Fault { line: self.line, text }
    }
}

fn collect(table: &DeTable<'_>, tables: &[String], text: &str, into: &mut Vec<Entry>) {
    for (key, value) in table {
        let line = text[..key.span().start].matches('\n').count() + 1;
        let name = key.get_ref().to_string();
        let entry = |value| Entry { tables: tables.to_vec(), key: name.clone(), value, line };
        match value.get_ref() {
            DeValue::Table(table) => {
                into.push(entry(EntryValue::Table));
                collect(table, &[tables, &[name]].concat(), text, into);
            }
            value => {
                into.push(entry(values(value).map_or(EntryValue::Other, EntryValue::Values)));
            }
        }
    }
}

fn values(value: &DeValue<'_>) -> Option<Vec<String>> {
    match value {
        DeValue::Array(values) => values.iter().map(Spanned::get_ref).map(scalar).collect(),
        value => scalar(value).map(|value| vec![value]),
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            Some(i64::from_str_radix(number.as_str(), number.radix()).ok()?.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().parse::<f64>().ok()?.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Makes the values of `entry` the default of its option.
fn set(program: &mut Command, words: &[&str], entry: &Entry) -> Result<(), Fault> {
    let name = entry.option();
    let mut command = &mut *program;
    let mut called = "encke".to_owned();
    let has_each_command = has_option(command, &name);
    let is_of_all = entry.tables.is_empty() && has_each_command;
    let of_run: Vec<String> = words.iter().map(ToString::to_string).collect();
    let path = match (entry.tables.is_empty(), &entry.value) {
        (true, EntryValue::Values(_) | EntryValue::Other) if !is_of_all => &of_run,
        _ => &entry.tables,
    };
    for word in path {
        // A table that is no command's has been told, as a key of the one around it.
        let Some(inner) = command.find_subcommand_mut(word) else { return Ok(()) };
        command = inner;
        called = format!("{called} {word}");
    }
    let values = match &entry.value {
        EntryValue::Table if command.find_subcommand(&entry.key).is_some() => return Ok(()),
        EntryValue::Table => return Err(entry.fault(unknown(command, entry, &called))),
        _ if has_each_command && !is_of_all => {
            return Err(entry.fault(format!(
                "the key `{}` is of all commands: it stands at the top, above every table",
                entry.key
            )));
        }
        _ if !has_option(command, &name) => {
            return Err(entry.fault(unknown(command, entry, &called)));
        }
        EntryValue::Other => {
            return Err(entry.fault(format!(
                "the key `{}` must be a string, a number, true or false, or a list of these",
                entry.key
            )));
        }
        EntryValue::Values(values) if values.len() != 1 && !is_list(command, &name) => {
            return Err(entry.fault(format!("the key `{}` takes one value, no list", entry.key)));
        }
        EntryValue::Values(values) => values,
    };
    *command = std::mem::take(command).mut_args(|arg| match is_called(&arg, &name) {
        true => with_words(arg.default_values(values.clone()).required(false)),
        false => arg,
    });
    Ok(())
}

/// What is wrong with `entry`, alone in a file.
fn fault(program: &Command, words: &[&str], entry: &Entry) -> Option<Fault> {
    let mut program = program.clone();
    if let Err(fault) = set(&mut program, words, entry) {
        return Some(fault);
    }
    let tables: Vec<&str> = entry.tables.iter().map(String::as_str).collect();
    let words = if tables.is_empty() { words } else { &tables };
    let args = ["encke"].iter().chain(words);
    let error = program.clone().try_get_matches_from(args).err()?;
    let arg = arg_of(&program, words, &error)?;
    Some(entry.fault(text_of(&error, arg)))
}

fn has_option(command: &Command, name: &str) -> bool {
    command.get_arguments().any(|arg| is_called(arg, name) && is_setting(arg))
}

fn is_list(command: &Command, name: &str) -> bool {
    let mut args = command.get_arguments();
    args.any(|arg| is_called(arg, name) && matches!(arg.get_action(), ArgAction::Append))
}

fn unknown(command: &Command, entry: &Entry, called: &str) -> String {
    let key = &entry.key;
    if let EntryValue::Table = entry.value {
        return format!(
            "unknown table `{key}`: `{called}` has no command {key}; see `{called} help`"
        );
    }
    let options = command.get_arguments().filter(|arg| is_setting(arg) && !arg.is_hide_set());
    let meant = closest(&entry.option(), options.filter_map(Arg::get_long));
    let meant = meant.map(|meant| format!(" (is {meant} meant?)")).unwrap_or_default();
    let option = entry.option();
    format!(
        "unknown key `{key}`: `{called}` has no option --{option}{meant}; see `{called} --help`"
    )
}
