//! Rules about documents: what they name exists, and the map of the project fits in a head.

use super::tree::{Fault, File, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const ARCHITECTURE_LINES_MAX: usize = 400;

/// The folder of decisions, each called after its number of four digits.
const DECISIONS: &str = "docs/decisions/";

/// The folders at the root; a document that names a path in one of them names one that exists.
const FOLDERS: [&str; 7] =
    ["crates/", "docs/", "examples/playdar/", "fuzz/", "xtask/", ".ci/", ".cargo/"];

/// A changelog tells of files that are gone.
const HISTORY: &str = "CHANGELOG.md";

/// Where documents, scripts and manifests may lead: standards, and what the project's own files are
/// modelled on. Names that no one can own (RFC 2606) and this machine need no entry.
const HOSTS: [&str; 16] = [
    "acme-v02.api.letsencrypt.org",
    "html.spec.whatwg.org",
    "fetch.spec.whatwg.org",
    "keepachangelog.com",
    "man7.org",
    "mercure.rocks",
    "nats.io",
    "nexte.st",
    "opentelemetry.io",
    "prometheus.io",
    "pyjwt.readthedocs.io",
    "semver.org",
    "www.apache.org",
    "www.npmjs.com",
    "www.rfc-editor.org",
    "www.w3.org",
];

pub(super) fn paths(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let documents = tree.files().iter().filter(|file| file.is_markdown() && file.path != HISTORY);
    for file in documents {
        for (number, line) in file.lines() {
            for quoted in line.split('`').skip(1).step_by(2) {
                let is_path = FOLDERS.iter().any(|folder| quoted.starts_with(folder))
                    && !quoted.contains([' ', '*', '{', '<', '…']);
                if is_path && !tree.has(quoted) {
                    faults.push(file.fault(number, format!("{quoted} is not there")));
                }
            }
        }
    }
    faults
}

pub(super) fn architecture_length(tree: &Tree) -> Vec<Fault> {
    let Some(file) = tree.find(ARCHITECTURE) else { return Vec::new() };
    let lines = file.text.lines().count();
    if lines <= ARCHITECTURE_LINES_MAX {
        return Vec::new();
    }
    let what =
        format!("{lines} lines, at most {ARCHITECTURE_LINES_MAX}: move detail to its module");
    vec![file.fault(lines, what)]
}

pub(super) fn decisions(tree: &Tree) -> Vec<Fault> {
    let Some(map) = tree.find(ARCHITECTURE) else { return Vec::new() };
    let is_missing = |file: &&File| {
        let numbered = format!("{DECISIONS}0");
        file.path.starts_with(&numbered) && !map.text.contains(&format!("]({})", file.path))
    };
    let missing = tree.files().iter().filter(is_missing);
    missing.map(|file| file.fault(1, "list the decision in ARCHITECTURE.md")).collect()
}

pub(super) fn hosts(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let checked =
        |file: &&File| file.is_markdown() || file.is_script() || file.path.ends_with(".toml");
    for file in tree.files().iter().filter(checked) {
        for (number, line) in file.lines() {
            for rest in line.split("://").skip(1) {
                let end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '.' | '-'));
                let host = &rest[..end.unwrap_or(rest.len())];
                if !is_known(host) {
                    let what =
                        format!("{host} is unknown: list it in tidy/docs.rs, or leave it out");
                    faults.push(file.fault(number, what));
                }
            }
        }
    }
    faults
}

/// Whether `host` is listed, an address, a name without a domain, or one of the reserved names.
fn is_known(host: &str) -> bool {
    let reserved = [".example", ".example.org", ".example.com", ".test", ".localhost"];
    !host.contains('.')
        || HOSTS.contains(&host)
        || matches!(host, "example.org" | "example.com")
        || reserved.iter().any(|domain| host.ends_with(domain))
        || host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(rule: fn(&Tree) -> Vec<Fault>, path: &str, text: &str) -> Vec<String> {
        let other = ("docs/other.md", "# Other\n");
        rule(&Tree::of(&[(path, text), other])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn path_that_does_not_exist_is_caught() {
        assert_eq!(faults(paths, "README.md", "see `docs/other.md` and `cargo run`"), [""; 0]);
        let caught = faults(paths, "README.md", "see `docs/none.md`");
        assert_eq!(caught, ["README.md:1: docs/none.md is not there"]);
        assert_eq!(faults(paths, "README.md", "`docs/decisions/NNNN-*.md`"), [""; 0]);
    }

    #[test]
    fn long_architecture_is_caught() {
        let long = "line\n".repeat(ARCHITECTURE_LINES_MAX + 1);
        assert_eq!(faults(architecture_length, ARCHITECTURE, &long).len(), 1);
        assert_eq!(faults(architecture_length, ARCHITECTURE, "# A\n").len(), 0);
    }

    #[test]
    fn decision_that_is_not_listed_is_caught() {
        let files = [
            (ARCHITECTURE, "- [A](docs/decisions/0001-a.md)\n"),
            ("docs/decisions/0001-a.md", "# 1. A\n"),
            ("docs/decisions/0002-b.md", "# 2. B\n"),
            ("docs/decisions/README.md", "# Decisions\n"),
        ];
        let caught: Vec<String> =
            decisions(&Tree::of(&files)).iter().map(ToString::to_string).collect();
        let what = "docs/decisions/0002-b.md:1: list the decision in ARCHITECTURE.md";
        assert_eq!(caught, [what]);
    }

    #[test]
    fn unknown_host_is_caught() {
        let known = "https://www.rfc-editor.org/rfc/rfc9112 http://127.0.0.1:8000/ http://a.test";
        assert_eq!(faults(hosts, "README.md", known), [""; 0]);
        assert_eq!(faults(hosts, "a.sh", "curl https://downloads.unknown.io/x").len(), 1);
    }
}
