//! Full disks and limits of the process: a clear error to the one who asked, and life goes on.

use std::fs;

use graph::Graph;
use graph::{GraphOptions, Pair, WriteError};
use hub::Id;

use super::{DIR, child, child_dir, open};

/// Pairs that take room: each is about somebody else.
fn request(n: u64) -> Vec<Pair> {
    (0..500).map(|k| Pair::parse(&format!("{k}"), &format!("{}", n * 500 + k)).unwrap()).collect()
}

/// Adds requests from `n` on until one fails; returns its number and the error.
fn fill(graph: &Graph, mut n: u64) -> (u64, WriteError) {
    loop {
        match graph.add_blocking(request(n)) {
            Ok(added) => assert_eq!(added, 500),
            Err(error) => return (n, error),
        }
        n += 1;
    }
}

/// All of the first `n` requests are stored in both directions, nothing of a later one is.
fn holds_exactly(graph: &Graph, n: u64) {
    assert_eq!(graph.subscriptions(), n * 500);
    for user in 0..(n + 2) * 500 {
        let followers = graph.page_followers(Id::from_bits(user), None, 10).unwrap().ids;
        let expected = if user < n * 500 { vec![Id::from_bits(user % 500)] } else { vec![] };
        assert_eq!(followers, expected);
    }
    for user in 0..500 {
        let following = graph.page_following(Id::from_bits(user), None, usize::MAX).unwrap();
        assert_eq!(following.ids.len() as u64, n);
    }
}

/// Runs where a file system of 8 MB is mounted.
#[test]
fn child_fills_the_disk() {
    let Some(dir) = child_dir() else { return };
    let ballast = dir.join("ballast");
    fs::write(&ballast, vec![0; 4 << 20]).unwrap();
    let graph = open(&dir);
    let (n, error) = fill(&graph, 0);
    assert!(matches!(error, WriteError::DiskFull(_)), "{error}");
    holds_exactly(&graph, n);
    assert!(graph.add_blocking(request(n)).is_err(), "still full");
    holds_exactly(&graph, n);

    fs::remove_file(ballast).unwrap();
    assert_eq!(graph.add_blocking(request(n)), Ok(500));
    holds_exactly(&graph, n + 1);
    let (n, error) = fill(&graph, n + 1);
    assert!(matches!(error, WriteError::DiskFull(_)), "{error}");
    drop(graph);
    holds_exactly(&open(&dir), n);
}

#[test]
fn full_disk_fails_the_request_and_later_ones_succeed_when_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = testing::on_small_disk(dir.path(), 8 << 20) else {
        return testing::skip("this user may not mount a small disk (unshare --mount)");
    };
    let child = child(&[], "limits::child_fills_the_disk", dir.path());
    command.arg(child.get_program()).args(child.get_args()).env(DIR, dir.path());
    assert!(command.status().unwrap().success());
}

/// Runs where a file system is mounted, which it makes one that cannot be written.
#[test]
fn child_reads_what_cannot_be_written() {
    let Some(dir) = child_dir() else { return };
    let data = dir.join("data");
    let graph = open(&data);
    assert_eq!(graph.add_blocking(request(0)), Ok(500));
    drop(graph);
    fs::remove_file(data.join("lock.mdb")).unwrap();
    let mount = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(&dir).status();
    assert!(mount.unwrap().success());
    assert!(Graph::open(&data, &GraphOptions::default()).is_err());
    let graph = Graph::open_to_read(&data, &GraphOptions::default()).unwrap();
    holds_exactly(&graph, 1);
    let mut text = Vec::new();
    assert_eq!(graph.export(&mut text, &mut |_, _| {}).unwrap(), 500);
    assert_eq!(graph.stats(&mut |_, _| {}).unwrap().subscriptions, 500);
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("backup");
    graph.backup_to(&mut fs::File::create(&path).unwrap()).unwrap();
    assert_eq!(graph::check_backup(&path, &mut |_, _| {}).unwrap().subscriptions, 500);
    assert!(graph.add_blocking(request(1)).is_err());
}

#[test]
fn store_on_a_read_only_mount_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut command) = testing::on_small_disk(dir.path(), 8 << 20) else {
        return testing::skip("this user may not mount a small disk (unshare --mount)");
    };
    let child = child(&[], "limits::child_reads_what_cannot_be_written", dir.path());
    command.arg(child.get_program()).args(child.get_args()).env(DIR, dir.path());
    assert!(command.status().unwrap().success());
}

#[test]
fn child_reaches_its_file_size_limit() {
    let Some(dir) = child_dir() else { return };
    let graph = open(&dir);
    let (n, error) = fill(&graph, 0);
    assert!(matches!(error, WriteError::DiskFull(_)), "{error}");
    holds_exactly(&graph, n);
}

#[test]
fn file_size_limit_is_an_error_like_a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let limited = ["sh", "-c", "ulimit -f 8192; trap '' XFSZ; exec \"$@\"", "sh"];
    let test = "limits::child_reaches_its_file_size_limit";
    assert!(child(&limited, test, dir.path()).status().unwrap().success());
}

#[test]
fn child_opens_in_little_address_space() {
    let Some(dir) = child_dir() else { return };
    let graph = open(&dir);
    assert_eq!(graph.add_blocking(request(0)), Ok(500));
    holds_exactly(&graph, 1);
}

#[test]
fn address_space_limit_makes_the_reservation_smaller() {
    let dir = tempfile::tempdir().unwrap();
    let limited = ["sh", "-c", "ulimit -v 4000000; exec \"$@\"", "sh"];
    let test = "limits::child_opens_in_little_address_space";
    assert!(child(&limited, test, dir.path()).status().unwrap().success());
}

#[test]
fn store_that_reached_its_reservation_says_so_and_grows_in_a_larger_one() {
    let dir = tempfile::tempdir().unwrap();
    let graph = Graph::open(dir.path(), &GraphOptions { map_bytes: 2 << 20 }).unwrap();
    let (n, error) = fill(&graph, 0);
    assert_eq!(error, WriteError::SizeLimit(2 << 20));
    holds_exactly(&graph, n);
    drop(graph);
    let graph = open(dir.path());
    assert_eq!(graph.add_blocking(request(n)), Ok(500));
    holds_exactly(&graph, n + 1);
}
