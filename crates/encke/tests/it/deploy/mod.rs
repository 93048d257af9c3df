//! What stands in `deploy/`: checked by the schemas of those who read it, every command line by the
//! program itself, and the balancer's settings at work before nodes.

mod balancer;
mod compose;
mod kubernetes;
mod monitoring;
mod proxies;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Finished, Program, encke};

/// The folder `deploy/NAME`.
fn folder(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy")).join(name)
}

/// A file of `deploy/`.
fn text(path: &str) -> String {
    fs::read_to_string(folder(path)).unwrap()
}

fn texts(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|text| text.as_str().unwrap().to_owned()).collect()
}

/// A command line of the program, and which variables it is given.
struct Line {
    arguments: Vec<String>,
    variables: Vec<String>,
}

/// What the program itself says to a command line: with `--help` at its end it has read all that
/// stands before, and does nothing.
fn read_by_encke(arguments: &[String]) -> Finished {
    Program::run(encke(arguments).arg("--help"))
}

/// Each line is understood, and its variables are those of options.
#[track_caller]
fn check_lines(lines: &[Line]) {
    for Line { arguments, variables } in lines {
        let read = read_by_encke(arguments);
        assert_eq!(read.code(), Some(0), "{arguments:?}: {}", read.stderr);
        for name in variables.iter().filter(|name| name.starts_with("ENCKE_")) {
            let known = read.stdout.contains(&format!("[env: {name}]"));
            assert!(known, "{name} is no variable of encke {}", arguments[0]);
        }
    }
}

/// Those that people are told to type: in comments, indented, to two spaces or the end.
fn lines_to_type(text: &str) -> Vec<Line> {
    let typed = text.lines().filter_map(|line| line.trim_start().strip_prefix("#   encke "));
    let words = typed.map(|line| line.split("  ").next().unwrap().split(' '));
    words
        .map(|words| Line { arguments: words.map(Into::into).collect(), variables: Vec::new() })
        .collect()
}

#[test]
fn commands_to_type_are_understood_and_slips_are_not() {
    let typed = [
        "kubernetes/kustomization.yaml",
        "compose/compose.yaml",
        "compose/env.example",
        "proxies/Caddyfile",
        "proxies/nginx.conf",
        "proxies/haproxy.cfg",
        "monitoring/prometheus.yaml",
    ];
    let lines: Vec<Line> = typed.iter().flat_map(|path| lines_to_type(&text(path))).collect();
    assert!(!lines.is_empty());
    check_lines(&lines);
    for slip in [&["serve", "--nodes=a"][..], &["serve", "--grace=soon"], &["key", "make"]] {
        let read = read_by_encke(&slip.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
        assert_eq!(read.code(), Some(2), "{slip:?}: {read:?}");
    }
}

/// The image's own command, and what it takes from the repository.
#[test]
fn dockerfile_copies_what_is_there_and_starts_what_is_understood() {
    let dockerfile = text("compose/Dockerfile");
    let words = |instruction: &str| {
        let line = dockerfile.lines().find_map(|line| line.strip_prefix(instruction)).unwrap();
        texts(&serde_json::from_str(line).unwrap())
    };
    assert_eq!(words("ENTRYPOINT "), ["encke"]);
    let variables =
        dockerfile.lines().filter_map(|line| line.strip_prefix("ENV ")?.split('=').next());
    let variables = variables.map(Into::into).collect();
    check_lines(&[Line { arguments: words("CMD "), variables }]);
    // What is let into the build is there, and has all members of the workspace.
    let root = folder("..");
    let ignored = text("compose/Dockerfile.dockerignore");
    let kept: BTreeSet<&str> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    kept.iter().for_each(|path| assert!(root.join(path).exists(), "{path}"));
    let copy = tempfile::tempdir().unwrap();
    for path in kept {
        let to = copy.path().join(path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(fs::canonicalize(root.join(path)).unwrap(), to).unwrap();
    }
    let mut metadata = Command::new(env!("CARGO"));
    metadata.args(["metadata", "--no-deps", "--locked", "--offline", "--format-version=1"]);
    let members = Program::run(metadata.current_dir(copy.path()));
    assert_eq!(members.code(), Some(0), "{members:?}");
}
