//! The rule that a page which was once written in plain sentences stays so.

use super::tree::{Fault, Tree};
use crate::prose::{Bounds, figures};

/// The pages that keep the bounds. This list only grows.
const PLAIN: &[&str] = &[
    "README.md",
    "docs/api.md",
    "docs/attacks.md",
    "docs/backends.md",
    "docs/capacity.md",
    "docs/cluster.md",
    "docs/commands.md",
    "docs/erlang.md",
    "docs/figures.md",
    "docs/glossary.md",
    "docs/install.md",
    "docs/ketama.md",
    "docs/keys.md",
    "docs/monitoring.md",
    "docs/operations.md",
    "docs/postgres.md",
    "docs/presence.md",
    "docs/protocol.md",
    "docs/publish.md",
    "docs/rate-limits.md",
    "docs/security.md",
    "docs/stream-start.md",
    "docs/tls-conformance.md",
    "docs/tls.md",
    "docs/tokens.md",
    "docs/traces.md",
    "docs/tutorial.md",
    "docs/upgrade.md",
];

pub(super) fn pages(tree: &Tree) -> Vec<Fault> {
    // A project without pages is one made up for a test.
    let listed = PLAIN.iter().filter(|_| tree.has("docs"));
    listed.filter_map(|path| fault(tree, path)).collect()
}

fn fault(tree: &Tree, path: &str) -> Option<Fault> {
    let Some(file) = tree.find(path) else {
        return Some(Fault::of(path, "the page is gone: name its successor in tidy/plain.rs"));
    };
    let what = figures(&file.text).missed(Bounds::PAGES)?;
    Some(file.fault(1, format!("{what}: `cargo xtask prose --long {path}` lists the long ones")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_that_grew_long_sentences_is_caught() {
        let long = format!("{}.", "word ".repeat(26));
        let found = |text: &str| fault(&Tree::of(&[("docs/a.md", text)]), "docs/a.md");
        assert!(found("Run it. You can stop it.").is_none());
        let caught = found(&long).unwrap().to_string();
        assert!(caught.starts_with("docs/a.md:1: half of its sentences have 26"), "{caught}");
        assert!(fault(&Tree::of(&[]), "docs/a.md").is_some(), "a page that is gone");
    }
}
