//! The files of a run are `run.csv`, a row a second as it goes, and at its end `run.json`, the
//! report. The pictures `run-light` and `run-dark` come then too, each as SVG and as PNG.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use figures::latency::Quantiles;
use figures::run::{Reading, Row, RunWriter};
use load::findings::ReportWithFindings;
use load::plot::{Panel, RunPlot, Theme};

use super::measure::DemoSnapshot;
use super::report::DemoReport;

const ROWS: &str = "run.csv";

/// Rates of less time than this are mostly chance.
const INTERVAL_MIN: Duration = Duration::from_millis(250);

/// The files of a run under way.
pub(super) struct RunFiles {
    dir: PathBuf,
    /// The directory was not there before.
    is_new: bool,
    writer: RunWriter<File>,
    /// For the pictures: what is in the file.
    rows: Vec<Row>,
    /// When the first and the last row were, and what the server told for the latter.
    started: Option<Instant>,
    before: Option<(Instant, Reading)>,
}

impl RunFiles {
    /// Begins a run in `dir`, which is made.
    ///
    /// # Errors
    /// Also when there is a run already: it is left alone.
    pub(super) fn create(dir: &Path) -> Result<RunFiles> {
        let cannot =
            || format!("cannot write to {}; check its path, owner and free space", dir.display());
        let is_new = !dir.exists();
        fs::create_dir_all(dir).with_context(cannot)?;
        let file = match File::create_new(dir.join(ROWS)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
                "{} has the files of a run, which stay; name another directory with --out",
                dir.display()
            ),
            file => file.with_context(cannot)?,
        };
        let writer = RunWriter::new(file).with_context(cannot)?;
        Ok(RunFiles {
            dir: dir.to_owned(),
            is_new,
            writer,
            rows: Vec::new(),
            started: None,
            before: None,
        })
    }

    /// When the next row may be added; `None` before the first one.
    pub(super) fn due(&self) -> Option<Instant> {
        self.before.as_ref().map(|(before, _)| *before + INTERVAL_MIN)
    }

    /// Adds the row of a moment, through to the file, unless the one before is too near: what the
    /// server told then, and what the crowd measured since the moment before.
    pub(super) fn add(&mut self, snapshot: &DemoSnapshot, latency: Quantiles) -> Result<()> {
        let started = *self.started.get_or_insert(snapshot.at);
        if self.due().is_some_and(|due| snapshot.at < due) {
            return Ok(());
        }
        let seconds = snapshot.at.duration_since(started).as_secs_f64();
        let before = self.before.as_ref().map(|(_, reading)| reading);
        let mut row = snapshot.server.row(seconds, sys::clock::unix_ms(), before);
        row.set_received(&latency);
        let cannot =
            || format!("cannot write to {}; check its owner and free space", self.dir.display());
        self.writer.write(&row).with_context(cannot)?;
        self.rows.push(row);
        self.before = Some((snapshot.at, snapshot.server.clone()));
        Ok(())
    }

    /// Writes the report and draws the pictures, with `title` and `subtitle` above them.
    pub(super) fn finish(self, report: &DemoReport, title: &str, subtitle: &str) -> Result<()> {
        let path = self.dir.join("run.json");
        let with_findings = ReportWithFindings { report, findings: &report.findings() };
        let json = serde_json::to_string_pretty(&with_findings)? + "\n";
        fs::write(&path, json).with_context(|| format!("cannot write {}", path.display()))?;
        for (theme, look) in [(Theme::Light, "light"), (Theme::Dark, "dark")] {
            let picture = RunPlot { rows: &self.rows, title, subtitle, panels: &Panel::ALL, theme };
            for kind in ["svg", "png"] {
                picture.save(&self.dir.join(format!("run-{look}.{kind}")))?;
            }
        }
        Ok(())
    }

    /// Takes back a run that came to nothing.
    pub(super) fn discard(self) {
        // Whatever stays is a file without figures, and the demo is being stopped.
        let _ = fs::remove_file(self.dir.join(ROWS));
        if self.is_new {
            let _ = fs::remove_dir(&self.dir);
        }
    }
}
