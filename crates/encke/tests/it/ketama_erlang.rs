//! The port program and `clients/erlang`'s `ketama` under Debian's Erlang: the tests themselves are
//! in Erlang, in `clients/erlang/test/ketama_test.erl`.

use std::path::Path;
use std::process::Command;

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/erlang");
const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ketama/tests/data");

/// Runs a program of Erlang's; returns what it printed.
fn run(command: &mut Command) -> String {
    let output = command.output().expect("Erlang is missing: apt-get install erlang-base");
    let printed = [output.stdout, output.stderr].map(|out| String::from_utf8(out).unwrap());
    assert!(output.status.success(), "{command:?}: {}\n{}", output.status, printed.concat());
    printed.concat()
}

/// Compiles modules of the client into `beams`; a warning is an error.
fn compile(beams: &Path) {
    let sources = ["src/ketama.erl", "test/ketama_test.erl"];
    let sources = sources.map(|source| format!("{CLIENT}/{source}"));
    run(Command::new("erlc").args(["-Werror", "-o"]).arg(beams).args(sources));
}

#[test]
fn erlang_gets_the_servers_of_the_original_and_survives_what_may_happen() {
    let dir = tempfile::tempdir().unwrap();
    compile(dir.path());
    let mut erl = Command::new("erl");
    erl.args(["-noinput", "-run", "ketama_test", "main", "-pa"]).arg(dir.path());
    erl.args(["-extra", env!("CARGO_BIN_EXE_encke")]);
    erl.args(["servers", "keys.tsv"].map(|kind| format!("{DATA}/unequal8.{kind}")));
    let printed = run(&mut erl);
    assert_eq!(printed.matches("passed: ").count(), 8, "{printed}");
}
