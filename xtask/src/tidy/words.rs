//! The rules that code and documents speak in the field's words: what a newcomer would have to
//! learn here first stands in a list, with the word that everybody knows. And that the doc of an
//! item names its item.

use std::collections::BTreeMap;

use super::tree::{Fault, File, Tree};

/// Words of our own that were given up, and what they are called. This list only grows.
const GIVEN_UP: [(&str, &str); 24] = [
    ("barred", "closed, or refused"),
    ("belief", "trust"),
    ("desk", "queue, or turn"),
    ("door", "port, listener or socket"),
    ("doors", "ports"),
    ("ear", "subscriber"),
    ("ears", "subscribers"),
    ("gate", "barrier"),
    ("gates", "barriers"),
    ("giver", "sender, or predecessor"),
    ("givers", "senders"),
    ("heir", "successor"),
    ("heirs", "successors"),
    ("heritage", "handover"),
    ("keeper", "event store, owner, or replica sync"),
    ("keepers", "owners"),
    ("ledger", "postgres, or store of record"),
    ("ledgers", "stores of record"),
    ("loan", "lease"),
    ("oblivion", "evicted range"),
    ("poster", "sender, or log applier"),
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
        // What crosses from one version to the next keeps its name.
        let lines = file.lines().filter(|(_, line)| !line.contains("#[serde(rename = "));
        for (number, line) in lines {
            let given_up = |part: &String| GIVEN_UP.iter().find(|(word, _)| word == part);
            for (word, instead) in parts(line).filter_map(|part| given_up(&part)) {
                faults.push(file.fault(number, format!("`{word}` is said here as {instead}")));
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

/// Where types are defined, by name.
type Types<'t> = BTreeMap<&'t str, Vec<(&'t File, usize)>>;

/// Each type of a crate has a name of its own there.
pub(super) fn type_names(tree: &Tree) -> Vec<Fault> {
    let mut crates: BTreeMap<&str, Types<'_>> = BTreeMap::new();
    for file in tree.rust() {
        let Some((krate, _)) = file.path.split_once("/src/") else { continue };
        let until = file.tests_from();
        for (number, line) in file.lines().take_while(|(number, _)| *number < until) {
            if let Some(name) = type_name(line) {
                crates.entry(krate).or_default().entry(name).or_default().push((file, number));
            }
        }
    }
    let mut faults = Vec::new();
    for (name, places) in crates.values().flatten().filter(|(_, places)| places.len() > 1) {
        let (file, number) = places[1];
        let first = &places[0].0.path;
        faults.push(file.fault(number, format!("`{name}` is another type in {first}")));
    }
    faults
}

/// The type that a line at the top of a file defines.
fn type_name(line: &str) -> Option<&str> {
    let public = line.strip_prefix("pub").map(|rest| {
        let rest =
            rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).map_or(rest, |at| at.1);
        rest.trim_start()
    });
    let mut words = public.unwrap_or(line).split(|c: char| !c.is_alphanumeric() && c != '_');
    let kinds = ["struct", "enum", "type", "trait", "union"];
    kinds.contains(&words.next()?).then(|| words.next()).flatten().filter(|name| !name.is_empty())
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
    fn name_of_two_types_is_found_in_one_crate_and_not_in_two() {
        let faults = |other: &str| {
            let files =
                [("crates/a/src/b.rs", "pub(crate) struct State;\n"), (other, "enum State {}\n")];
            type_names(&Tree::of(&files)).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let found = faults("crates/a/src/c.rs");
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`State` is another type in crates/a/src/b.rs"), "{found:?}");
        assert_eq!(faults("crates/b/src/c.rs"), [""; 0]);
        assert_eq!(faults("crates/a/src/sim/c.rs"), [""; 0]);
        assert_eq!(type_name("pub type Name<'a> = &'a str;"), Some("Name"));
        assert_eq!(type_name("typed(1)"), None);
    }

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
