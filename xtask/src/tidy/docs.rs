//! Rules about documents: their links lead somewhere, what they name exists, and the map of the
//! project fits in a head.

use super::tree::{Fault, File, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";
const ARCHITECTURE_LINES_MAX: usize = 240;

/// The folders at the root; a document that names a path in one of them names one that exists.
const FOLDERS: [&str; 6] = ["crates/", "docs/", "fuzz/", "xtask/", ".ci/", ".cargo/"];

/// A changelog tells of files that are gone.
const HISTORY: &str = "CHANGELOG.md";

/// Where documents, scripts and manifests may lead: standards, and what the project's own files are
/// modelled on. Names that no one can own (RFC 2606) and this machine need no entry.
const HOSTS: [&str; 8] = [
    "html.spec.whatwg.org",
    "fetch.spec.whatwg.org",
    "keepachangelog.com",
    "man7.org",
    "prometheus.io",
    "semver.org",
    "www.apache.org",
    "www.rfc-editor.org",
];

/// Where the text of a link to a place in the project begins and what it leads to.
fn links_of(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

pub(super) fn links(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for file in tree.files().iter().filter(|file| file.is_markdown()) {
        for (number, line) in file.lines() {
            for link in links_of(line).filter(|link| !link.contains("://")) {
                if let Some(what) = broken(tree, file, link) {
                    faults.push(file.fault(number, what));
                }
            }
        }
    }
    faults
}

fn broken(tree: &Tree, from: &File, link: &str) -> Option<String> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { from.path.clone() } else { resolve(&from.path, path) };
    if !tree.has(&target) {
        return Some(format!("the link leads to {target}, which is not there"));
    }
    let page = tree.find(&target).filter(|page| page.is_markdown() && !heading.is_empty())?;
    let mut headings = page.text.lines().filter(|line| line.starts_with('#'));
    let there = headings.any(|line| anchor(line.trim_start_matches('#')) == heading);
    (!there).then(|| format!("{target} has no heading #{heading}"))
}

/// The path from the root to which `link` leads from the file `from`.
fn resolve(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The name by which a heading is linked to, as code hosts make it.
fn anchor(heading: &str) -> String {
    let kept =
        heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

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
        let other = ("docs/other.md", "# Other\n\n## One turn, of `it`\n");
        rule(&Tree::of(&[(path, text), other])).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn link_to_nowhere_is_caught() {
        assert_eq!(faults(links, "README.md", "[a](docs/other.md) [b](docs/)"), [""; 0]);
        assert_eq!(faults(links, "docs/a.md", "[a](other.md) [b](../docs/other.md)"), [""; 0]);
        assert_eq!(faults(links, "docs/a.md", "[a](docs/other.md)").len(), 1);
        assert_eq!(faults(links, "README.md", "[a](https://h.example/none)"), [""; 0]);
    }

    #[test]
    fn link_to_a_heading_that_is_not_there_is_caught() {
        assert_eq!(faults(links, "README.md", "[a](docs/other.md#one-turn-of-it)"), [""; 0]);
        assert_eq!(faults(links, "README.md", "[a](docs/other.md#two)").len(), 1);
        assert_eq!(faults(links, "README.md", "# Here\n[a](#here) [b](#there)").len(), 1);
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
    fn unknown_host_is_caught() {
        let known = "https://www.rfc-editor.org/rfc/rfc9112 http://127.0.0.1:8000/ http://a.test";
        assert_eq!(faults(hosts, "README.md", known), [""; 0]);
        assert_eq!(faults(hosts, "a.sh", "curl https://downloads.unknown.io/x").len(), 1);
    }
}
