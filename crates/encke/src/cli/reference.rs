//! `docs/options.md`, the reference of all options, made of the same declaration as `--help`.
//!
//! A test compares the page with the options; `ENCKE_WRITE_REFERENCE=1 cargo test -p encke
//! reference` writes it anew.

use std::fmt::Write;
use std::path::Path;

use clap::{Arg, ArgAction, Command};

use super::program;

/// What stands at the begin of the page.
const HEAD: &str = "\
# Options

This page is for you if you look for an option of `encke`. It lists every option of every command,
with its unit and its default. It is made of the text of `--help`.

Each option can also stand in the environment, and in a file of
[settings](operations.md#settings). In the environment, `--max-backlog` of `encke serve` is
`ENCKE_MAX_BACKLOG`. In a file it is `max-backlog`, in the table `[serve]`. The command line wins,
then the environment, then the file. `encke config print` tells which value holds.
";

/// The options of all commands; those of every command stand first.
const COMMON: &str = "Common options";

fn page(program: &mut Command) -> String {
    program.build();
    let mut out = String::from(HEAD);
    let is_common = |arg: &&Arg| arg.get_help_heading() == Some(COMMON);
    table(&mut out, COMMON, 2, program.get_arguments().filter(is_common));
    let mut commands = Vec::new();
    gather(program, "encke", &mut commands);
    // The one that is looked up most.
    commands.sort_by_key(|(name, _)| name != "encke serve");
    for (name, command) in commands {
        let mut headings: Vec<&str> = vec!["Options"];
        for heading in command.get_arguments().filter_map(Arg::get_help_heading) {
            if heading != COMMON && !headings.contains(&heading) {
                headings.push(heading);
            }
        }
        let about = command.get_about().map(|about| about.to_string()).unwrap_or_default();
        let _ = write!(out, "\n## `{name}`\n\n{}.\n", about.trim_end_matches('.'));
        for heading in headings {
            let of = |arg: &&Arg| arg.get_help_heading().unwrap_or("Options") == heading;
            table(&mut out, heading, 3, command.get_arguments().filter(of));
        }
    }
    out
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

fn table<'a>(out: &mut String, heading: &str, level: usize, args: impl Iterator<Item = &'a Arg>) {
    let is_shown =
        |arg: &&Arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str());
    let rows: Vec<String> = args.filter(is_shown).map(row).collect();
    if !rows.is_empty() {
        let _ = write!(out, "\n{} {heading}\n\n", "#".repeat(level));
        out.push_str("| option | does | default |\n| --- | --- | --- |\n");
        out.push_str(&rows.concat());
    }
}

fn row(arg: &Arg) -> String {
    let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values: Vec<&str> =
        arg.get_value_names().into_iter().flatten().map(|name| name.as_str()).collect();
    let name = match (arg.get_long(), takes_value) {
        (Some(long), true) => format!("--{long} {}", values.join(" ")),
        (Some(long), false) => format!("--{long}"),
        (None, _) => values.join(" "),
    };
    let help = arg.get_long_help().or(arg.get_help()).map(|help| help.to_string());
    let help = help.unwrap_or_default().replace('\n', " ").replace('|', "\\|").replace('*', "\\*");
    let defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let default = if takes_value { defaults.join(", ") } else { String::new() };
    format!("| `{name}` | {help} | {default} |\n")
}

#[test]
fn page_of_options_is_what_the_options_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/options.md");
    let page = page(&mut program());
    if std::env::var_os("ENCKE_WRITE_REFERENCE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/options.md is not what the options are: \
         ENCKE_WRITE_REFERENCE=1 cargo test -p encke reference"
    );
}
