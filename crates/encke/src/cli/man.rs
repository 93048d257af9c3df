//! `encke man`: pages for `man`, one for each command, made of the same declaration as `--help`.
//!
//! They say the same whenever they are made: no date, nothing of the machine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::console::say;

/// Writes the pages for `man`, encke.1 and one for each command, into a directory.
///
/// The packages bring these pages along: `man encke`, `man encke-serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke man ./man && man -l ./man/encke-serve.1
  encke man ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The directory, which is made if it is not there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Writes the pages of `command`, which is the whole program.
pub(crate) fn run(args: ManArgs, command: Command) -> Result<()> {
    let directory = &args.directory;
    let failed = || {
        format!("cannot write pages into {}; check its path, owner and mode", directory.display())
    };
    fs::create_dir_all(directory).with_context(failed)?;
    let mut command = command.disable_help_subcommand(true);
    // Gives each command its whole name, and the options of all.
    command.build();
    let pages = write_pages(&command, None, directory).with_context(failed)?;
    Ok(say(format!("{pages} pages in {}", directory.display()))?)
}

/// Writes the page of `command` and those of its own commands; tells how many these are.
fn write_pages(command: &Command, parent: Option<&str>, directory: &Path) -> io::Result<u32> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let (page, mut pages) = (page(command, parent)?, 1);
    fs::write(directory.join(format!("{name}.1")), page)?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        pages += write_pages(command, Some(name), directory)?;
    }
    Ok(pages)
}

/// The page of `command` as man(7) wants it.
fn page(command: &Command, parent: Option<&str>) -> io::Result<Vec<u8>> {
    let version = command.get_version().unwrap_or_default();
    let man = Man::new(command.clone()).source(format!("Encke {version}")).manual("Encke");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    let has_commands = command.get_subcommands().any(|command| !command.is_hide_set());
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    render_examples_and_notes(&mut rest, command);
    rest.control("SH", ["EXIT STATUS"]);
    rest.text([roman("0 done, 1 failed, 2 wrong usage.")]);
    if let Some(parent) = parent {
        rest.control("SH", ["SEE ALSO"]);
        rest.text([roman(format!("{parent}(1)"))]);
    }
    rest.to_writer(&mut page)?;
    Ok(page)
}

/// What stands below the options in `--help`: examples line by line, and paragraphs.
fn render_examples_and_notes(roff: &mut Roff, command: &Command) {
    let below = command.get_after_long_help().or(command.get_after_help());
    let below = below.map(ToString::to_string).unwrap_or_default();
    for paragraph in below.split("\n\n") {
        match paragraph.strip_prefix("Examples:\n") {
            Some(examples) => {
                roff.control("SH", ["EXAMPLES"]);
                roff.control("nf", []);
                for line in examples.lines() {
                    roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
                }
                roff.control("fi", []);
            }
            // It has a section of its own.
            None if paragraph.is_empty() || paragraph.starts_with("Exit codes:") => {}
            None => {
                roff.control("SH", ["NOTES"]);
                for line in paragraph.lines() {
                    roff.text([roman(line)]);
                }
            }
        }
    }
}
