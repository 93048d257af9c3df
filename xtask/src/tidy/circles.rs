//! The rule that modules form no circle: who reads one should find below it only what it stands on.
//!
//! Modules are those of one folder: the root of a crate, or a module that has modules of its own.
//! One uses another where its files, but for tests, name that one (`crate::other`, `super::other`),
//! or something that their parent hands on from it (`pub use other::Thing`, `crate::Thing`). The
//! parent itself is not looked at: it knows all of them, and they may know it.

use std::collections::{BTreeMap, BTreeSet};

use super::tree::{Fault, File, Tree};

/// Who uses whom.
type Uses = BTreeMap<String, BTreeSet<String>>;

pub(super) fn modules(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (folder, files) in &folders(tree) {
        let Some(parent) = parent(tree, folder) else { continue };
        let tied = tied(&uses(folder, parent, files));
        if !tied.is_empty() {
            let names: Vec<&str> = tied.iter().map(String::as_str).collect();
            let names = names.join(", ");
            faults.push(parent.fault(1, format!("modules know each other in a circle: {names}")));
        }
    }
    faults
}

/// The folders of modules, with all files in them.
fn folders(tree: &Tree) -> BTreeMap<String, Vec<&File>> {
    let mut folders: BTreeMap<String, Vec<&File>> = BTreeMap::new();
    for file in tree.rust() {
        let Some((krate, inside)) = file.path.split_once("/src/") else { continue };
        let root = format!("{krate}/src");
        let below = inside.match_indices('/').map(|(at, _)| format!("{root}/{}", &inside[..at]));
        for folder in below.chain([root.clone()]) {
            folders.entry(folder).or_default().push(file);
        }
    }
    folders
}

/// The file of the module whose modules are in a folder. A program's beside a library is a crate of
/// its own, which has no modules.
fn parent<'t>(tree: &'t Tree, folder: &str) -> Option<&'t File> {
    let root = folder.ends_with("/src");
    let names = if root { ["/lib.rs", "/main.rs"] } else { ["/mod.rs", ".rs"] };
    names.iter().find_map(|name| tree.find(&format!("{folder}{name}")))
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

fn uses(folder: &str, parent: &File, files: &[&File]) -> Uses {
    let inside = |file: &File| file.path[folder.len() + 1..].to_owned();
    let module_of = |inside: &str| {
        inside.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned()
    };
    let is_module =
        |name: &String| !["lib", "main", "mod", "tests", "testing"].contains(&name.as_str());
    let modules: BTreeSet<String> =
        files.iter().map(|file| module_of(&inside(file))).filter(is_module).collect();
    let handed_on = handed_on(&text(parent), &modules);
    let within = folder.split_once("/src/").map(|(_, path)| path.replace('/', "::") + "::");
    let from_root = format!("crate::{}", within.unwrap_or_default());
    let mut uses = Uses::new();
    for file in files {
        let inside = inside(file);
        let module = module_of(&inside);
        if !modules.contains(&module) {
            continue;
        }
        let text = text(file);
        let named = paths(&text, &from_root).into_iter().chain(paths_up(&text, &inside));
        for path in named {
            let head = path.split("::").next().unwrap_or_default().trim();
            let used = modules.get(head).or_else(|| handed_on.get(head));
            if let Some(used) = used.filter(|used| **used != module) {
                uses.entry(module.clone()).or_default().insert(used.clone());
            }
        }
    }
    uses
}

/// The paths of a file that go up to the folder in which it is `inside`: `super::` as often as it
/// lies deep.
fn paths_up(text: &str, inside: &str) -> Vec<String> {
    let depth = inside.matches('/').count() - usize::from(inside.ends_with("/mod.rs"));
    let up = "super::".repeat(depth + 1);
    let begins = |at: &usize| !text[..*at].ends_with("super::");
    let places = text.match_indices(&up).map(|(at, _)| at).filter(begins);
    places.flat_map(|at| expanded(&text[at + up.len()..])).collect()
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

/// What a parent hands on, and from which of its modules.
fn handed_on(parent: &str, modules: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for path in paths(parent, "use ") {
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
        assert!(faults("use crate::b::B;\nuse crate::{Thing, c};", "use self::a;").is_empty());
        for back in [
            "use crate::a::A;",
            "use super::a;",
            "use crate::{\n    Thing, a::{A, B},\n};",
            "crate::a::f();",
        ] {
            let found = faults("use crate::b::B;", back);
            assert_eq!(found.len(), 1, "{back}");
            assert!(found[0].to_string().contains("in a circle: a, b"), "{}", found[0]);
        }
    }

    #[test]
    fn modules_of_a_module_are_looked_at_and_may_know_their_parent() {
        let faults = |one: &str, two: &str| {
            modules(&Tree::of(&[
                ("crates/x/src/main.rs", "mod cli;\n"),
                ("crates/x/src/cli/mod.rs", "mod one;\nmod two;\npub(crate) use two::Two;\n"),
                ("crates/x/src/cli/one.rs", one),
                ("crates/x/src/cli/two/mod.rs", two),
                ("crates/x/src/cli/two/deep.rs", "use super::super::one::One;\n"),
            ]))
        };
        assert!(faults("use super::Args;\n", "use super::one;\n").is_empty());
        for one in ["use super::two::Two;", "use crate::cli::two;", "use super::Two;"] {
            let found = faults(one, "");
            assert_eq!(found.len(), 1, "{one}");
            assert!(found[0].to_string().contains("cli/mod.rs:1: modules"), "{}", found[0]);
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
