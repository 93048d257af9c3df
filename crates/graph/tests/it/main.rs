//! What needs a process of its own: sudden death, full disks, limits of the system.
//!
//! A test starts this very binary again with one of the `child` tests, which do nothing otherwise.

#![expect(clippy::unwrap_used, reason = "a failed test should panic")]
#![expect(clippy::print_stdout, reason = "a child tells its parent, a test how to run it again")]

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

/// A seed to print, or the one that `ENCKE_SEED` names.
fn seed() -> u64 {
    let given = std::env::var("ENCKE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("run it again with ENCKE_SEED={seed} cargo test -p graph");
    seed
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
