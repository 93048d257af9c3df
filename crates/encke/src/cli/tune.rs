//! `encke tune`: whether this machine holds so many users, and what to type where it does not.

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use tune::apply::{Change, apply, sysctl_file};
use tune::{Ends, Report, USERS_DEFAULT, Verdict};

use crate::console::{say, tell};
use crate::units::whole;

/// Checks what this machine and its limits allow against a number of users.
///
/// Shows what is enough and what is low, why, what to type, and what follows where it cannot be
/// changed. Works without root. Exit code 0 when the users fit, also when something is low; 1 when
/// they do not.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  encke tune
  encke tune --users 50000
  encke tune --users 1000000 --with-clients     for encke demo, or flood on the same machine
  sudo encke tune --apply                       set what is low, until the next restart
  encke tune --sysctl > 60-encke.conf           the same as a file for /etc/sysctl.d
  encke tune --json | jq '.checks[] | select(.verdict != \"enough\")'")]
pub(crate) struct TuneArgs {
    /// How many users there are to be, each with one connection.
    #[arg(long, value_name = "N", default_value_t = USERS_DEFAULT)]
    #[arg(value_parser = whole(1..=u32::MAX))]
    users: u32,
    /// Their clients are on this machine, too.
    #[arg(long)]
    with_clients: bool,
    /// Set the kernel settings that are low.
    ///
    /// They hold for the whole machine until it is restarted; no other process' limits are touched.
    #[arg(long)]
    apply: bool,
    /// Print a file of settings for sysctl(8) that suits any machine, and check nothing.
    #[arg(long, conflicts_with_all = ["apply", "json"])]
    sysctl: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

/// The report as programs read it.
#[derive(Serialize)]
struct TuneAnswer<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// What --apply did.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<Change>>,
}

/// `false` when the users do not fit.
pub(crate) fn run(args: TuneArgs) -> Result<bool> {
    let ends = if args.with_clients { Ends::Both } else { Ends::Server };
    if args.sysctl {
        say(sysctl_file(args.users, ends).trim_end())?;
        return Ok(true);
    }
    let mut report = Report::of_machine(args.users, ends);
    let changes = args.apply.then(|| apply(&report));
    if let Some(changes) = &changes {
        report = Report::of_machine(args.users, ends);
        tell_changes(changes);
    }
    if args.json {
        say(serde_json::to_string(&TuneAnswer { report: &report, changes })?)?;
    } else {
        say(report.to_string().trim_end())?;
        advise(&report, args.apply)?;
    }
    Ok(report.fits())
}

/// What was set, on standard error: standard output is the report.
fn tell_changes(changes: &[Change]) {
    for Change { key, from, to, error } in changes {
        match error {
            None => tell(format!("set      {key} from {from} to {to}")),
            Some(error) => tell(format!("not set  {key} from {from} to {to}: {error}")),
        }
    }
    match changes.iter().filter(|change| change.error.is_none()).count() {
        0 if changes.is_empty() => tell("nothing to set"),
        0 => {}
        _ => tell(
            "This holds until the machine is restarted; deploy/sysctl.conf (`encke tune --sysctl`) \
             keeps it.\nA running server has its listeners' queues from its start: restart it.",
        ),
    }
}

/// The next step, when there is one.
fn advise(report: &Report, applied: bool) -> Result<()> {
    let settable = report.checks.iter().any(|check| {
        check.verdict >= Verdict::Low && check.value.is_some() && check.hindrance.is_none()
    });
    if settable && !applied {
        say("`encke tune --apply` sets what can be set here; `--sysctl` is the file to keep it.")?;
    }
    Ok(())
}
