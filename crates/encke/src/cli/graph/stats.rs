//! `encke graph stats`: what a stored graph looks like.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use figures::numbers::grouped;
use graph::{Degrees, Stats};
use load::plot;
use serde::Deserialize;
use server::graph_stats_json;

use super::source;
use crate::cli::client::{CaArg, KeyArg, runtime};
use crate::cli::plot::ThemeArg;
use crate::cli::work::{Progress, unless_stopped};
use crate::client::{ApiClient, ServerUrl};
use crate::console::{say, tell};
use crate::signals::Signals;
use crate::units::whole;

/// Describes the friends graph of a running server, or in a data directory that no server uses.
///
/// The degree of a user is the number of different users they are connected with, whoever follows
/// whom; the power law is the likeliest one for degrees from --xmin on.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke graph stats --data ./encke-data
  encke graph stats --api http://127.0.0.1:8001
  encke graph stats --plot degrees.svg
  encke graph stats --json --xmin 50 | jq .power_law.exponent")]
pub(crate) struct StatsArgs {
    /// The data directory.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Ask the server whose API this is, instead of reading a data directory.
    // Not from the environment: where the API is must not decide whose graph is described.
    #[arg(long, value_name = "URL", hide_env = true)]
    api: Option<ServerUrl>,
    #[command(flatten)]
    key: KeyArg,
    #[command(flatten)]
    ca: CaArg,
    /// The degree from which on a power law is fitted.
    #[arg(long, value_name = "DEGREE", default_value_t = 50)]
    #[arg(value_parser = whole(1..=u64::MAX))]
    xmin: u64,
    /// Draw the degree distribution into this file, .svg or .png.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// How the drawing looks.
    ///
    /// Default: an .svg as the page that it stands in, a .png light.
    #[arg(long, value_enum, requires = "plot")]
    theme: Option<ThemeArg>,
    /// Print it as JSON, with the whole distribution.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: StatsArgs) -> Result<()> {
    let data = args.data;
    let stats = match args.api {
        Some(api) => ask(&api.with_ca(args.ca.ca).with_key(args.key.key)?)?,
        None => unless_stopped(move || {
            let graph = source::open(&data)?;
            let mut progress = Progress::new("reading");
            Ok(graph.stats(&mut |done, total| progress.set("reading", done, total))?)
        })?,
    };
    if let Some(path) = &args.plot {
        draw(&stats, args.xmin, path, args.theme)?;
        tell(format!("drawn into {}", path.display()));
    }
    if args.json {
        Ok(say(graph_stats_json(&stats, args.xmin).to_string())?)
    } else {
        print(&stats, args.xmin)
    }
}

fn draw(stats: &Stats, xmin: u64, path: &Path, theme: Option<ThemeArg>) -> Result<()> {
    let title =
        format!("{} users, {} subscriptions", grouped(stats.users), grouped(stats.subscriptions));
    let power_law = stats.degrees.power_law(xmin);
    let power_law = power_law.map(|law| plot::PowerLaw { exponent: law.exponent, from: xmin });
    let look = theme.map_or(plot::Look::Page, |theme| plot::Look::Fixed(theme.into()));
    plot::Degrees { title: &title, counts: &stats.degrees.counts, power_law, look }.save(path)?;
    Ok(())
}

/// What the server says of its graph.
fn ask(server: &ServerUrl) -> Result<Stats> {
    let answer: StatsAnswer = runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            answer = async {
                ApiClient::connect(server).await?.get("/graph/stats").await
            } => answer,
            _ = signals.next() => bail!("stopped before it was done"),
        }
    })?;
    Ok(Stats {
        users: answer.users,
        subscriptions: answer.subscriptions,
        mutual: answer.mutual,
        degrees: Degrees { counts: answer.degree.counts },
        disk_bytes: answer.store_bytes,
    })
}

/// Of which all the rest follows.
#[derive(Deserialize)]
struct StatsAnswer {
    users: u64,
    subscriptions: u64,
    mutual: u64,
    store_bytes: u64,
    degree: AnswerDegrees,
}

#[derive(Deserialize)]
struct AnswerDegrees {
    counts: Vec<(u64, u64)>,
}

fn print(stats: &Stats, xmin: u64) -> Result<()> {
    let degrees = &stats.degrees;
    let row = |name: &str, value: String| say(format!("{name:14}{value}"));
    row("users", grouped(stats.users))?;
    row("subscriptions", grouped(stats.subscriptions))?;
    row("mutual", format!("{} pairs follow one another", grouped(stats.mutual)))?;
    row("on disk", format!("{} bytes", grouped(stats.disk_bytes)))?;
    row(
        "degree",
        format!(
            "min {}  median {}  mean {:.1}  p90 {}  p99 {}  max {}",
            degrees.min(),
            degrees.quantile(0.5),
            degrees.mean(),
            degrees.quantile(0.9),
            degrees.quantile(0.99),
            grouped(degrees.max())
        ),
    )?;
    let law = match degrees.power_law(xmin) {
        Some(law) => format!(
            "exponent {:.3} ± {:.3} for degrees from {xmin} on ({} users)",
            law.exponent,
            law.error,
            grouped(law.users)
        ),
        None => format!("none: too few degrees from {xmin} on"),
    };
    row("power law", law)?;
    print_distribution(stats)
}

/// The distribution in octaves: who has 1, 2 to 3, 4 to 7, … friends.
fn print_distribution(stats: &Stats) -> Result<()> {
    let mut low = 1 << stats.degrees.min().max(1).ilog2();
    while low <= stats.degrees.max() {
        let octave =
            stats.degrees.counts.iter().filter(|(degree, _)| (low..2 * low).contains(degree));
        let users: u64 = octave.map(|(_, users)| users).sum();
        let share = users as f64 / stats.users.max(1) as f64;
        let bar = "█".repeat((share * 50.0).ceil() as usize);
        let range = format!("{low} to {}", 2 * low - 1);
        say(format!("  {range:<18}{:>12}  {:>6.2} %  {bar}", grouped(users), 100.0 * share))?;
        low *= 2;
    }
    Ok(())
}
