//! Clients of others, each as its registry has it: what `compat/` names and locks by hashes is
//! installed once for what `compat/` says ([`crate::store`]), and linked to below
//! `target/tools/compat`. The test `compat` of `crates/encke` runs them.
//!
//! A folder of `compat/` is copied and installed in its copy, so nothing comes into the sources.
//! With two processors it took 3 s for JavaScript, 10 s for Python, 8 s for Go, 50 s for Rust, 20 s
//! for Java and 43 s for the collector. When a source is there, it takes nothing but a look at it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::node::Node;
use crate::store::{Tool, digest};
use crate::tools::{pip_into, pip_runs, python_version};

/// A folder, and what is done in its copy.
type Part = (&'static str, fn(&Path, &Path) -> anyhow::Result<()>);

const PARTS: [Part; 14] = [
    ("compat/collector", collector),
    ("compat/go", go),
    ("compat/java", java),
    // A library of publishers, and the cases of Mercure for any hub; the test `mercure` runs them.
    ("compat/mercure", python),
    ("compat/node", node),
    // Debian's own packages; they come with the programs.
    ("compat/perl", |_, _| Ok(())),
    // Clients and libraries of Pusher Channels; the test `pusher` runs them.
    ("compat/pusher-go", go),
    ("compat/pusher-node", node),
    ("compat/pusher-python", python),
    ("compat/python", python),
    ("compat/rust", rust),
    // The conformance tests of Durable Streams, and its client; the test `durable` runs them.
    ("compat/streams", node),
    // What examples take; their tests in Chromium link to their libraries.
    ("examples/assistant", node),
    ("examples/mercure", node),
];

/// Plugins of Maven are named with their version too.
const MAVEN_COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Installs what is not there, and tells why where that cannot be.
pub(crate) fn ensure(root: &Path) {
    for (name, install) in PARTS {
        if let Err(error) = ensure_part(root, name, install) {
            println!("the programs in {name} will be skipped: {error:#}");
        }
    }
}

fn ensure_part(
    root: &Path,
    name: &str,
    install: fn(&Path, &Path) -> anyhow::Result<()>,
) -> anyhow::Result<PathBuf> {
    let sources = sources(&root.join(name))?;
    let key = digest(&[&format!("{sources:?}"), &python_version()?]);
    Tool { link: name, key: &key, inside: "" }.ensure(root, |to| {
        copy(&sources, to)?;
        install(root, to)
    })
}

fn copy(sources: &[(PathBuf, String)], to: &Path) -> anyhow::Result<()> {
    for (path, text) in sources {
        let copy = to.join(path);
        fs::create_dir_all(copy.parent().context("a file is in a folder")?)?;
        fs::write(copy, text)?;
    }
    Ok(())
}

/// All files below `folder`, which are text, with their paths from there. What tools leave behind
/// when somebody calls them in the sources is none of it.
fn sources(folder: &Path) -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(below) = folders.pop() {
        let here = folder.join(&below);
        for entry in fs::read_dir(&here).with_context(|| here.display().to_string())? {
            let entry = entry?;
            let path = below.join(entry.file_name());
            if ["node_modules", "target", "__pycache__"].iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(entry.path());
                found.push((path, text.with_context(|| entry.path().display().to_string())?));
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn node(root: &Path, to: &Path) -> anyhow::Result<()> {
    let node = Node::ensure(root)?;
    ensure!(node.npm(to, &crate::node::CLEAN_INSTALL)?, "npm cannot fetch them");
    // Which of several Nodes it is.
    let program = node.find().context("there is no node")?;
    Ok(std::os::unix::fs::symlink(program, to.join("node"))?)
}

fn python(_: &Path, to: &Path) -> anyhow::Result<()> {
    let mut pip = pip_into(&to.join("packages"));
    pip.args(["--require-hashes", "--only-binary=:all:", "--requirement", "requirements.txt"]);
    pip.current_dir(to);
    pip_runs(pip, "them")
}

fn go(_: &Path, to: &Path) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o", "clients", "."]).current_dir(to);
    run(go.env_remove("GOOS").env_remove("GOARCH"), "go cannot build them")
}

/// Not a client, but what traces are sent to; the test `traces` runs it.
fn collector(_: &Path, to: &Path) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o", "collector", "."]).current_dir(to);
    run(go.env_remove("GOOS").env_remove("GOARCH"), "go cannot build it")
}

fn rust(_: &Path, to: &Path) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked"]).current_dir(to);
    cargo.env("CARGO_TARGET_DIR", to.join("target")).env("CARGO_INCREMENTAL", "0");
    run(&mut cargo, "cargo cannot build them")?;
    fs::rename(to.join("target/debug/encke-compat"), to.join("clients"))?;
    // 300 MB that nobody asks for again.
    Ok(fs::remove_dir_all(to.join("target"))?)
}

fn java(_: &Path, to: &Path) -> anyhow::Result<()> {
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", MAVEN_COPY, "-DoutputDirectory=jars"]);
    run(maven.current_dir(to), "mvn cannot fetch them")?;
    // Maven locks versions and no bytes.
    let mut sums = Command::new("sha256sum");
    sums.args(["--check", "--strict", "--quiet", "jars.sha256"]).current_dir(to);
    run(&mut sums, "a jar is another one than compat/java/jars.sha256 says")?;
    let listed = fs::read_to_string(to.join("jars.sha256"))?;
    let jars: Vec<&str> = listed.lines().filter_map(|line| line.split("  ").nth(1)).collect();
    ensure!(fs::read_dir(to.join("jars"))?.count() == jars.len(), "a jar is not in jars.sha256");
    // The compiler as a module, for Java without its development kit has no `javac`.
    let mut javac = Command::new("java");
    javac.args(["--module", "jdk.compiler/com.sun.tools.javac.Main"]);
    javac.args(["-cp", &jars.join(":"), "-d", "classes", "Main.java"]).current_dir(to);
    run(&mut javac, "java cannot compile Main.java")
}

fn run(command: &mut Command, otherwise: &'static str) -> anyhow::Result<()> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.with_context(|| command.get_program().display().to_string())?;
    ensure!(status.success(), "{otherwise}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_of_all_sources_and_nothing_that_tools_leave() {
        let folder = std::env::temp_dir().join(format!("encke-compat-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("src/node_modules")).unwrap();
        fs::write(from.join("src/a"), "1").unwrap();
        fs::write(from.join("src/node_modules/b"), "2").unwrap();
        let found = sources(&from).unwrap();
        copy(&found, &to).unwrap();
        assert_eq!(found, [(PathBuf::from("src/a"), "1".to_owned())]);
        assert_eq!(fs::read_to_string(to.join("src/a")).unwrap(), "1");
        fs::remove_dir_all(&folder).unwrap();
    }
}
