//! Clients of others, each as its registry has it: what `compat/` names and locks by hashes is
//! installed below `target/tools/compat` the first time, and again where `compat/` has changed.
//! The test `compat` of `crates/encke` runs them.
//!
//! A folder of `compat/` is copied and installed in its copy, so nothing comes into the sources. It
//! took 3 s for JavaScript, 10 s for Python, 8 s for Go, 50 s for Rust, 20 s for Java and 43 s for
//! the collector with two processors; nothing but a look at each source when it is there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

use crate::node::{Node, target};

/// A folder of `compat/`, and what is done in its copy.
type Part = (&'static str, fn(&Path) -> anyhow::Result<()>);

const PARTS: [Part; 7] = [
    ("collector", collector),
    ("go", go),
    ("java", java),
    ("node", node),
    // Debian's own packages; they come with the programs.
    ("perl", |_| Ok(())),
    ("python", python),
    ("rust", rust),
];

/// Written when a copy is complete, with what it was made of.
const INSTALLED: &str = "installed";

/// Plugins of Maven are named with their version too.
const MAVEN_COPY: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";

/// Installs what is not there, and tells why where that cannot be.
pub(crate) fn ensure(root: &Path) {
    for (name, install) in PARTS {
        let to = target(root).join("tools/compat").join(name);
        if let Err(error) = ensure_part(&root.join("compat").join(name), &to, install) {
            println!("the clients in compat/{name} will be skipped: {error:#}");
        }
    }
}

fn ensure_part(
    from: &Path,
    to: &Path,
    install: fn(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let sources = sources(from)?;
    let wanted = format!("{sources:?}");
    let note = to.join(INSTALLED);
    if fs::read_to_string(&note).is_ok_and(|text| text == wanted) {
        return Ok(());
    }
    println!("installing the clients in compat/{}", from.file_name().unwrap_or_default().display());
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    for (path, text) in &sources {
        let copy = to.join(path);
        fs::create_dir_all(copy.parent().context("a file is in a folder")?)?;
        fs::write(copy, text)?;
    }
    // Tools want whole paths.
    install(&std::path::absolute(to)?)?;
    Ok(fs::write(note, wanted)?)
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

fn node(to: &Path) -> anyhow::Result<()> {
    let target = to.ancestors().nth(3).context("it is below the target")?;
    let node = Node::ensure(target)?;
    ensure!(node.npm(to, &crate::node::CLEAN_INSTALL)?, "npm cannot fetch them");
    // Which of several Nodes it is.
    let program = node.find().context("there is no node")?;
    Ok(std::os::unix::fs::symlink(program, to.join("node"))?)
}

fn python(to: &Path) -> anyhow::Result<()> {
    let mut pip = Command::new("pip3");
    pip.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    pip.args(["--require-hashes", "--only-binary=:all:", "--root-user-action=ignore"]);
    pip.args(["--target", "packages", "--requirement", "requirements.txt"]);
    run(pip.current_dir(to), "pip3 cannot fetch them")
}

fn go(to: &Path) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o", "clients", "."]).current_dir(to);
    run(go.env_remove("GOOS").env_remove("GOARCH"), "go cannot build them")
}

/// Not a client, but what traces are sent to; the test `traces` runs it.
fn collector(to: &Path) -> anyhow::Result<()> {
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-o", "collector", "."]).current_dir(to);
    run(go.env_remove("GOOS").env_remove("GOARCH"), "go cannot build it")
}

fn rust(to: &Path) -> anyhow::Result<()> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked"]).current_dir(to);
    cargo.env("CARGO_TARGET_DIR", to.join("target")).env("CARGO_INCREMENTAL", "0");
    run(&mut cargo, "cargo cannot build them")?;
    fs::rename(to.join("target/debug/encke-compat"), to.join("clients"))?;
    // 300 MB that nobody asks for again.
    Ok(fs::remove_dir_all(to.join("target"))?)
}

fn java(to: &Path) -> anyhow::Result<()> {
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

    fn install(to: &Path) -> anyhow::Result<()> {
        Ok(fs::write(to.join("out"), "made")?)
    }

    #[test]
    fn part_is_installed_once_and_again_when_its_sources_change() {
        let folder = std::env::temp_dir().join(format!("encke-compat-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        fs::create_dir_all(from.join("src")).unwrap();
        fs::write(from.join("src/a"), "1").unwrap();
        let made = || fs::remove_file(to.join("out")).is_ok();
        ensure_part(&from, &to, install).unwrap();
        assert!(made() && fs::read_to_string(to.join("src/a")).unwrap() == "1");
        ensure_part(&from, &to, install).unwrap();
        assert!(!made());
        fs::write(from.join("src/a"), "2").unwrap();
        ensure_part(&from, &to, |_| anyhow::bail!("no registry")).unwrap_err();
        ensure_part(&from, &to, install).unwrap();
        assert!(made(), "one that failed is tried again");
        fs::remove_dir_all(&folder).unwrap();
    }
}
