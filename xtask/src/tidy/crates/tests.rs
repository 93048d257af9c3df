//! The rules on manifests that break them.

use super::*;

fn manifest(name: &str, rest: &str) -> String {
    format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
}

fn faults(rule: fn(&Tree) -> Vec<Fault>, engine: &str) -> Vec<String> {
    let architecture = "# A\n```edges\nengine -> hub; in tests: load\nhub -> nothing\n\
                        load -> nothing\n```\n";
    let (hub, load) = (manifest("hub", ""), manifest("load", ""));
    let tree = Tree::of(&[
        (ARCHITECTURE, architecture),
        ("crates/engine/Cargo.toml", engine),
        ("crates/hub/Cargo.toml", &hub),
        ("crates/load/Cargo.toml", &load),
    ]);
    rule(&tree).iter().map(ToString::to_string).collect()
}

#[test]
fn listed_edges_pass_and_others_are_caught() {
    let good = "[dependencies]\nhub = { workspace = true }\n[dev-dependencies]\nload = \"1\"\n";
    assert_eq!(faults(edges, &manifest("engine", good)), [""; 0]);
    let extra = "[dependencies]\nhub = \"1\"\nload = \"1\"\n[dev-dependencies]\nload = \"1\"\n";
    let caught = faults(edges, &manifest("engine", extra));
    assert_eq!(caught.len(), 1);
    assert!(caught[0].contains("`engine` may not know `load`: see"), "{caught:?}");
}

#[test]
fn edge_that_is_listed_and_unused_is_caught() {
    let caught = faults(edges, &manifest("engine", "[dependencies]\nhub = \"1\"\n"));
    assert!(caught[0].contains("`engine` does not know `load` in tests"), "{caught:?}");
}

#[test]
fn edge_for_one_target_only_is_caught_too() {
    let rest = "[dependencies]\nhub = \"1\"\n[dev-dependencies]\nload = \"1\"\n\
                [target.'cfg(loom)'.dependencies]\nload = \"1\"\n";
    assert_eq!(faults(edges, &manifest("engine", rest)).len(), 1);
}

#[test]
fn crate_that_is_not_listed_is_caught() {
    let tree = Tree::of(&[
        (ARCHITECTURE, "```edges\nhub -> nothing\n```\n"),
        ("crates/engine/Cargo.toml", &manifest("engine", "")),
    ]);
    assert_eq!(edges(&tree).len(), 2);
}

#[test]
fn runtime_in_the_data_plane_is_caught() {
    let caught = faults(runtime, &manifest("engine", "[dev-dependencies]\ntokio = \"1\"\n"));
    let told = "`tokio` belongs into";
    assert!(caught[0].contains(told), "{caught:?}");
}

#[test]
fn crate_without_the_lints_is_caught() {
    assert_eq!(faults(lints, "[package]\nname = \"engine\"\n").len(), 1);
    assert_eq!(faults(lints, &manifest("engine", "")).len(), 0);
}

#[test]
fn crate_with_lints_of_its_own_that_lack_one_is_caught() {
    let root = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\nmissing_docs = \"warn\"\n";
    let package = "[package]\nname = \"sys\"\n[lints.rust]\nunsafe_code = \"deny\"\n";
    let check = |rest: &str| {
        let manifest = format!("{package}{rest}");
        lints(&Tree::of(&[("Cargo.toml", root), ("crates/sys/Cargo.toml", &manifest)])).len()
    };
    assert_eq!(check("missing_docs = \"warn\"\n"), 0);
    assert_eq!(check("missing_docs = \"allow\"\n"), 1);
    assert_eq!(check(""), 1);
}

#[test]
fn crate_that_forgets_a_ban_of_the_root_is_caught() {
    let root = "# Bans.\nallow-x = true\nbans = [\n    { path = \"a\" },\n]\n";
    let check = |own| clippy_settings(&Tree::of(&[("clippy.toml", root), ("a/clippy.toml", own)]));
    assert_eq!(
        check("allow-x = true\nbans = [\n    { path = \"a\" },\n    { path = \"b\" },\n]\n").len(),
        0
    );
    assert_eq!(check("allow-x = true\n").len(), 1);
}

#[test]
fn crate_with_more_than_its_share_is_caught() {
    let manifests: Vec<String> = (0..8).map(|n| manifest(&format!("c{n}"), "")).collect();
    let faults = |lines: usize| {
        let (large, small) = ("line\n".repeat(lines), "line\n".repeat(1_500));
        let names: Vec<String> = (0..8).map(|n| format!("crates/c{n}/")).collect();
        let mut files = Vec::new();
        for (n, (name, manifest)) in names.iter().zip(&manifests).enumerate() {
            files.push((format!("{name}Cargo.toml"), manifest.as_str()));
            files.push((format!("{name}src/lib.rs"), if n == 0 { &large } else { &small }));
            files.push((format!("{name}tests/it.rs"), &large));
        }
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        sizes(&Tree::of(&files)).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(faults(1_500), [""; 0]);
    let caught = faults(2_000);
    assert_eq!(caught.len(), 1);
    assert!(caught[0].contains("2000 of 12500 lines"), "{caught:?}");
}
