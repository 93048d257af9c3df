//! A successor that is no child of the server that runs: somebody else has started it with
//! `--take-over`, beside it or in a container of its own.

use std::process::Command;

use super::failures::Kept;
use crate::harness::{Program, encke, wait_for};

const ARGUMENTS: [&str; 9] = [
    "serve",
    "--take-over",
    "--json",
    "--workers=2",
    "--websocket-deflate",
    "--listen=127.0.0.1:0",
    "--api=127.0.0.1:0",
    "--public-host=x,encke.test,push.test",
    "--api-host=x,push.test",
];

/// What containers have of their own that share the data directory, the network and process ids, as
/// docs/upgrade.md asks for.
const NAMESPACES: [&str; 4] = ["--mount", "--uts", "--ipc", "--cgroup"];

fn takes_over(command: &mut Command) {
    let mut kept = Kept::serve(&[]);
    let old = kept.server.owner();
    let successor = Program::spawn(command.arg("--data").arg(kept.server.data()));
    wait_for("it serves", || kept.server.owner_if_any() == Some(successor.pid()));
    kept.check();
    kept.server.wait_ended(old);
    kept.then_upgrades();
}

#[test]
fn successor_that_somebody_else_has_started_takes_over() {
    takes_over(&mut encke(ARGUMENTS));
}

#[test]
fn successor_in_a_container_of_its_own_takes_over() {
    let contained = |program: &str| {
        let mut command = Command::new("unshare");
        command.args(NAMESPACES).arg(program);
        command
    };
    if !contained("true").status().is_ok_and(|status| status.success()) {
        return testing::skip("this user may make no namespaces (unshare)");
    }
    takes_over(contained(env!("CARGO_BIN_EXE_encke")).args(ARGUMENTS));
}
