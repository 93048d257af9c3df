//! A disk that fails while a commit is written, and one that cannot be written at all.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use graph::{Graph, GraphOptions, OpenReason, Pair, Unusable, WriteError};
use hub::Id;

use super::{child, child_dir, open};

const FAULT: &str = "ENCKE_TEST_FAULT";

/// Pairs that touch many pages.
fn request(n: u64) -> Vec<Pair> {
    (0..300)
        .map(|k| Pair::parse(&(k * 7).to_string(), &(n * 300 + k).to_string()).unwrap())
        .collect()
}

/// The first `n` requests are stored, and nothing of a later one.
fn holds_exactly(graph: &Graph, n: u64) {
    assert_eq!(graph.subscriptions(), n * 300);
    for user in 0..(n + 2) * 300 {
        let followers = graph.page_followers(Id::from_bits(user), None, 10).unwrap().ids;
        let expected = if user < n * 300 { vec![Id::from_bits(user % 300 * 7)] } else { vec![] };
        assert_eq!(followers, expected);
    }
}

/// Runs with `faults.c` before its system calls.
#[test]
fn child_meets_a_failing_disk() {
    let Some(dir) = child_dir() else { return };
    let switch = std::env::var(FAULT).unwrap();
    let graph = open(&dir);
    let mut n = 0;
    for fault in ["sync", "write", "sync", "write"] {
        assert_eq!(graph.add_blocking(request(n)), Ok(300));
        n += 1;
        fs::write(&switch, fault).unwrap();
        for _ in 0..2 {
            let error = graph.add_blocking(request(n)).unwrap_err();
            assert!(matches!(error, WriteError::DiskFull(_)), "{fault}: {error}");
        }
        holds_exactly(&graph, n);
        fs::remove_file(&switch).unwrap();
        assert_eq!(graph.usable(), Ok(()), "it was not the store that failed");
    }
    assert_eq!(graph.add_blocking(request(n)), Ok(300));
    n += 1;

    fs::write(&switch, "head").unwrap();
    let error = graph.add_blocking(request(n)).unwrap_err();
    assert!(matches!(error, WriteError::Unknown(_)), "{error}");
    assert!(error.to_string().contains("may be stored or not"), "{error}");
    fs::remove_file(&switch).unwrap();
    assert!(matches!(graph.usable(), Err(Unusable::Damaged(_))));
    let error = graph.add_blocking(request(n)).unwrap_err();
    assert!(matches!(error, WriteError::Unusable(_)), "{error}");
    assert!(graph.page_followers(Id::from_bits(1), None, 1).is_err());
    drop(graph);

    let check = graph::check(&dir, &mut |_, _| {}).unwrap();
    assert_eq!(check.findings, [""; 0]);
    let graph = open(&dir);
    holds_exactly(&graph, n);
    assert_eq!(graph.add_blocking(request(n)), Ok(300));
}

#[test]
fn failing_disk_is_told_and_what_was_acknowledged_stays() {
    let dir = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults.c");
    let library = dir.path().join("faults.so");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).args([&library, &source]).arg("-ldl");
    assert!(compile.status().unwrap().success());
    let store = dir.path().join("store");
    let mut meets = child(&[], "faults::child_meets_a_failing_disk", &store);
    meets.env("LD_PRELOAD", &library).env(FAULT, dir.path().join("fault"));
    let output = meets.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// A file in the place of a directory stands for all that cannot be written; root may write
/// anywhere else.
#[test]
fn directory_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).add_blocking(request(0)).unwrap();
    fs::remove_file(dir.path().join("lock")).unwrap();
    fs::create_dir(dir.path().join("lock")).unwrap();
    let error = Graph::open(dir.path(), &GraphOptions::default()).err().unwrap();
    assert!(matches!(error.reason, OpenReason::Directory(_)), "{error}");
    fs::remove_dir(dir.path().join("lock")).unwrap();
    // What is beside the file only says less when it cannot be written.
    fs::create_dir(dir.path().join("data.state.partial")).unwrap();
    let graph = open(dir.path());
    assert_eq!(graph.add_blocking(request(1)), Ok(300));
    drop(graph);
    holds_exactly(&open(dir.path()), 2);
}
