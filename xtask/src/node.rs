//! The packages in TypeScript: the browser client, and the server's pages.
//!
//! npm does what their `package.json` says; this knows only the order. It starts from what
//! the lockfiles name, fetched from whatever registry the machine is set up with.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// The oldest Node whose test runner and `fetch` the tests rely on.
const NODE_MIN: u32 = 20;

/// The browser client.
const CLIENT: &str = "clients/js";

/// The pages that the server carries.
const PAGES: &str = "web";

/// Installs what the lockfile says, and nothing else.
const CLEAN_INSTALL: [&str; 3] = ["ci", "--no-audit", "--no-fund"];

/// Types, unit tests and size of the client; types of the pages, and whether what is committed of
/// them is what their sources make.
pub(crate) fn packages(root: &Path) -> anyhow::Result<bool> {
    ensure_node()?;
    let mut passed = true;
    for (folder, scripts) in [(CLIENT, &["check", "test"][..]), (PAGES, &["check"][..])] {
        let folder = root.join(folder);
        passed &= npm(&folder, &CLEAN_INSTALL)?;
        for script in scripts {
            passed &= npm(&folder, &["run", script])?;
        }
    }
    Ok(passed)
}

fn npm(folder: &Path, arguments: &[&str]) -> anyhow::Result<bool> {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    Ok(command.status().context("npm does not start")?.success())
}

fn ensure_node() -> anyhow::Result<()> {
    let output = Command::new("node").arg("--version").output().context("node does not start")?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let new_enough = major(&version).is_some_and(|major| major >= NODE_MIN);
    ensure!(new_enough, "node is {version}, and {NODE_MIN} is the oldest that the tests run on");
    Ok(())
}

/// The 20 of `v20.19.2`.
fn major(version: &str) -> Option<u32> {
    version.strip_prefix('v')?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn major_version_is_read() {
        assert_eq!(major("v20.19.2"), Some(20));
        assert_eq!(major("v8"), Some(8));
        assert_eq!(major("node"), None);
    }
}
