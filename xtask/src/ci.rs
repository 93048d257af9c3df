//! `cargo xtask ci`: every check that a change must pass, from the cheapest to the longest.
//!
//! All steps run even if one fails, so that one run tells everything. The build server does nothing
//! but call this; what passes here passes there. Nothing reads the standard input, and the only
//! things changed outside `target/` are Debian packages ([`crate::programs`]) and the caches of
//! cargo, npm and Go. The last lines tell what failed and which tests were skipped; where `CI=true`
//! one that would be skipped fails.
//!
//! Cost in a fresh clone: about 20 minutes of processor time, so some 12 minutes on two cores.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;

use crate::{compat, deny, node, package, previous, programs, sdks, skipped, tidy, tools};

/// How much to check.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything.
    Whole,
    /// Without the steps that build all over again for themselves.
    Fast,
}

/// One check.
struct Step {
    name: &'static str,
    work: Work,
    extent: Extent,
}

enum Work {
    /// A function of this program, and the command that calls it alone.
    Own(fn(&Path) -> anyhow::Result<bool>, &'static str),
    /// cargo with these arguments and these variables set.
    Cargo(&'static [&'static str], &'static [(&'static str, &'static str)]),
}

use Work::{Cargo, Own};

const STEPS: [Step; 13] = [
    Step { name: "programs", work: Own(programs, "cargo xtask programs"), extent: Extent::Fast },
    Step { name: "format", work: Cargo(&["fmt", "--all", "--check"], &[]), extent: Extent::Fast },
    Step { name: "tidy", work: Own(tidy::run, "cargo xtask tidy"), extent: Extent::Fast },
    Step {
        name: "clippy",
        work: Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[]),
        extent: Extent::Fast,
    },
    Step {
        name: "test",
        work: Cargo(&["test", "--workspace", "--no-fail-fast"], &[]),
        extent: Extent::Fast,
    },
    Step { name: "node", work: Own(node::packages, "cargo xtask node"), extent: Extent::Fast },
    Step { name: "browser", work: Own(node::browser, "cargo xtask browser"), extent: Extent::Fast },
    Step { name: "sdks", work: Own(sdks::run, "cargo xtask sdks"), extent: Extent::Fast },
    Step {
        name: "packages",
        work: Own(package::check, "cargo xtask package --profile dev --try"),
        extent: Extent::Fast,
    },
    Step {
        name: "docs",
        // With private items: our docs are for those who read the code, and link into it.
        work: Cargo(
            &["doc", "--workspace", "--no-deps", "--document-private-items"],
            &[("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links")],
        ),
        extent: Extent::Fast,
    },
    Step { name: "deny", work: Own(deny::run, "cargo xtask deny"), extent: Extent::Whole },
    Step {
        // Its flags change every crate's fingerprint, so it builds beside the rest.
        name: "loom",
        work: Cargo(
            &["test", "--package", "sync", "--lib", "--target-dir", "target/loom", "loom"],
            &[("RUSTFLAGS", "--cfg loom")],
        ),
        extent: Extent::Whole,
    },
    Step {
        name: "demo",
        work: Cargo(&["run", "--release", "--", "demo", "--seconds", "8"], &[]),
        extent: Extent::Whole,
    },
];

/// Installs, builds or fetches what tests take.
pub(crate) fn programs(root: &Path) -> anyhow::Result<bool> {
    let installed = programs::ensure_all();
    tools::ensure_all(root);
    previous::ensure(root);
    compat::ensure(root);
    installed.map(|()| true)
}

/// Runs the steps of `extent` and says whether all passed.
pub(crate) fn run(root: &Path, extent: Extent) -> anyhow::Result<bool> {
    let steps = STEPS.iter().filter(|step| extent == Extent::Whole || step.extent == extent);
    let skipped = skipped::begin(&node::target(root))?;
    let (mut passed, mut failed) = (0, Vec::new());
    for step in steps {
        let command = step.work.command_line();
        println!("==> {}: {command}", step.name);
        let start = Instant::now();
        let outcome = step.work.run(root, &skipped);
        let seconds = start.elapsed().as_secs_f64();
        if let Err(error) = &outcome {
            println!("{error:#}");
        }
        let ok = outcome.unwrap_or(false);
        println!("<== {}: {} in {seconds:.1} s", step.name, if ok { "passed" } else { "FAILED" });
        if ok {
            passed += 1;
        } else {
            failed.push((step.name, command));
        }
    }
    for (name, command) in &failed {
        println!("{name} failed. To run it again: {command}");
    }
    println!("{}", skipped::report(&skipped)?);
    println!("steps: {passed} passed, {} failed", failed.len());
    Ok(failed.is_empty())
}

impl Work {
    fn run(&self, root: &Path, skipped: &Path) -> anyhow::Result<bool> {
        match self {
            Own(work, _) => work(root),
            Cargo(arguments, variables) => {
                let mut command = Command::new("cargo");
                command.args(*arguments).envs(variables.iter().copied());
                command.env(skipped::VARIABLE, skipped);
                command.current_dir(root).stdin(Stdio::null());
                Ok(command.status().context("cargo does not start")?.success())
            }
        }
    }

    /// What a person types to run it alone.
    fn command_line(&self) -> String {
        match self {
            Own(_, command) => (*command).to_owned(),
            Cargo(arguments, variables) => {
                let set = variables.iter().map(|(name, value)| format!("{name}='{value}' "));
                format!("{}cargo {}", set.collect::<String>(), arguments.join(" "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_has_the_variables_and_can_be_pasted() {
        let lines: Vec<String> = STEPS.iter().map(|step| step.work.command_line()).collect();
        assert!(lines.contains(&"cargo clippy --workspace --all-targets -- -D warnings".into()));
        let docs = lines.iter().find(|line| line.contains(" doc ")).unwrap();
        assert!(docs.starts_with("RUSTDOCFLAGS='-D warnings -A "), "{docs}");
    }
}
