//! The packages for backends, in Python and Go: types, vet, and tests against the real server.
//!
//! Both run the cases of `clients/cases`, as the browser client's own tests do ([`crate::node`]).
//!
//! Python's tools and the package's one dependency come from a list with hashes into an environment
//! of their own ([`crate::store`]). Nothing of the system's Python is touched. Where they cannot be
//! had, or Go is too old, that is told among the skipped tests, and with `CI=true` it fails.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::building::{self, target};
use crate::skipped;
use crate::store::{Tool, digest};
use crate::tools::python_version;

const PYTHON: &str = "clients/python";
const GO: &str = "clients/go";

/// Types and tests of both; Python's run the examples of docs/backends.md, in Node too.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    building::build(root)?;
    let target = std::path::absolute(target(root))?;
    let python = match environment(root) {
        Ok(bin) => python(root, &target, &bin)?,
        Err(error) => without(&target, "clients/python", &error)?,
    };
    let go = match succeed(command("go", &["list", "-m"], root.join(GO))) {
        Ok(()) => go(root, &target)?,
        Err(error) => without(&target, "clients/go", &error)?,
    };
    Ok(python && go)
}

fn python(root: &Path, target: &Path, bin: &Path) -> anyhow::Result<bool> {
    let folder = root.join(PYTHON);
    // Nothing is left beside the sources.
    let types = format!("--cache-dir={}", target.join("mypy").display());
    let mut passed = passes(command(bin.join("mypy"), &[&types[..]], folder.clone()))?;
    let arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider"];
    let mut tests = command(bin.join("python"), &arguments, folder);
    tests.env("PYTHONDONTWRITEBYTECODE", "1").env("ENCKE", target.join("debug/encke"));
    passed &= passes(tests)?;
    Ok(passed)
}

fn go(root: &Path, target: &Path) -> anyhow::Result<bool> {
    let folder = root.join(GO);
    let mut format = command("gofmt", &["-l", "."], folder.clone());
    let unformatted = format.output().context("gofmt does not start")?.stdout;
    print!("{}", String::from_utf8_lossy(&unformatted));
    let mut passed = unformatted.is_empty();
    passed &= passes(command("go", &["vet", "./..."], folder.clone()))?;
    // What depends on a server's behaviour is run again, though no source of Go has changed.
    let mut tests = command("go", &["test", "-count=1", "./..."], folder);
    tests.env("ENCKE", target.join("debug/encke"));
    passed &= passes(tests)?;
    Ok(passed)
}

/// The programs of the environment, as the list wants it.
fn environment(root: &Path) -> anyhow::Result<PathBuf> {
    let list = root.join(PYTHON).join("requirements.txt");
    let wanted = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    let key = digest(&[&wanted, &python_version()?]);
    Tool { link: "python", key: &key, inside: "bin" }.ensure(root, |folder| {
        // Debian's Python has no pip to put into it; the system's can install from outside.
        let folder_text = folder.display().to_string();
        let venv = ["-m", "venv", "--without-pip", &folder_text[..]];
        succeed(command("python3", &venv, root.to_owned()))?;
        let mut pip = command("pip3", &["--python"], root.to_owned());
        pip.arg(folder.join("bin/python"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        pip.args(["--only-binary=:all:", "--require-hashes", "--requirement"]).arg(&list);
        succeed(pip)
    })
}

fn command(program: impl AsRef<std::ffi::OsStr>, arguments: &[&str], folder: PathBuf) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn passes(mut command: Command) -> anyhow::Result<bool> {
    let program = command.get_program().to_string_lossy().into_owned();
    Ok(command.status().with_context(|| format!("{program} does not start"))?.success())
}

fn succeed(command: Command) -> anyhow::Result<()> {
    let line = format!("{command:?}");
    ensure!(passes(command)?, "failed: {line}");
    Ok(())
}

/// Tests that cannot be run here: told, and where the build server asks, failed.
fn without(target: &Path, what: &str, why: &anyhow::Error) -> anyhow::Result<bool> {
    println!("{what} is not tested: {why:#}");
    let file = skipped::file(target);
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
    writeln!(file, "{what}: {why:#}")?;
    let is_ci = std::env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"));
    Ok(!is_ci)
}
