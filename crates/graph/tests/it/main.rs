//! What needs a process of its own: sudden death, full disks, limits of the system.
//!
//! A test starts this very binary again with one of the `child` tests, which do nothing otherwise.

#![expect(clippy::unwrap_used, reason = "a failed test should panic")]

mod crash;
mod damage;
mod faults;
mod handover;
mod handover_killed;
mod limits;
mod player;
mod replica;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use graph::Graph;
use graph::{GraphOptions, Pair};
use testing::seed;

/// Tells a child where its store is; nobody is a child without it.
const DIR: &str = "ENCKE_TEST_DIR";
/// Tells a child which random numbers to draw.
const SEED: &str = "ENCKE_TEST_SEED";

/// The directory to work in, in a child.
fn child_dir() -> Option<PathBuf> {
    std::env::var_os(DIR).map(PathBuf::from)
}

fn open(dir: &Path) -> Graph {
    Graph::open(dir, &GraphOptions::default()).unwrap()
}

fn pair((subscriber, subscribee): &(String, String)) -> Pair {
    Pair::parse(subscriber, subscribee).unwrap()
}

/// `program` with this binary and the name of one test as its last arguments.
fn child(program: &[&str], test: &str, dir: &Path) -> Command {
    let itself = std::env::current_exe().unwrap();
    let mut command = match program {
        [] => Command::new(itself),
        [program, arguments @ ..] => {
            let mut command = Command::new(program);
            command.args(arguments).arg(itself);
            command
        }
    };
    command.args(["--exact", "--nocapture", "--test-threads=1", test]);
    command.env(DIR, dir);
    command
}

fn spawn(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
}
