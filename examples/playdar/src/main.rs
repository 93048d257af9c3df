//! The command `playdar`.

use std::process::ExitCode;

fn main() -> ExitCode {
    playdar::config::run()
}
