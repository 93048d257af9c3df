//! A demo that is broken off, as a signal does it; whole demos are tried as processes (`tests/it`).

use std::fs;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Waker};

use clap::Parser;

use super::*;

/// `encke demo` alone.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: DemoArgs,
}

/// A demo with its files in `data`.
fn demo(data: &Path, options: &[&str]) -> Demo {
    let Line { args } = Line::parse_from(["demo"].iter().chain(options));
    Demo { args, signer: None, data: data.to_owned(), stop: CancellationToken::new() }
}

/// Waits until no thread makes a graph any more.
fn wait_for_graphs() {
    testing::wait_for("no graph is made", || {
        let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
        // One that has ended meanwhile has no name.
        let names = threads.flat_map(|thread| fs::read_to_string(thread.path().join("comm")));
        names.into_iter().all(|name| name != "work\n")
    });
}

#[test]
fn folder_of_a_graph_that_is_broken_off_does_not_come_back() {
    for _ in 0..20 {
        let folder = Folder::new(None).unwrap();
        let path = folder.path().to_owned();
        let demo = demo(&path, &["--users=2000"]);
        // It is begun, and dropped as a signal has it.
        let _ = pin!(demo.graph()).poll(&mut Context::from_waker(Waker::noop()));
        folder.close().unwrap();
        wait_for_graphs();
        assert!(!path.exists());
    }
}
