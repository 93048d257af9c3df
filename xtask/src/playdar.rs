//! `cargo xtask playdar`: the page of the example in Chromium, and whether the example is to be
//! checked at all.
//!
//! A run of `cargo xtask ci` leaves it out where one has passed with just these files. They are
//! those of the example, of the crates that it uses and of what its tests take. `cargo xtask ci
//! --whole` asks nobody.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::building::{PLAYDAR_LEFT_OUT, build, target};
use crate::node::{CLEAN_INSTALL, CLIENT, Node};
use crate::{registry, second_tries, store};

/// The tests of its page, which take their tools from the client's folder.
const TESTS: &str = "examples/playdar/e2e";

/// What it is made of and tested with. Crates that are left out are above it or beside it.
const SOURCES: [&str; 14] = [
    ".cargo",
    ".config",
    "Cargo.lock",
    "Cargo.toml",
    "clippy.toml",
    "clients/js",
    "crates",
    "examples/playdar",
    "web",
    ":!crates/client",
    ":!crates/encke",
    ":!crates/ketama",
    ":!crates/load",
    ":!web/test",
];

/// Its page, against the daemon as it is built for tests.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    if std::env::var_os(PLAYDAR_LEFT_OUT).is_some() {
        println!("playdar: it has passed with just these files");
        return Ok(true);
    }
    let node = Node::ensure(root)?;
    build(root)?;
    let client = root.join(CLIENT);
    if !client.join("node_modules").is_dir() {
        ensure!(node.npm(&client, &CLEAN_INSTALL)?, "npm cannot fetch what the tests take");
    }
    let folder = root.join(TESTS);
    let mut tests = node.command(&folder, &["test"]);
    let target = target(root);
    tests.env("PLAYDAR", target.join("debug/playdar"));
    tests.env(second_tries::VARIABLE, second_tries::begin_step(&target, "playdar")?);
    let passed = node.npm(&folder, &["run", "check"])?;
    Ok(passed && tests.status().context("npm does not start")?.success())
}

/// The note that all has passed with the files as they are.
pub(crate) fn note(root: &Path) -> anyhow::Result<PathBuf> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"]).args(SOURCES);
    let output = git.current_dir(root).stdin(Stdio::null()).output();
    let output = output.context("git does not start")?;
    ensure!(output.status.success(), "git cannot tell the files of the example");
    let mut texts = vec![registry::compiler()?];
    for name in output.stdout.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        // A file that git knows and that is gone has no text.
        texts.push(name.to_vec());
        texts.push(fs::read(root.join(OsStr::from_bytes(name))).unwrap_or_default());
    }
    Ok(store::folder(root)?.join(format!("playdar-passed-{}", store::digest(&texts))))
}

/// Writes the note.
pub(crate) fn has_passed(note: &Path) -> anyhow::Result<()> {
    File::create(note).with_context(|| note.display().to_string())?;
    Ok(())
}
