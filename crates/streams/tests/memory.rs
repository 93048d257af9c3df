//! What a fork takes of memory. It is the only test of its process, whose peak it reads.

#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

use std::fs;

use streams::{Append, Create, Fork, Lifetime, Limits, Start, Store, messages};

/// The most that this process ever had resident, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() * 1024
}

/// As many as one request can append: each would take 32 bytes if it were held apart.
#[test]
fn fork_within_an_append_of_many_messages_takes_some_times_its_bytes() {
    const MESSAGES: usize = 4 << 20;
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 1 << 30, log_bytes: 64 << 10 };
    let store = Store::open(dir.path(), limits, sys::clock::unix_ms).unwrap();
    let content_type = "application/json";
    let create = Create { content_type, lifetime: Lifetime::Unbounded, closed: false, data: b"" };
    let at = Start::At(store.create("a", &create, None).unwrap().head.next);
    let data = messages(format!("[{}0]", "0,".repeat(MESSAGES - 1)).as_bytes()).unwrap();
    let append = Append {
        closes: false,
        producer: None,
        sequence: None,
        data: &data,
        content_type: Some(content_type),
    };
    store.append("a", &append, None).unwrap();
    let fork = Fork {
        source: "a",
        at: Some(at),
        sub_offset: MESSAGES as u64 - 1,
        content_type,
        lifetime: None,
        closed: false,
        data: b"",
    };
    let before = peak();
    store.fork("b", &fork, None).unwrap();
    let grown = peak().saturating_sub(before);
    assert!(grown < 8 * data.len() as u64, "{grown} bytes for an append of {}", data.len());
    let piece = store.read("b", Start::Beginning, 1).unwrap();
    assert_eq!(piece.data.len(), data.len() - 2);
}
