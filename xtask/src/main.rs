//! The project's chores: `cargo xtask ci` runs every check, `cargo xtask tidy` the project's own.
//!
//! A program instead of scripts, so that the checks are typed, tested and the same on each machine.
//! It knows no crate of the project and takes next to nothing to build.

#![allow(clippy::print_stdout, reason = "what a chore has to say is its output")]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

mod building;
mod ci;
mod compat;
mod deny;
mod nextest;
mod node;
mod package;
mod playdar;
mod previous;
mod programs;
mod prose;
mod registry;
mod sdks;
mod second_tries;
mod site;
mod skipped;
mod store;
mod tidy;
mod tools;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

const USAGE: &str = "\
The chores of the project.

Usage: cargo xtask <CHORE>

Chores:
  ci           every check that a change must pass; --fast leaves out demo, deny, loom, playdar
               and site; --whole checks the example though nothing of it has changed, and every
               interleaving of the models
  test         the Rust tests in one pool, by cargo-nextest; takes its arguments, so a name too
  flaky NAME   runs a test 50 times, beside a busy loop on each processor
  programs     what tests take: Debian's packages, and tools, which are kept in $ENCKE_TOOLS, else
               in the user's cache
  keep         keeps the compiled crates of registries for other clones, as a passed ci does
  node         the browser client and the server's pages: types, tests, size, build
  browser      client and pages in Chromium, against the debug build of the server
  silence      the client in a network that drops all without a word: two minutes
  playdar      the example's page in Chromium
  demo         the demo for eight seconds, by the debug build
  docs         the documentation of all crates builds, and its links lead somewhere
  sdks         the packages for backends, in Python and Go, against the debug build of the server
  package      what can be installed: .deb, tarball, container image, npm and Hex packages, into
               target/package; --profile dev is quicker to make, --out DIR, --try uses each;
               --check makes them of the debug build, and as root tries them
  deny         licences, versions and sources of what others wrote, as deny.toml allows them
  site         the documentation as a folder for a web server, in target/site-pages
  prose        figures of how hard README and docs/ are to read, the docs of all modules, and all
               decisions; or the pages and sources that follow, of which --long before them lists
               the sentences of more than 25 words, and those that begin badly
  tidy         the project's own rules: who may know whom, lengths, docs, leftovers
  help         this text

Exit status: 0 all is well, 1 something failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["ci"] => run(|root| ci::run(root, ci::Extent::Usual)),
        ["ci", "--whole"] => run(|root| ci::run(root, ci::Extent::Whole)),
        ["ci", "--fast"] => run(|root| ci::run(root, ci::Extent::Fast)),
        ["programs"] => run(ci::programs),
        ["node"] => run(node::packages),
        ["test", ref filter @ ..] => run(|root| nextest::run(root, filter)),
        ["flaky", name] => run(|root| nextest::flaky(root, name)),
        ["browser"] => run(node::browser),
        ["silence"] => run(node::silence),
        ["keep"] => run(|root| registry::keep(root).map(|()| true)),
        ["playdar"] => run(playdar::run),
        ["demo"] => run(ci::demo),
        ["docs"] => run(ci::docs),
        ["sdks"] => run(sdks::run),
        ["site"] => run(site::site),
        ["deny"] => run(deny::run),
        ["package", "--check"] => run(package::check),
        ["package", ref options @ ..] => run(|root| package::run(root, options)),
        ["prose", "--long", ref pages @ ..] => {
            run(|root| prose::run(root, prose::Detail::Sentences, pages))
        }
        ["prose", ref pages @ ..] => run(|root| prose::run(root, prose::Detail::Figures, pages)),
        ["tidy"] => run(tidy::run),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            print!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a chore at the root of the workspace; it says whether all is well.
fn run(chore: impl FnOnce(&Path) -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    let mut here = std::env::current_dir().context("cannot tell the current directory")?;
    while !is_root(&here) {
        anyhow::ensure!(here.pop(), "run it inside the project's folder");
    }
    chore(&here)
}

fn is_root(directory: &Path) -> bool {
    directory.join("Cargo.toml").is_file() && directory.join("xtask").is_dir()
}
