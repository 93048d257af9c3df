//! A pipe in place of a file: a disk that does not answer.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use testing::DEADLINE;

/// Makes a pipe at this path, of which a reader waits for its writer.
pub(crate) fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Its writer, once somebody reads it, who waits from then on for what is written.
pub(crate) fn pipe_writer(path: &Path) -> File {
    let (opened, writer) = mpsc::sync_channel(1);
    let path = path.to_owned();
    // It waits in `open` for the reader: in vain, perhaps.
    thread::spawn(move || opened.send(File::options().write(true).open(path)));
    writer.recv_timeout(DEADLINE).expect("somebody reads it").unwrap()
}
