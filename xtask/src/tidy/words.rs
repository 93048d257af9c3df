//! The rule that code and documents speak in the field's words: what a newcomer would have to learn
//! here first stands in a list, with the word that everybody knows.

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
