//! `encke upgrade`: a new version takes the place of a server that runs.

use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use server::{Done, Upgrade, UpgradeProgress};

use super::client::runtime;
use crate::console::{escaped, printable, say};

/// Replaces a running server with a new version or other settings, while clients stay connected.
///
/// The new program takes over ports, streams, history and the store. The server starts the program
/// that it was started from, as it is on disk now, with its own options, and leaves everything to
/// it. What the new program cannot take over is told before anything moves. Exit code 0 says that
/// the new program serves, 1 that it is not known to: nearly always the server goes on as before,
/// and the sentence says whether it does. SIGUSR2 to the server asks for the same; nodes of a
/// cluster are not upgraded in this way.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpgradeArgs {
    /// The data of the server, as it was given to `encke serve`.
    #[arg(long, value_name = "DIR", default_value = "./encke-data")]
    data: PathBuf,
    /// Start this program instead of the one that the server was started from.
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
    /// Print how it goes as lines of JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  encke upgrade
  encke upgrade --data /var/lib/encke
  encke upgrade --binary ./encke-0.2
  encke upgrade --config new.toml   the new program goes by this file";

pub(crate) fn run(args: UpgradeArgs, config: Option<&Path>) -> Result<()> {
    // The server stands in another directory, perhaps.
    let full = |path: &Path| {
        absolute(path).with_context(|| {
            format!("{} is in a directory that is gone: give its whole path", path.display())
        })
    };
    let binary = args.binary.as_deref().map(full).transpose()?;
    let config = config.map(full).transpose()?;
    runtime()?.block_on(async {
        let mut upgrade = Upgrade::ask(&args.data, binary, config).await?;
        loop {
            let told = upgrade.next().await?;
            // It goes on whether anybody reads that or not.
            let _ = match args.json {
                true => say(escaped(&as_json(&told))),
                false => say(printable(&as_text(&told))),
            };
            match told {
                UpgradeProgress::Step(_) => {}
                UpgradeProgress::Done(Done { lost: None, .. }) => return Ok(()),
                UpgradeProgress::Done(Done { lost: Some(why), ended, .. }) => {
                    let what = if ended { "start the server" } else { "look at its log" };
                    bail!(
                        "the new version took everything over, but has not said that it serves: \
                         {why}; {what}"
                    );
                }
            }
        }
    })
}

fn as_text(told: &UpgradeProgress) -> String {
    let done = match told {
        UpgradeProgress::Step(step) => return step.text.clone(),
        UpgradeProgress::Done(done) => done,
    };
    let Done { pid, version, connections, milliseconds, pause_milliseconds, lost, .. } = done;
    let (does, waited) = match lost {
        None => ("serves", format!(", and clients waited {pause_milliseconds} ms")),
        Some(_) => ("has taken over", String::new()),
    };
    let seconds = *milliseconds as f64 / 1e3;
    format!(
        "encke {version} (process {pid}) {does} {connections} connections: it took {seconds:.1} \
         s{waited}"
    )
}

fn as_json(told: &UpgradeProgress) -> String {
    let line = match told {
        UpgradeProgress::Step(step) => {
            json!({ "step": step.text, "copied": step.copied, "of": step.of })
        }
        UpgradeProgress::Done(done) => {
            let mut line = json!({
                "pid": done.pid,
                "version": done.version,
                "connections": done.connections,
                "seconds": done.milliseconds as f64 / 1e3,
            });
            match &done.lost {
                None => line["pause_seconds"] = json!(done.pause_milliseconds as f64 / 1e3),
                Some(why) => {
                    line["lost"] = json!(why);
                    line["ended"] = json!(done.ended);
                }
            }
            line
        }
    };
    line.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_told_with_its_figures() {
        let done = UpgradeProgress::Done(Done {
            pid: 7,
            version: "1.2.3".into(),
            connections: 10,
            milliseconds: 1_250,
            pause_milliseconds: 40,
            ..Done::default()
        });
        let text = as_text(&done);
        assert_eq!(
            text,
            "encke 1.2.3 (process 7) serves 10 connections: it took 1.2 s, and clients waited 40 ms"
        );
        assert_eq!(
            as_json(&done),
            r#"{"connections":10,"pause_seconds":0.04,"pid":7,"seconds":1.25,"version":"1.2.3"}"#
        );
    }

    /// It would be taken for one that serves.
    #[test]
    fn end_of_which_nobody_heard_is_told_as_such() {
        let why = || Some("it has ended".to_owned());
        let done =
            UpgradeProgress::Done(Done { pid: 7, lost: why(), ended: true, ..Done::default() });
        let text = as_text(&done);
        assert!(text.contains("has taken over 0") && !text.contains("waited"), "{text}");
        let json = as_json(&done);
        assert!(json.contains(r#""ended":true,"lost":"it has ended""#), "{json}");
        assert!(!json.contains("pause_seconds"), "{json}");
    }
}
