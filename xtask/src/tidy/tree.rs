//! The project's files, as the rules see them: names and text.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// Folders that no commit holds.
const UNTRACKED: [&str; 7] =
    [".git", "target", "encke-data", "corpus", "artifacts", "coverage", "node_modules"];

/// The rules' own source names what it forbids.
const OWN: &str = "xtask/src/tidy/";

/// A file with UTF-8 text in it.
#[derive(Debug)]
pub(super) struct File {
    /// From the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    /// The lines with their numbers, from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub(super) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    pub(super) fn is_markdown(&self) -> bool {
        self.path.ends_with(".md")
    }

    pub(super) fn is_script(&self) -> bool {
        self.path.ends_with(".sh") || self.text.starts_with("#!/usr/bin/env bash")
    }

    /// The line at which tests begin; the whole file when it holds nothing else.
    pub(super) fn tests_from(&self) -> usize {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        let whole = ["/tests/", "/sim/", "/benches/"].iter().any(|part| self.path.contains(part));
        if whole || name == "tests.rs" || name == "testing.rs" {
            return 1;
        }
        let opens =
            |line: &str| line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
        let mut lines = self.lines().peekable();
        while let Some((number, line)) = lines.next() {
            if opens(line) && lines.peek().is_some_and(|(_, next)| next.starts_with("mod tests {"))
            {
                return number;
            }
        }
        usize::MAX
    }

    pub(super) fn fault(&self, line: usize, what: impl Into<String>) -> Fault {
        Fault { path: self.path.clone(), line, what: what.into() }
    }
}

/// A rule that is broken: where, and what to do.
#[derive(Debug)]
pub(super) struct Fault {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// All files of the project: those that are text, and the paths of the others.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: Vec<File>,
    pictures: Vec<String>,
}

impl Tree {
    /// Reads the files under `root`.
    pub(super) fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        tree.gather(root, "")?;
        tree.files.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(tree)
    }

    /// A project made up for a test.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Tree { files: files.iter().map(file).collect(), pictures: Vec::new() }
    }

    pub(super) fn files(&self) -> &[File] {
        &self.files
    }

    /// The Rust files, but for those that state the rules.
    pub(super) fn rust(&self) -> impl Iterator<Item = &File> {
        self.foreign().filter(|file| file.is_rust())
    }

    /// All files but those that state the rules.
    pub(super) fn foreign(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| !file.path.starts_with(OWN))
    }

    pub(super) fn find(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether `path` is a file or a folder.
    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let mut paths = self.files.iter().map(|file| &file.path).chain(&self.pictures);
        paths.any(|file| file == path || file.starts_with(&folder))
    }

    fn gather(&mut self, directory: &Path, prefix: &str) -> anyhow::Result<()> {
        let unreadable = || format!("cannot read {}", directory.display());
        for entry in fs::read_dir(directory).with_context(unreadable)? {
            let entry = entry.with_context(unreadable)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().with_context(unreadable)?;
            if kind.is_dir() && !UNTRACKED.contains(&name.as_str()) {
                self.gather(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                match fs::read_to_string(entry.path()) {
                    Ok(text) => self.files.push(File { path, text }),
                    Err(_) => self.pictures.push(path),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_reads_like_a_compilers() {
        let tree = Tree::of(&[("a/b.rs", "one\ntwo\n")]);
        let fault = tree.files()[0].fault(2, "say three");
        assert_eq!(fault.to_string(), "a/b.rs:2: say three");
    }

    #[test]
    fn tests_begin_at_their_module_or_with_the_file() {
        let from = |path, text| Tree::of(&[(path, text)]).files()[0].tests_from();
        assert_eq!(from("src/a.rs", "fn a() {}\n\n#[cfg(test)]\nmod tests {\n}\n"), 3);
        assert_eq!(from("src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n"), usize::MAX);
        assert_eq!(from("src/tests.rs", "fn a() {}\n"), 1);
        assert_eq!(from("x/tests/it/a.rs", "fn a() {}\n"), 1);
    }

    #[test]
    fn folder_is_there_when_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/decisions/0001-a.md", "# A\n")]);
        assert!(tree.has("docs/decisions") && tree.has("docs/") && !tree.has("doc"));
    }
}
