//! The kernel settings of a report: written to the kernel, or as a file for sysctl(8).

use figures::numbers::grouped;
use serde::Serialize;

use super::check::{hindrance, most};
use super::demand::{Demand, Ends};
use super::machine::Machine;
use super::rules::RULES;
use super::{Report, this_machine};

/// What became of one setting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Change {
    /// The setting's name.
    pub key: &'static str,
    /// Its value before.
    pub from: String,
    /// What it was to be.
    pub to: String,
    /// Why it could not be set; `None` where it was.
    pub error: Option<String>,
}

/// Sets every kernel setting that `report` found low, as far as this process may. It holds at once
/// and until the machine is restarted. Limits of processes are not touched: they are inherited, and
/// nobody else's are ours to change.
pub fn apply(report: &Report) -> Vec<Change> {
    apply_to(&this_machine(), report)
}

/// Applies the settings of `machine`.
pub(super) fn apply_to(machine: &Machine, report: &Report) -> Vec<Change> {
    let wanted = report.checks.iter().filter_map(|check| Some((check.name, check.value.clone()?)));
    wanted
        .filter_map(|(key, to)| {
            let reading = machine.settings.get(key)?;
            let error = match hindrance(reading.access) {
                Some(hindrance) => Some(hindrance.to_owned()),
                None => match machine.write(key, &to) {
                    Err(error) => Some(format!("the kernel refused it: {error}")),
                    Ok(()) => None,
                },
            };
            Some(Change { key, from: text(&reading.values), to, error })
        })
        .collect()
}

/// A file for /etc/sysctl.d with what a server for `users` wants of any machine.
pub fn sysctl_file(users: u32, ends: Ends) -> String {
    let demand = Demand::anywhere(users, ends);
    let (option, whose) = match ends {
        Ends::Server => ("", ""),
        Ends::Both => (" --with-clients", ", and for their clients on the same machine"),
    };
    let mut file = format!(
        "# Kernel settings of a server for {} users{whose}. Written by\n\
         #   encke tune --users {users}{option} --sysctl\n\
         # To keep them over a restart, as root:\n\
         #   cp sysctl.conf /etc/sysctl.d/60-encke.conf && sysctl --system\n\
         # Where a machine has more already, delete the line: `encke tune` shows what it has.\n\
         # The limit on descriptors is no kernel setting: see LimitNOFILE= and ulimit -n.\n",
        grouped(users.into()),
    );
    for rule in RULES.iter().filter(|rule| !rule.default.is_empty()) {
        let want = (rule.want)(&demand);
        if want.iter().all(|&number| number == 0) {
            continue;
        }
        file.push('\n');
        for line in super::table::lines(rule.why, 78) {
            file.push_str(&format!("# {line}\n"));
        }
        // A dash lets sysctl(8) go on when the module is not loaded.
        let dash = if rule.of_module { "-" } else { "" };
        file.push_str(&format!("{dash}{} = {}\n", rule.key, text(&most(&want, rule.default))));
    }
    file
}

fn text(values: &[u64]) -> String {
    values.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}
