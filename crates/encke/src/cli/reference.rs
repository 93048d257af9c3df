//! `docs/options.md` and `docs/command-options.md`, the reference of all options, made of the same
//! declaration as `--help`.
//!
//! A test compares the pages with the options; `ENCKE_WRITE_REFERENCE=1 cargo test -p encke
//! reference` writes them anew.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

use super::program;

/// What stands at the begin of the page of the server.
const SERVE_HEAD: &str = "\
# Configuration

This page is for you if you look for an option of `encke serve`. After it you know what the option
does, its unit and its default. The page is made of the text of `--help`. The options of all other
commands are [a page of their own](command-options.md).

Each option can also stand in the environment, and in a file of
[settings](operations.md#settings). In the environment, `--max-backlog` is `ENCKE_MAX_BACKLOG`. In a
file it is `max-backlog`, in the table `[serve]`. The command line wins, then the environment, then
the file. `encke config print` tells which value holds.
";

/// What stands at the begin of the page of the other commands.
const HEAD: &str = "\
# Options of the commands

This page is for you if you look for an option of another command than [`encke serve`](options.md).
After it you know what it does. Options of several [commands](commands.md) stand at the end.
";

/// The command of the first page.
const SERVE: &str = "encke serve";

/// The heading of the options that every command has.
const COMMON: &str = "Common options";

/// Columns of a line.
const LINE_MAX: usize = 100;

/// Those of no other heading.
const OPTIONS: &str = "Options";

/// An option of so many commands stands at one place.
const SHARED_BY: usize = 2;

/// The two pages.
fn pages(program: &mut Command) -> [String; 2] {
    program.build();
    let mut commands = Vec::new();
    gather(program, "encke", &mut commands);
    let mut users: BTreeMap<String, usize> = BTreeMap::new();
    for row in commands.iter().flat_map(|(_, command)| own(command)).filter_map(row) {
        *users.entry(row).or_default() += 1;
    }
    let is_shared = |row: &String| users[row] >= SHARED_BY;
    let [mut serve, mut others] = [SERVE_HEAD, HEAD].map(String::from);
    for (name, command) in &commands {
        let is_serve = name == SERVE;
        let out = if is_serve { &mut serve } else { &mut others };
        if !is_serve {
            let about = command.get_about().map(|about| about.to_string()).unwrap_or_default();
            let about = folded(&format!("{}.", about.trim_end_matches('.')));
            let _ = write!(out, "\n## `{name}`\n\n{about}\n");
        }
        let mut headings: Vec<&str> = Vec::new();
        for heading in own(command).map(heading) {
            if !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        for of in headings {
            let rows = own(command).filter(|arg| heading(arg) == of).filter_map(row);
            let level = if is_serve { 2 } else { 3 };
            table(out, level, of, rows.filter(|row| is_serve || !is_shared(row)));
        }
    }
    let shared = users.keys().filter(|row| is_shared(row)).cloned();
    table(&mut others, 2, "Options that several commands have", shared);
    let is_common = |arg: &&Arg| arg.get_help_heading() == Some(COMMON);
    for out in [&mut serve, &mut others] {
        table(out, 2, COMMON, program.get_arguments().filter(is_common).filter_map(row));
    }
    [serve, others]
}

/// The text in lines of the length that all pages have.
fn folded(text: &str) -> String {
    let mut lines = String::new();
    let mut len = 0;
    for word in text.split_whitespace() {
        let fits = len + 1 + word.len() <= LINE_MAX;
        lines.push_str(match len {
            0 => "",
            _ if fits => " ",
            _ => "\n",
        });
        len = if fits && len > 0 { len + 1 + word.len() } else { word.len() };
        lines.push_str(word);
    }
    lines
}

/// The options that not every command has.
fn own(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| heading(arg) != COMMON)
}

fn heading(arg: &Arg) -> &str {
    arg.get_help_heading().unwrap_or(OPTIONS)
}

/// The commands that do something, with their whole names.
fn gather<'c>(command: &'c Command, name: &str, all: &mut Vec<(String, &'c Command)>) {
    for below in command.get_subcommands() {
        if below.is_hide_set() || below.get_name() == "help" {
            continue;
        }
        let name = format!("{name} {}", below.get_name());
        if below.has_subcommands() {
            gather(below, &name, all);
        } else {
            all.push((name, below));
        }
    }
}

fn table(out: &mut String, level: usize, heading: &str, rows: impl Iterator<Item = String>) {
    let rows: String = rows.collect();
    if !rows.is_empty() {
        if heading != OPTIONS {
            let _ = write!(out, "\n{} {heading}\n", "#".repeat(level));
        }
        out.push_str("\n| option | does | default |\n| --- | --- | --- |\n");
        out.push_str(&rows);
    }
}

/// The row of an option, if it is one that is shown.
fn row(arg: &Arg) -> Option<String> {
    if arg.is_hide_set() || ["help", "version"].contains(&arg.get_id().as_str()) {
        return None;
    }
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values: Vec<&str> =
        arg.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
    let name = match (arg.get_long(), takes_value) {
        (Some(long), true) => format!("--{long} {}", values.join(" ")),
        (Some(long), false) => format!("--{long}"),
        (None, _) => values.join(" "),
    };
    let help = arg.get_long_help().or(arg.get_help()).map(|help| help.to_string());
    let help = help.unwrap_or_default().replace("\n\n", " ").replace('\n', " ");
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let default = if takes_value { defaults.join(", ") } else { String::new() };
    Some(format!("| `{name}` | {} | {default} |\n", escaped(&help)).replace("  |", " |"))
}

/// Text of the help in Markdown: what stands between backticks is code, the rest plain.
fn escaped(help: &str) -> String {
    let part = |(at, part): (usize, &str)| match at % 2 {
        0 => part.replace('|', "\\|").replace('*', "\\*").replace('<', "&lt;"),
        _ => part.replace('|', "\\|"),
    };
    help.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

#[test]
fn pages_of_options_are_what_the_options_are() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let names = ["options.md", "command-options.md"];
    for (name, page) in names.into_iter().zip(pages(&mut program())) {
        let path = docs.join(name);
        if std::env::var_os("ENCKE_WRITE_REFERENCE").is_some() {
            std::fs::write(&path, &page).unwrap();
        }
        let written = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            written == page,
            "docs/{name} is not what the options are: \
             ENCKE_WRITE_REFERENCE=1 cargo test -p encke reference"
        );
    }
}

#[test]
fn page_of_commands_has_a_row_with_each() {
    let rows = include_str!("../../../../docs/commands.md").lines();
    let rows: Vec<&str> = rows.filter(|line| line.starts_with("| `encke ")).collect();
    for command in program().get_subcommands().filter(|command| command.get_name() != "help") {
        let name = format!("`encke {}", command.get_name());
        let is_of = |row: &str| row.split(&name).skip(1).any(|rest| rest.starts_with([' ', '`']));
        let rows: String = rows.iter().copied().filter(|row| is_of(row)).collect();
        assert!(!rows.is_empty(), "docs/commands.md has no row of {name}`");
        for inner in command.get_subcommands().map(Command::get_name) {
            assert!(inner == "help" || rows.contains(inner), "{name}` has no {inner} in {rows}");
        }
    }
}
