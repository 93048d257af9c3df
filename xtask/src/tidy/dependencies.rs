//! Rules about what others wrote: each dependency has a reason, a user, one version and the usual
//! source.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::crates::{Member, members};
use super::tree::{Fault, File, Tree};

const ROOT: &str = "Cargo.toml";

/// A dependency stands in the root manifest under a comment that says what it is for (a comment
/// holds for the lines up to the next blank one), and some member uses it.
pub(super) fn reasons_and_users(tree: &Tree) -> Vec<Fault> {
    let Some(root) = tree.find(ROOT) else { return Vec::new() };
    let members = members(tree);
    let used: BTreeSet<&str> = members
        .iter()
        .flat_map(|m| [m.dependencies(false), m.dependencies(true)])
        .flatten()
        .collect();
    let names = names(root);
    let mut faults = Vec::new();
    let mut reason = false;
    for (number, line) in section(root) {
        if line.starts_with('#') {
            reason = true;
        } else if line.is_empty() {
            reason = false;
        }
        let Some((name, _)) = line.split_once(" =") else { continue };
        if !names.contains(name) {
            continue;
        }
        if !reason {
            faults.push(root.fault(number, format!("say in a comment above what `{name}` is for")));
        }
        if !used.contains(name) {
            faults.push(root.fault(number, format!("no crate uses `{name}`: take it out")));
        }
    }
    faults
}

/// The lines of `[workspace.dependencies]` with their numbers.
fn section(root: &File) -> impl Iterator<Item = (usize, &str)> {
    let lines = root.lines().skip_while(|(_, line)| *line != "[workspace.dependencies]").skip(1);
    lines.take_while(|(_, line)| !line.starts_with('['))
}

fn names(root: &File) -> BTreeSet<String> {
    let manifest: Option<Table> = root.text.parse().ok();
    let table = manifest.as_ref().and_then(|m| m.get("workspace")?.get("dependencies")?.as_table());
    table.into_iter().flat_map(Table::keys).cloned().collect()
}

/// A member names a dependency and takes version and source from the root; nothing comes from a
/// repository, and cargo's sources are never replaced.
pub(super) fn sources(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for member in members(tree) {
        for name in own_versions(&member) {
            let what = format!("write `{name} = {{ workspace = true }}`, its version in the root");
            faults.push(member.file.fault(1, what));
        }
    }
    let is_cargo = |file: &&File| file.path == ROOT || file.path.starts_with(".cargo/");
    for file in tree.files().iter().filter(is_cargo) {
        for (number, line) in file.lines() {
            let replaced = ["[source", "[patch", "[registries", "[registry"];
            let elsewhere = [" git = ", "{ git = ", "registry = "];
            if replaced.iter().any(|start| line.starts_with(start))
                || elsewhere.iter().any(|key| line.contains(key))
            {
                let what = "crates come from cargo's own registry, by version";
                faults.push(file.fault(number, what));
            }
        }
    }
    faults
}

fn own_versions<'m>(member: &'m Member<'_>) -> Vec<&'m str> {
    let inherits = |value: &Value| value.get("workspace").and_then(Value::as_bool) == Some(true);
    let kinds = ["dependencies", "dev-dependencies", "build-dependencies"];
    kinds
        .iter()
        .filter_map(|kind| member.manifest.get(*kind)?.as_table())
        .flatten()
        .filter(|(_, value)| !inherits(value))
        .map(|(name, _)| name.as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rule: fn(&Tree) -> Vec<Fault>, root: &str, hub: &str) -> Vec<String> {
        let root = format!("[workspace.dependencies]\n{root}\n[workspace.lints]\n");
        let hub = format!("[package]\nname = \"hub\"\n{hub}");
        let tree = Tree::of(&[(ROOT, &root), ("crates/hub/Cargo.toml", &hub)]);
        rule(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn dependency_without_a_reason_or_a_user_is_caught() {
        let hub =
            "[dependencies]\na = { workspace = true }\n[dev-dependencies]\nb.workspace = true\n";
        assert_eq!(faults(reasons_and_users, "# For tests.\na = \"1\"\nb = \"1\"\n", hub), [""; 0]);
        let caught = faults(reasons_and_users, "# For tests.\na = \"1\"\n\nb = \"1\"\n", hub);
        assert_eq!(caught, ["Cargo.toml:5: say in a comment above what `b` is for"]);
        let caught = faults(reasons_and_users, "# For tests.\na = \"1\"\nc = \"1\"\n", hub);
        assert_eq!(caught, ["Cargo.toml:4: no crate uses `c`: take it out"]);
    }

    #[test]
    fn version_of_a_members_own_is_caught() {
        assert_eq!(faults(sources, "", "[dependencies]\na = \"1\"\n").len(), 1);
        assert_eq!(faults(sources, "", "[dependencies]\na = { workspace = true }\n").len(), 0);
    }

    #[test]
    fn source_other_than_the_registry_is_caught() {
        let root = "# It is forked.\na = { git = \"https://h.example/a\" }\n";
        assert_eq!(faults(sources, root, "").len(), 1);
    }
}
