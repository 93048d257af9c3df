//! Rules about files as text: how long, how wide, and what must not be left in them.

use super::tree::{Fault, File, Tree};

/// A reader takes a source of this many lines in one sitting.
const LINES_MAX: usize = 400;

/// Pages for users are looked things up in, by their headings, and not read in one sitting.
const PAGE_LINES_MAX: usize = 500;

/// Kinds of files that people write by hand and read in an editor.
const HAND_WRITTEN: [&str; 7] = [".rs", ".toml", ".md", ".sh", ".js", ".css", ".html"];

const COLUMNS_MAX: usize = 100;

/// What says that something is not done, as whole words.
const UNDONE: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Macros for trying things out.
const TRYING: [&str; 3] = ["todo!", "dbg!", "unimplemented!"];

/// Where one machine keeps things that others do not have.
const MACHINE_PATHS: [&str; 3] = ["/home/", "/root/", "/srv/"];

/// Files made by programs, or by lawyers.
fn is_foreign(file: &File) -> bool {
    file.path.ends_with("Cargo.lock") || file.path.starts_with("LICENSE")
}

pub(super) fn file_lengths(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files() {
        let lines = file.text.lines().count();
        let hand_written = HAND_WRITTEN.iter().any(|kind| file.path.ends_with(kind));
        let most = if file.path.ends_with(".md") { PAGE_LINES_MAX } else { LINES_MAX };
        if hand_written && lines > most {
            let what = format!("{lines} lines, at most {most} fit a reader's head: split it");
            faults.push(file.fault(lines, what));
        }
    }
    faults
}

pub(super) fn columns(tree: &Tree) -> Vec<Fault> {
    let kinds = [".rs", ".toml", ".md"];
    let checked = |file: &&File| {
        (kinds.iter().any(|kind| file.path.ends_with(kind)) || file.is_script())
            && !is_foreign(file)
    };
    // A row of a table cannot be broken, nor can what a program printed, nor a crate's edges.
    let whole = |file: &File, line: &str| {
        file.is_markdown()
            && (line.starts_with('|') || line.starts_with(' ') || line.contains(" -> "))
    };
    let mut faults = Vec::new();
    for file in tree.files().iter().filter(checked) {
        for (number, line) in file.lines() {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !whole(file, line) {
                let what = format!("{columns} columns, at most {COLUMNS_MAX}: break the line");
                faults.push(file.fault(number, what));
            }
        }
    }
    faults
}

/// Programs that join files, or add a line, would put two lines into one.
pub(super) fn last_lines(tree: &Tree) -> Vec<Fault> {
    let is_open = |file: &&File| {
        HAND_WRITTEN.iter().any(|kind| file.path.ends_with(kind))
            && !file.text.is_empty()
            && !file.text.ends_with('\n')
    };
    let last = |file: &File| file.fault(file.text.lines().count(), "end the line: add a newline");
    tree.files().iter().filter(is_open).map(last).collect()
}

pub(super) fn leftovers(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    // Hardly any file has one, and to look for it in the whole takes a quarter of the time.
    let may_have_one = |file: &&File| {
        UNDONE.iter().chain(&TRYING).any(|word| file.text.contains(word)) && !is_foreign(file)
    };
    for file in tree.foreign().filter(may_have_one) {
        for (number, line) in file.lines() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let mut words = line.split(|c| !is_word(c));
            if let Some(word) = words.find(|word| UNDONE.contains(word)) {
                faults.push(file.fault(number, format!("{word}: do it, or file an issue")));
            }
            let trying = TRYING.iter().find(|word| file.is_rust() && line.contains(*word));
            if let Some(word) = trying {
                faults.push(file.fault(number, format!("{word} is for trying things out")));
            }
        }
    }
    faults
}

pub(super) fn machine_paths(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.foreign() {
        for (number, line) in file.lines() {
            if let Some(path) = MACHINE_PATHS.iter().find(|path| starts_in(line, path)) {
                let what = format!("{path} is a path of one machine: name it from the root");
                faults.push(file.fault(number, what));
            }
        }
    }
    faults
}

/// Whether `path` begins an absolute path in `line`, not the middle of another one.
fn starts_in(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '}' | '_' | '-' | '/'))
    })
}

pub(super) fn module_docs(tree: &Tree) -> Vec<Fault> {
    let undocumented = |file: &&File| !file.text.starts_with("//! ");
    let what = "say in a //! comment at the top what the module is for and what it does not do";
    tree.files()
        .iter()
        .filter(|file| file.is_rust())
        .filter(undocumented)
        .map(|file| file.fault(1, what))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rule: fn(&Tree) -> Vec<Fault>, path: &str, text: &str) -> Vec<String> {
        rule(&Tree::of(&[(path, text)])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn long_file_is_caught_unless_listed() {
        let long = "//! x\n".repeat(LINES_MAX + 1);
        assert_eq!(faults(file_lengths, "a.rs", &long).len(), 1);
        assert_eq!(faults(file_lengths, "a.md", &long).len(), 0);
        assert_eq!(faults(file_lengths, "Cargo.lock", &long).len(), 0);
    }

    #[test]
    fn wide_line_is_caught_by_characters_not_bytes() {
        assert_eq!(faults(columns, "a.rs", &"é".repeat(100)).len(), 0);
        let caught = faults(columns, "a.rs", &format!("//! x\n{}", "é".repeat(101)));
        assert!(caught[0].starts_with("a.rs:2: 101 columns"), "{caught:?}");
    }

    #[test]
    fn last_line_without_an_end_is_caught() {
        assert_eq!(
            faults(last_lines, "a.md", "# A\n\nb")[0],
            "a.md:3: end the line: add a newline"
        );
        assert_eq!(faults(last_lines, "a.md", "# A\n").len(), 0);
        assert_eq!(faults(last_lines, "a.svg", "<svg/>").len(), 0);
    }

    #[test]
    fn leftover_is_caught_as_a_word_only() {
        assert_eq!(faults(leftovers, "a.md", "see TODO.").len(), 1);
        assert_eq!(faults(leftovers, "a.rs", "    dbg!(x);").len(), 1);
        assert_eq!(faults(leftovers, "a.rs", "const TODOS: [u8; 0] = [];").len(), 0);
    }

    #[test]
    fn path_of_a_machine_is_caught() {
        assert_eq!(faults(machine_paths, "a.md", "cd /home/me/x").len(), 1);
        assert_eq!(faults(machine_paths, "a.md", "`/root/x`").len(), 1);
        assert_eq!(faults(machine_paths, "a.md", "https://h.example/home/me").len(), 0);
        assert_eq!(faults(machine_paths, "a.md", "docs/srv/x").len(), 0);
    }

    #[test]
    fn module_without_a_doc_is_caught() {
        assert_eq!(faults(module_docs, "a.rs", "use std::io;\n").len(), 1);
        assert_eq!(faults(module_docs, "a.rs", "//! What it is for.\n").len(), 0);
    }
}
