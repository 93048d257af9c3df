//! Tests of several crates share this: the one way to skip a test and to try something again, a
//! small disk to fill, NATS servers, a PostgreSQL of their own, and signals. Also a network between
//! programs that can be cut, the one way to wait, and the one way to a random seed.
//!
//! cargo keeps the output of a test that passes to itself, so a test that skips would look like one
//! that passed. So each skip is written down where `cargo xtask ci` tells it in its last lines, and
//! on a build server (`CI=true`) it is a failure.

#![allow(clippy::print_stdout, reason = "a skipped test says why")]

mod attempts;
mod folders;
mod nats;
mod port;
pub mod postgres;
mod random;
mod relay;
mod seed;
mod signal;
mod small_disk;
mod tools;
mod waiting;

pub use attempts::{SECOND_TRIES, tried_again};
pub use nats::{NATS_SERVER, NatsServer, nats_current, nats_of_system};
pub use port::free_port;
pub use random::{random_text, seeded};
pub use relay::TcpRelay;
pub use seed::{SimulatorSeeds, seed, simulator_seeds};
pub use signal::signal;
pub use small_disk::SmallDisk;
pub use tools::{found, tool};
pub use waiting::{DEADLINE, pauses, wait_for, wait_within};

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// Names the file to which skipped tests are written, a line each.
pub const SKIPPED_FILE: &str = "ENCKE_SKIPPED_FILE";

/// Says that the calling test is skipped, and why; it returns next.
///
/// # Panics
/// On a build server (`CI=true`), which is to have everything that tests take; and when what is
/// skipped cannot be written down.
pub fn skip(why: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    assert!(!is_ci(), "{test} would be skipped, which it may not where CI=true: {why}");
    println!("skipped: {test}: {why}");
    if let Some(path) = std::env::var_os(SKIPPED_FILE) {
        // One write, so that lines of programs that run at the same time stay whole.
        let line = format!("{test}: {why}\n");
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| panic!("cannot write to {}: {error}", path.display()));
    }
}

/// A file whose lock says who is at something. Nobody deletes it, so all have the same one.
fn lock_file(path: &Path) -> File {
    let open = |create| OpenOptions::new().write(true).create(create).mode(0o666).open(path);
    // One that another user made is opened where it may not be made.
    let file = open(true).or_else(|_| open(false));
    file.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false"))
}

/// A command that mounts a disk of so many bytes on `mount_point` (a tmpfs), for itself alone, and
/// then becomes the program whose name and arguments are added to it. The disk goes when the
/// program goes. `None` where this user may not.
///
/// Root needs no user namespace, and in a container may have none; everybody else is root in one of
/// their own (`unshare --user --map-root-user`).
pub fn on_small_disk(mount_point: &Path, bytes: usize) -> Option<Command> {
    let script = format!("mount -t tmpfs -o size={bytes} tmpfs \"$1\" && shift && exec \"$@\"");
    let command = |namespaces: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["sh", "-c", &script, "sh"]).arg(mount_point);
        command
    };
    let works = |namespaces: &&[&str]| {
        let mut probe = command(namespaces);
        let status = probe.arg("true").stdin(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    ways.into_iter().find(works).map(command)
}
