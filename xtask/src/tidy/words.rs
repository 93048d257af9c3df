//! The rules that code and documents speak in the field's words: what a newcomer would have to
//! learn here first stands in a list, with the word that everybody knows. And that the doc of an
//! item names its item.

use super::tree::{Fault, Tree};

/// Words of our own that were given up, and what they are called. This list only grows.
const GIVEN_UP: [(&str, &str); 10] = [
    ("desk", "queue, or turn"),
    ("giver", "sender, or predecessor"),
    ("givers", "senders"),
    ("heir", "successor"),
    ("heirs", "successors"),
    ("heritage", "handover"),
    ("oblivion", "evicted range"),
    ("staff", "start"),
    ("taker", "receiver, or successor"),
    ("takers", "receivers"),
];

/// How the doc of an item may not begin: what shows one item alone, as an editor does, does not
/// show what that points at.
const POINTING: [&str; 2] = ["/// The same", "/// That "];

/// A changelog tells what things were called.
const HISTORY: &str = "CHANGELOG.md";

pub(super) fn of_the_field(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let written =
        |path: &str| path != HISTORY && [".rs", ".md"].iter().any(|kind| path.ends_with(kind));
    for file in tree.foreign().filter(|file| written(&file.path)) {
        for (number, line) in file.lines() {
            for (word, instead) in GIVEN_UP {
                if parts(line).any(|part| part == word) {
                    faults.push(file.fault(number, format!("`{word}` is said here as {instead}")));
                }
            }
        }
    }
    faults
}

pub(super) fn item_docs(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.rust() {
        let until = file.tests_from();
        let mut is_first = true;
        for (number, line) in file.lines().take_while(|(number, _)| *number < until) {
            let line = line.trim_start();
            if is_first && POINTING.iter().any(|start| line.starts_with(start)) {
                faults.push(file.fault(number, "name what is meant: the doc is read alone"));
            }
            is_first = !line.starts_with("///");
        }
    }
    faults
}

/// The words of a line, those of `snake_case` and `CamelCase` one by one, in lower case.
fn parts(line: &str) -> impl Iterator<Item = String> {
    let mut spaced = String::with_capacity(line.len() + 8);
    let mut was_lower = false;
    for c in line.chars() {
        if !c.is_alphabetic() || (c.is_uppercase() && was_lower) {
            spaced.push(' ');
        }
        if c.is_alphabetic() {
            spaced.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    spaced.split_whitespace().map(str::to_owned).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn docs_that_point_at_another_are_found_where_they_begin() {
        let faults = |text: &str| item_docs(&Tree::of(&[("crates/a/src/b.rs", text)])).len();
        assert_eq!(faults("    /// The same, later.\nfn f() {}\n/// That of `a`.\n"), 2);
        assert_eq!(faults("/// A line.\n/// The same again.\n/// That is all.\nfn f() {}\n"), 0);
    }

    #[test]
    fn words_that_were_given_up_are_found_in_names_and_in_prose() {
        let faults = |text: &str| of_the_field(&Tree::of(&[("crates/a/src/b.rs", text)])).len();
        for text in ["// the heir serves", "struct TokenDesk;", "fn wait_for_heir() {}", "HEIR_MS"]
        {
            assert_eq!(faults(text), 1, "{text}");
        }
        for text in ["their turn", "struct Staffel;", "fn theirs() {}"] {
            assert_eq!(faults(text), 0, "{text}");
        }
        let history = Tree::of(&[("CHANGELOG.md", "the heir")]);
        assert!(of_the_field(&history).is_empty());
    }
}
