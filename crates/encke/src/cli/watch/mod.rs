//! `encke watch`: a server's figures over time, to a file.
//!
//! One `GET /stats` an interval, one row of CSV each, through to the file at once, so that a run
//! that is cut off leaves all but its last row. A server that goes away leaves rows without
//! figures: a gap in the file is a gap in what is known.

pub(super) mod sampler;

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use figures::run::row_line;
use figures::run::{Row, RunWriter};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

use self::sampler::Sampler;
use super::client::{ApiArgs, runtime};
use crate::console::{LiveLine, OutputError, say, tell, told};
use crate::signals::Signals;
use crate::units::parse_period;

/// Longer than any run.
const YEAR: Duration = Duration::from_secs(365 * 86_400);

/// Writes a server's figures over time to a CSV file.
///
/// Memory of the process and of the kernel's sockets, connections, events and deliveries, how long
/// sends took, processor time: one row an interval, at once in the file, with the units in the
/// names of the columns; of a server that is an Erlang node also its nodes, processes and their
/// events. A server that goes away leaves empty fields until it is back. An existing
/// file is not touched. Ends with Ctrl-C or after --seconds.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  encke watch -o run.csv
  encke watch --every 5 --seconds 3600 -o run.csv
  encke watch --api http://10.0.0.7:8001 --every 0.5 -o - | tee run.csv
  encke plot run.csv -o run.svg")]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    api: ApiArgs,
    /// The file to write, which must not exist yet; - is standard output.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Time between two rows, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_period)]
    every: Duration,
    /// End after so long, in seconds.
    ///
    /// Default: with Ctrl-C.
    #[arg(long, value_name = "SECONDS", value_parser = crate::units::parse_seconds)]
    seconds: Option<Duration>,
}

pub(crate) fn run(args: WatchArgs) -> Result<()> {
    runtime()?.block_on(async {
        let mut signals = Signals::new()?;
        let mut sampler = Sampler::new(args.api.server()?);
        // A wrong address is told before there is a file.
        let first = tokio::select! {
            row = sampler.row() => row?,
            _ = signals.next() => return Ok(()),
        };
        let file = create(&args.output)?;
        let writer = RunWriter::new(file).map_err(|error| explain(error, &args.output))?;
        // Rows and lines for people do not mix.
        let live = (!is_standard_output(&args.output)).then(LiveLine::new);
        let mut watch = Watch { output: &args.output, sampler, writer, live, away: false, rows: 0 };
        watch.put(&first)?;
        watch.run(args.every, args.seconds, &mut signals).await
    })
}

/// A run under way.
struct Watch<'a> {
    output: &'a Path,
    sampler: Sampler,
    writer: RunWriter<Box<dyn Write>>,
    live: Option<LiveLine>,
    /// Whether the server did not answer the last time.
    away: bool,
    rows: u64,
}

impl Watch<'_> {
    async fn run(
        mut self,
        every: Duration,
        seconds: Option<Duration>,
        signals: &mut Signals,
    ) -> Result<()> {
        // The row of the end belongs to the run.
        let end = Instant::now() + seconds.map_or(YEAR, |seconds| seconds + every / 2);
        tokio::select! {
            failed = self.take_rows(every) => failed?,
            () = sleep_until(end) => {}
            _ = signals.next() => {}
        }
        if self.live.take().is_some() {
            let (rows, file) = (self.rows, self.output.display());
            say(format!("{rows} rows in {file}; `encke plot {file} -o run.svg` draws them"))?;
        }
        Ok(())
    }

    /// Takes a row each time, until that fails.
    async fn take_rows(&mut self, every: Duration) -> Result<()> {
        let mut ticks = interval_at(Instant::now() + every, every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.take_row().await?;
        }
    }

    async fn take_row(&mut self) -> Result<()> {
        let row = match self.sampler.row().await {
            Ok(row) => {
                if std::mem::take(&mut self.away) {
                    tell("the server is back");
                }
                row
            }
            Err(error) => {
                if !std::mem::replace(&mut self.away, true) {
                    tell(format!("the server is away, trying again each time: {}", told(&error)));
                }
                self.sampler.gap()
            }
        };
        self.put(&row)
    }

    /// Writes `row` and shows it.
    fn put(&mut self, row: &Row) -> Result<()> {
        self.writer.write(row).map_err(|error| explain(error, self.output))?;
        self.rows += 1;
        match &self.live {
            Some(live) => Ok(live.set(row_line(row))?),
            None => Ok(()),
        }
    }
}

fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-"
}

fn create(path: &Path) -> Result<Box<dyn Write>> {
    if is_standard_output(path) {
        return Ok(Box::new(io::stdout()));
    }
    match File::create_new(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "`{}` exists and is left as it is: remove it, or choose another name",
            path.display()
        ),
        Err(error) => Err(explain(error, path)),
    }
}

/// A reader of standard output that has enough is a good end.
fn explain(error: io::Error, path: &Path) -> anyhow::Error {
    match is_standard_output(path) {
        true => OutputError::from(error).into(),
        false => anyhow!(
            "cannot write `{}`: {error}; check its directory, owner and free space",
            path.display()
        ),
    }
}
