//! `cargo xtask tidy`: the rules of the project that no compiler knows, as checks.
//!
//! Each rule is a function from the project's files to its faults, and has a test that shows it
//! catching one. A fault says where it is and what to do. What a rule must let pass stands in a
//! list beside it, by name and with a reason.
//!
//! The files are read as text, without parsing Rust: a rule that needs more belongs into
//! clippy.toml.

mod attempts;
mod circles;
mod clocks;
mod code;
mod crates;
mod dependencies;
mod docs;
mod functions;
mod links;
mod log_lines;
mod plain;
mod scripts;
mod text;
mod tree;
mod words;

use std::path::Path;

use tree::{Fault, Tree};

/// What a rule is: what it says in a word, and what finds its faults.
type Rule = (&'static str, fn(&Tree) -> Vec<Fault>);

const RULES: [Rule; 40] = [
    ("crates know only whom ARCHITECTURE.md lists", crates::edges),
    ("no crate is larger than its share", crates::sizes),
    ("the modules of a crate form no circle", circles::modules),
    ("the async runtime stays in its crates", crates::runtime),
    ("every crate has the workspace's lints", crates::lints),
    ("no crate forgets a ban of the workspace", crates::clippy_settings),
    ("every dependency has a reason and a user", dependencies::reasons_and_users),
    ("dependencies have one version and one source", dependencies::sources),
    ("files are short", text::file_lengths),
    ("lines are short", text::columns),
    ("the last line ends", text::last_lines),
    ("functions are short", functions::lengths),
    ("functions take few arguments", functions::arguments),
    ("nothing is left over", text::leftovers),
    ("words are those of the field", words::of_the_field),
    ("the doc of an item names it", words::item_docs),
    ("a name stands for one type of its crate", words::type_names),
    ("no path of one machine", text::machine_paths),
    ("every module says what it is for", text::module_docs),
    ("unsafe stays where it is listed", code::unsafe_places),
    ("nobody sleeps", code::sleeps),
    ("no test bounds a time", clocks::upper_bounds),
    ("no test of another language reads a clock", clocks::readers),
    ("no test tries again and tells nobody", attempts::untold),
    ("no test of another language tries again and tells nobody", attempts::untold_elsewhere),
    ("tests take no fixed port", code::fixed_ports),
    ("proto, client, hub, tls, cluster, pusher and mercure do no IO", code::pure_crates),
    ("links lead somewhere", links::links),
    ("pages are in plain sentences", plain::pages),
    ("sentences of pages begin with their subject", plain::openings_of_sentences),
    ("help is in plain sentences", plain::help),
    ("docs of modules are in plain sentences", plain::docs_of_modules),
    ("decisions are in plain sentences", plain::decisions),
    ("pages say whom they are for", plain::openings),
    ("each line of the log is explained", log_lines::on_their_page),
    ("paths in documents exist", docs::paths),
    ("ARCHITECTURE.md is short", docs::architecture_length),
    ("each decision stands in ARCHITECTURE.md", docs::decisions),
    ("no document or script leads to an unknown host", docs::hosts),
    ("scripts parse", scripts::syntax),
];

/// Checks every rule, prints the faults and says whether there is none.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let tree = Tree::read(root)?;
    let mut faults = 0;
    for (rule, check) in RULES {
        for fault in check(&tree) {
            println!("{fault} [{rule}]");
            faults += 1;
        }
    }
    println!("tidy: {} rules, {} files, {faults} faults", RULES.len(), tree.files().len());
    Ok(faults == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_find_nothing_in_an_empty_project() {
        let tree = Tree::of(&[("Cargo.toml", "[workspace]\n"), ("ARCHITECTURE.md", "# A\n")]);
        for (rule, check) in RULES {
            let faults: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
            assert!(faults.is_empty(), "{rule}: {faults:?}");
        }
    }
}
