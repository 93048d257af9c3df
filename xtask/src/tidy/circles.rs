//! The rule that the modules of a crate form no circle: who reads one should find below it only
//! what it stands on.
//!
//! A module uses another where its files, but for tests, name that one as `crate::other`, or
//! something that the root of the crate hands on from it (`pub use other::Thing`, `crate::Thing`).
//! Only the modules of the root are looked at; what lies within one may know each other.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Fault, File, Tree};

/// Who uses whom.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn modules(tree: &Tree) -> Vec<Fault> {
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in tree.rust() {
        if let Some((krate, _)) = file.path.split_once("/src/") {
            crates.entry(krate).or_default().push(file);
        }
    }
    let mut faults = Vec::new();
    for (krate, files) in crates {
        // A program's beside a library is a crate of its own, which has no modules.
        let roots = ["lib.rs", "main.rs"].map(|name| format!("{krate}/src/{name}"));
        let root = roots.iter().find_map(|root| files.iter().find(|file| file.path == *root));
        let Some(root) = root else { continue };
        let tied = tied(&uses(krate, root, &files));
        if !tied.is_empty() {
            let names: Vec<&str> = tied.iter().map(String::as_str).collect();
            let names = names.join(", ");
            faults.push(root.fault(1, format!("modules know each other in a circle: {names}")));
        }
    }
    faults
}

/// The modules that can be reached from themselves.
fn tied(uses: &Uses) -> BTreeSet<String> {
    let reaches = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut next: Vec<&String> = uses.get(from).into_iter().flatten().collect();
        while let Some(module) = next.pop() {
            if seen.insert(module) {
                next.extend(uses.get(module).into_iter().flatten());
            }
        }
        seen.contains(from)
    };
    uses.keys().filter(|module| reaches(module)).cloned().collect()
}

fn uses(krate: &str, root: &File, files: &[&File]) -> Uses {
    let below = |file: &&File| {
        let inside = file.path.strip_prefix(krate)?.strip_prefix("/src/")?;
        Some(inside.to_owned())
    };
    let module_of = |inside: &str| {
        inside.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
    };
    let is_module = |name: &String| !["lib", "main", "tests", "testing"].contains(&name.as_str());
    let inside: Vec<(String, &File)> =
        files.iter().filter_map(|file| Some((below(file)?, *file))).collect();
    let modules: BTreeSet<String> =
        inside.iter().map(|(inside, _)| module_of(inside)).filter(is_module).collect();
    let handed_on = handed_on(&text(root), &modules);
    let mut uses = Uses::new();
    for (inside, file) in &inside {
        let module = module_of(inside);
        if !modules.contains(&module) {
            continue;
        }
        let text = text(file);
        // In the file of a module of the root that is the root.
        let above = if inside.contains('/') { None } else { Some("super::") };
        for path in ["crate::"].into_iter().chain(above).flat_map(|start| paths(&text, start)) {
            let head = path.split("::").next().unwrap_or_default().trim();
            let used = modules.get(head).or_else(|| handed_on.get(head));
            if let Some(used) = used.filter(|used| **used != module) {
                uses.entry(module.clone()).or_default().insert(used.clone());
            }
        }
    }
    uses
}

/// What stands in a file before its tests, without comments.
fn text(file: &File) -> String {
    let until = file.tests_from();
    let lines = file.lines().take_while(|(number, _)| *number < until);
    lines
        .map(|(_, line)| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// What the root hands on, and from which of its modules.
fn handed_on(root: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for path in paths(root, "use ") {
        let path = path.trim_start_matches("self::").trim_start_matches("crate::");
        let Some(module) = path.split("::").next().and_then(|head| modules.get(head)) else {
            continue;
        };
        let last = path.rsplit("::").next().unwrap_or_default();
        let name = last.rsplit(" as ").next().unwrap_or_default().trim();
        names.insert(name.to_owned(), module.clone());
    }
    names
}

/// The paths that follow `start`, those in braces one by one.
fn paths(text: &str, start: &str) -> Vec<String> {
    text.match_indices(start).flat_map(|(at, _)| expanded(&text[at + start.len()..])).collect()
}

/// `a::{b, c::d}` is `a::b` and `a::c::d`, up to where a path ends.
fn expanded(text: &str) -> Vec<String> {
    let goes_on = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let end = text.find(|c| !goes_on(c)).unwrap_or(text.len());
    let (head, rest) = text.split_at(end);
    let Some(group) = rest.strip_prefix('{') else {
        let name = rest.strip_prefix(" as ").map(|name| name.split([',', ';', '}']).next());
        return vec![format!(
            "{head}{}",
            name.flatten().map_or(String::new(), |n| format!(" as {n}"))
        )];
    };
    let (mut depth, mut begin, mut paths) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let part = group[begin..at].trim();
                if !part.is_empty() {
                    paths.extend(expanded(part).iter().map(|path| format!("{head}{path}")));
                }
                begin = at + 1;
            }
            _ => {}
        }
        if c == '}' && depth == 0 && begin == at + 1 {
            break;
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_opened() {
        let paths = expanded("a::{b, c::{D, e::F}, G as H};");
        assert_eq!(paths, ["a::b", "a::c::D", "a::c::e::F", "a::G as H"]);
        assert_eq!(expanded("a::b as c;"), ["a::b as c"]);
        assert_eq!(expanded("a::f(1)"), ["a::f"]);
    }

    #[test]
    fn circles_are_found_whichever_way_they_are_named() {
        let root = "mod a;\nmod b;\nmod c;\npub use c::{Other as Thing, Third};\n";
        let faults = |a: &str, b: &str| {
            let c = "// crate::a\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n";
            modules(&Tree::of(&[
                ("crates/x/src/lib.rs", root),
                ("crates/x/src/a.rs", a),
                ("crates/x/src/b/mod.rs", b),
                ("crates/x/src/c.rs", c),
            ]))
        };
        assert!(faults("use crate::b::B;\nuse crate::{Thing, c};", "use super::a;").is_empty());
        for back in
            ["use crate::a::A;", "use crate::{\n    Thing, a::{A, B},\n};", "crate::a::f();"]
        {
            let found = faults("use crate::b::B;", back);
            assert_eq!(found.len(), 1, "{back}");
            assert!(found[0].to_string().contains("in a circle: a, b"), "{}", found[0]);
        }
    }

    #[test]
    fn programs_and_examples_are_looked_at_too() {
        for root in ["crates/x/src/main.rs", "xtask/src/main.rs", "examples/x/src/lib.rs"] {
            let folder = root.rsplit_once('/').unwrap().0;
            let (a, b) = (format!("{folder}/a.rs"), format!("{folder}/b.rs"));
            let tree = Tree::of(&[
                (root, "mod a;\nmod b;\n"),
                (&a, "use crate::b;"),
                (&b, "use crate::a;"),
            ]);
            assert_eq!(modules(&tree).len(), 1, "{root}");
        }
    }
}
