//! The rules that code and documents speak in the field's words: what a newcomer would have to
//! learn here first stands in a list, with the word that everybody knows. And that the doc of an
//! item names its item.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::tree::{Fault, File, Tree};

/// Words of our own that were given up, and what they are called. This list only grows.
const GIVEN_UP: [(&str, &str); 28] = [
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
    ("judge", "check, or decide"),
    ("keeper", "event store, owner, or replica sync"),
    ("keepers", "owners"),
    ("ledger", "postgres, or store of record"),
    ("ledgers", "stores of record"),
    ("lent", "leased"),
    ("loan", "lease"),
    ("nap", "short sleep"),
    ("oblivion", "evicted range"),
    ("poster", "sender, or log applier"),
    ("staff", "start"),
    ("stranger", "client, or address"),
    ("taker", "receiver, or successor"),
    ("takers", "receivers"),
];

/// Words of our own that are still there: what they should be called, and how often each stands in
/// code and documents. The counts only shrink, and a word that is gone moves to those given up.
///
/// Some stay for good: `untold` is a file's name and a key of JSON, `verdict` a key of JSON.
const COUNTED: [(&str, &str, usize); 6] = [
    ("crowd", "users, load or connections", 543),
    ("crowds", "users, loads or connections", 22),
    ("linger", "close slowly, or wait", 32),
    ("untold", "pending", 12),
    ("verdict", "result", 94),
    ("whoever", "the client, the node, the caller", 504),
];

/// This file: the project has it, one that is made up for a test does not.
const HERE: &str = "xtask/src/tidy/words.rs";

/// How the doc of an item may not begin: what shows one item alone, as an editor does, does not
/// show what that points at.
const POINTING: [&str; 2] = ["/// The same", "/// That "];

/// A changelog tells what things were called.
const HISTORY: &str = "CHANGELOG.md";

/// No word that was given up is there, and those that are to become fewer do: where they are fewer,
/// their count here follows.
pub(super) fn of_the_field(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut counts = COUNTED.map(|_| 0);
    let mut last = COUNTED.map(|_| None);
    for (file, number, part) in words(tree) {
        if let Some((word, instead)) = GIVEN_UP.iter().find(|(word, _)| *word == part) {
            faults.push(file.fault(number, format!("`{word}` is said here as {instead}")));
        }
        if let Some(at) = COUNTED.iter().position(|(word, ..)| *word == part) {
            counts[at] += 1;
            last[at] = Some((file, number));
        }
    }
    for (((word, instead, most), count), last) in COUNTED.into_iter().zip(counts).zip(last) {
        let what = match count.cmp(&most) {
            Ordering::Equal => continue,
            Ordering::Greater => {
                format!("`{word}` stands {count} times, {most} are the most: say {instead}")
            }
            Ordering::Less if count == 0 => {
                format!("`{word}` is gone: move it from COUNTED to GIVEN_UP")
            }
            Ordering::Less => {
                format!("`{word}` stands {count} times: lower it from {most} in tidy/words.rs")
            }
        };
        let here = || tree.find(HERE).map(|file| (file, 1));
        faults.extend(last.or_else(here).map(|(file, number)| file.fault(number, what)));
    }
    faults
}

/// The words of code and documents, each with where it stands.
fn words(tree: &Tree) -> impl Iterator<Item = (&File, usize, String)> {
    let written =
        |path: &str| path != HISTORY && [".rs", ".md"].iter().any(|kind| path.ends_with(kind));
    let files = tree.foreign().filter(move |file| written(&file.path));
    // What crosses from one version to the next keeps its name.
    let lines = files.flat_map(|file| {
        let lines = file.lines().filter(|(_, line)| !line.contains("#[serde(rename = "));
        lines.map(move |(number, line)| (file, number, line))
    });
    lines.flat_map(|(file, number, line)| parts(line).map(move |part| (file, number, part)))
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

    #[test]
    fn words_that_are_counted_may_only_become_fewer() {
        for (word, _, most) in COUNTED {
            let found = |count: usize| {
                let text = format!("// {word}\n").repeat(count);
                let faults = of_the_field(&Tree::of(&[("crates/a/src/b.rs", &text)]));
                faults.iter().map(ToString::to_string).collect::<Vec<_>>()
            };
            assert_eq!(found(most), [""; 0]);
            let (more, fewer) = (found(most + 1), found(most - 1));
            assert!(more.len() == 1 && more[0].contains("are the most: say"), "{more:?}");
            assert!(fewer.len() == 1 && fewer[0].contains("lower it from"), "{fewer:?}");
            assert_eq!(found(0), [""; 0], "a project made up for a test");
        }
        let gone = of_the_field(&Tree::of(&[(HERE, "")]));
        assert_eq!(gone.len(), COUNTED.len(), "{gone:?}");
        assert!(gone.iter().all(|fault| fault.to_string().contains("is gone")), "{gone:?}");
    }
}
