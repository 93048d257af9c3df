//! Rules about the crates: who may know whom, where the async runtime may live, whose lints hold.
//!
//! The edges are written once, in ARCHITECTURE.md, in the block of code that is marked `edges`:
//!
//! ```edges
//! engine  -> sys, proto, hub
//! graph   -> hub; in tests: load
//! hub     -> nothing
//! ```

use std::collections::{BTreeMap, BTreeSet};

use toml::Table;

use super::tree::{Fault, File, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// Crates that bring a runtime, or are of no use without one.
const RUNTIME: [&str; 8] =
    ["async-std", "axum", "hyper", "hyper-util", "mio", "smol", "tokio", "tokio-util"];

/// Who may have one: the rooms of the control plane, the node among Erlang nodes and the ends of
/// NATS and of PostgreSQL for their sockets, `graph` for its channels, and the example, which is a
/// program.
const RUNTIME_IN: [&str; 11] = [
    "auth", "dispatch", "encke", "erlang", "gateway", "graph", "httpd", "nats", "playdar",
    "postgres", "server",
];

/// What part of all lines one crate may have, in hundredths: one that has more is two.
const SHARE_MAX: usize = 15;

/// Crates that state their lints themselves, since they allow `unsafe` somewhere.
const OWN_LINTS: [&str; 2] = ["graph", "sys"];

/// What they state otherwise: the lint itself, and cfgs that they do not have.
const CRATE_S_OWN: [&str; 2] = ["unexpected_cfgs", "unsafe_code"];

/// A member of the workspace.
pub(super) struct Member<'t> {
    pub(super) file: &'t File,
    pub(super) name: String,
    pub(super) manifest: Table,
}

impl Member<'_> {
    /// Names that it depends on, in its tests and benchmarks or in itself, on any target.
    pub(super) fn dependencies(&self, in_tests: bool) -> BTreeSet<&str> {
        let kinds: &[&str] =
            if in_tests { &["dev-dependencies"] } else { &["dependencies", "build-dependencies"] };
        let targets = self.manifest.get("target").and_then(toml::Value::as_table);
        let targets = targets.into_iter().flat_map(Table::values).filter_map(toml::Value::as_table);
        std::iter::once(&self.manifest)
            .chain(targets)
            .flat_map(|table| kinds.iter().filter_map(|kind| table.get(*kind)?.as_table()))
            .flat_map(Table::keys)
            .map(String::as_str)
            .collect()
    }

    fn fault(&self, what: String) -> Fault {
        self.file.fault(1, what)
    }
}

/// The manifests of all members. One that does not parse has none: cargo says so better.
pub(super) fn members(tree: &Tree) -> Vec<Member<'_>> {
    let is_member = |file: &&File| {
        let folder = file.path.strip_suffix("/Cargo.toml").unwrap_or_default();
        let parents = ["crates/", "examples/"];
        let name = parents.iter().find_map(|parent| folder.strip_prefix(parent));
        name.is_some_and(|name| !name.contains('/')) || ["fuzz", "xtask"].contains(&folder)
    };
    let files = tree.files().iter().filter(is_member);
    files
        .filter_map(|file| {
            let manifest: Table = file.text.parse().ok()?;
            let name = manifest.get("package")?.get("name")?.as_str()?.to_owned();
            Some(Member { file, name, manifest })
        })
        .collect()
}

/// Whom a crate may know: itself, and in its tests besides.
#[derive(Default, PartialEq, Debug)]
struct Edges {
    own: BTreeSet<String>,
    in_tests: BTreeSet<String>,
}

/// The block of edges, by crate.
fn listed(architecture: &File) -> BTreeMap<String, Edges> {
    let block = architecture.text.lines().skip_while(|line| *line != "```edges").skip(1);
    let names = |text: &str| {
        let names = text.split(',').map(str::trim);
        names.filter(|name| !name.is_empty() && *name != "nothing").map(str::to_owned).collect()
    };
    block
        .take_while(|line| *line != "```")
        .filter_map(|line| line.split_once("->"))
        .map(|(from, to)| {
            let (own, in_tests) = to.split_once("; in tests:").unwrap_or((to, ""));
            (from.trim().to_owned(), Edges { own: names(own), in_tests: names(in_tests) })
        })
        .collect()
}

pub(super) fn edges(tree: &Tree) -> Vec<Fault> {
    let Some(architecture) = tree.find(ARCHITECTURE) else { return Vec::new() };
    let listed = listed(architecture);
    let members = members(tree);
    let rooms: BTreeSet<&str> = members.iter().map(|member| member.name.as_str()).collect();
    let mut faults = Vec::new();
    for member in &members {
        let Some(may) = listed.get(&member.name) else {
            let what = format!("list `{}` among the edges in {ARCHITECTURE}", member.name);
            faults.push(member.fault(what));
            continue;
        };
        for (in_tests, allowed) in [(false, &may.own), (true, &may.in_tests)] {
            let known: BTreeSet<String> = member
                .dependencies(in_tests)
                .intersection(&rooms)
                .map(|name| (*name).to_owned())
                .collect();
            let place = if in_tests { " in tests" } else { "" };
            for name in known.difference(allowed) {
                let what = format!("`{}` may not know `{name}`{place}", member.name);
                faults.push(member.fault(format!("{what}: see the edges in {ARCHITECTURE}")));
            }
            for name in allowed.difference(&known) {
                let what = format!("`{}` does not know `{name}`{place}", member.name);
                faults.push(member.fault(format!("{what}: take the edge out of {ARCHITECTURE}")));
            }
        }
    }
    for name in listed.keys().filter(|name| !rooms.contains(name.as_str())) {
        faults.push(architecture.fault(1, format!("there is no crate `{name}`")));
    }
    faults
}

/// Lines of Rust that are no tests, by crate.
pub(super) fn sizes(tree: &Tree) -> Vec<Fault> {
    let members = members(tree);
    let lines = |member: &Member<'_>| -> usize {
        let folder = member.file.path.trim_end_matches("Cargo.toml");
        let own = tree.rust().filter(|file| file.path.starts_with(folder));
        own.map(|file| (file.tests_from() - 1).min(file.lines().count())).sum()
    };
    let sizes: Vec<usize> = members.iter().map(lines).collect();
    let all: usize = sizes.iter().sum();
    let large = members.iter().zip(sizes).filter(|(_, size)| 100 * size > SHARE_MAX * all);
    let fault = |(member, size): (&Member<'_>, usize)| {
        member.fault(format!("{size} of {all} lines are its, at most {SHARE_MAX} %: cut it in two"))
    };
    // Of a handful each has more.
    large.map(fault).filter(|_| all > 10_000).collect()
}

pub(super) fn runtime(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for member in members(tree) {
        if RUNTIME_IN.contains(&member.name.as_str()) {
            continue;
        }
        for in_tests in [false, true] {
            let found = member.dependencies(in_tests);
            for name in RUNTIME.iter().filter(|name| found.contains(*name)) {
                let what = format!("`{name}` belongs into {} only", RUNTIME_IN.join(", "));
                faults.push(member.fault(what));
            }
        }
    }
    faults
}

/// The workspace's lints, inherited or, where `unsafe` is allowed somewhere, repeated.
pub(super) fn lints(tree: &Tree) -> Vec<Fault> {
    let root: Option<Table> = tree.find("Cargo.toml").and_then(|file| file.text.parse().ok());
    let wanted = root.as_ref().and_then(|root| root.get("workspace")?.get("lints")?.as_table());
    let mut faults = Vec::new();
    for member in members(tree) {
        let lints = member.manifest.get("lints");
        if lints.and_then(|lints| lints.get("workspace")?.as_bool()) == Some(true) {
            continue;
        }
        if !OWN_LINTS.contains(&member.name.as_str()) {
            faults.push(member.fault("add [lints] with workspace = true".to_owned()));
            continue;
        }
        for (tool, wanted) in wanted.into_iter().flatten() {
            let own = lints.and_then(|lints| lints.get(tool)?.as_table());
            for (lint, level) in wanted.as_table().into_iter().flatten() {
                let same = own.and_then(|own| own.get(lint)) == Some(level);
                if !same && !CRATE_S_OWN.contains(&lint.as_str()) {
                    let what = format!("repeat the workspace's lint: {lint} = {level}");
                    faults.push(member.fault(what));
                }
            }
        }
    }
    faults
}

/// Clippy reads the nearest clippy.toml only: what the root's says, each crate's own says too.
pub(super) fn clippy_settings(tree: &Tree) -> Vec<Fault> {
    let Some(root) = tree.find("clippy.toml") else { return Vec::new() };
    let is_setting = |line: &&str| line.starts_with("    { path") || line.starts_with("allow-");
    let mut faults = Vec::new();
    for file in tree.files().iter().filter(|file| file.path.ends_with("/clippy.toml")) {
        for setting in root.text.lines().filter(is_setting) {
            if !file.text.lines().any(|line| line == setting) {
                let what = format!("repeat the root's setting here: {}", setting.trim());
                faults.push(file.fault(1, what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests;
