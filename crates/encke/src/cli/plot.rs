//! `encke plot`: the pictures of a run that `encke watch` wrote.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use figures::numbers::grouped;
use figures::run::{self, Row};
use load::plot::{Panel, RunPlot, Theme};

use super::work::unless_stopped;

/// Draws a run: memory, connections, rates, Erlang, latencies and processor time over time.
///
/// SVG or PNG by the name of the picture. Panels stand one above the other on one axis of time;
/// those of which the file knows nothing are left out. Where the server did not answer, lines
/// break.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke plot run.csv -o run.svg
  encke plot run.csv -o run-dark.svg -o run-dark.png --theme dark
  encke plot run.csv -o memory.png --panel process --panel kernel --title 'One hour'")]
pub(crate) struct PlotArgs {
    /// The file that `encke watch` wrote; - is standard input.
    run: PathBuf,
    /// A picture to make, .svg or .png; may be repeated.
    #[arg(short, long, value_name = "FILE", required = true)]
    output: Vec<PathBuf>,
    /// How it looks.
    #[arg(long, value_enum, default_value_t = ThemeArg::Light)]
    theme: ThemeArg,
    /// What stands above it.
    ///
    /// Default: the name of the file.
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// The smaller line below the title, such as the machine and the commands.
    ///
    /// Default: when it was, and how long.
    #[arg(long, value_name = "TEXT")]
    subtitle: Option<String>,
    /// A panel to show, from top to bottom; may be repeated.
    ///
    /// Default: all that have a value.
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    panel: Vec<PanelArg>,
}

/// A theme by its name.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ThemeArg {
    /// For paper.
    Light,
    /// For dark pages.
    Dark,
}

impl From<ThemeArg> for Theme {
    fn from(theme: ThemeArg) -> Theme {
        match theme {
            ThemeArg::Light => Theme::Light,
            ThemeArg::Dark => Theme::Dark,
        }
    }
}

/// A panel by its name.
#[derive(Clone, Copy, Debug)]
struct PanelArg(Panel);

impl ValueEnum for PanelArg {
    fn value_variants<'a>() -> &'a [PanelArg] {
        const ALL: [PanelArg; Panel::ALL.len()] = {
            let mut all = [PanelArg(Panel::Process); Panel::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = PanelArg(Panel::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.as_str()))
    }
}

pub(crate) fn run(args: PlotArgs) -> Result<()> {
    unless_stopped(move || {
        let rows = read(&args.run)?;
        let title = args.title.clone().unwrap_or_else(|| args.run.display().to_string());
        let subtitle = args.subtitle.clone().unwrap_or_else(|| describe(&rows));
        let panels: Vec<Panel> = args.panel.iter().map(|panel| panel.0).collect();
        let picture = RunPlot {
            rows: &rows,
            title: &title,
            subtitle: &subtitle,
            panels: if panels.is_empty() { &Panel::ALL } else { &panels },
            theme: args.theme.into(),
        };
        args.output.iter().try_for_each(|path| Ok(picture.save(path)?))
    })
}

fn read(path: &Path) -> Result<Vec<Row>> {
    let file: Box<dyn Read> = if path.as_os_str() == "-" {
        Box::new(io::stdin())
    } else {
        let file = File::open(path);
        Box::new(file.with_context(|| {
            format!("cannot read `{}`; check its path, owner and mode", path.display())
        })?)
    };
    run::read(file).map_err(|error| anyhow!("`{}`: {error}", path.display()))
}

/// When the run was, and how long.
fn describe(rows: &[Row]) -> String {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return String::new() };
    let seconds = last.seconds - first.seconds;
    let long = match seconds {
        0.0..120.0 => format!("{seconds:.0} seconds"),
        120.0..7_200.0 => format!("{:.0} minutes", seconds / 60.0),
        _ => format!("{:.1} hours", seconds / 3_600.0),
    };
    let count = grouped(rows.len() as u64);
    // To the minute.
    match first.utc.get(..16) {
        Some(minute) => format!("{long} from {} UTC, {count} rows", minute.replace('T', " ")),
        None => format!("{long}, {count} rows"),
    }
}
