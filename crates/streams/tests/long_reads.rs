//! What those take of memory who read one long append at one time. It is the only test of its
//! process, whose peak it reads.

#![allow(clippy::unwrap_used, reason = "a failed test should panic")]

use std::process::Command;
use std::sync::Barrier;
use std::{env, fs, thread};

use streams::{Append, Create, LONG_READS_MAX, Lifetime, Limits, Start, Store};

/// Set where the test reads.
const CHILD: &str = "ENCKE_TEST_LONG_READS";

const MIB: usize = 1 << 20;

/// As long as one request can append.
const APPEND_BYTES: usize = 8 * MIB;

/// As many as a server has threads for reads.
const READERS: usize = 64;

/// What they may take together. A reader has the record and a copy of its data, twice its bytes. So
/// eight readers have 128 MiB, and some that have just read have a copy still: there is room for 16
/// of those. Without a bound on readers there are 64 records at least, 512 MiB, and up to 1 GiB
/// with the copies: to sum a record takes longer than a thread's turn on its processor, so each has
/// begun before the first has ended.
const GROWN_BYTES_MAX: usize = 2 * LONG_READS_MAX * 2 * APPEND_BYTES;

/// The most that this process ever had resident, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

/// In the child: reads by all, and looks what that has taken.
fn read_by_all() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits { bytes_max: 1 << 30, log_bytes: 64 << 10 };
    let store = Store::open(dir.path(), limits, sys::clock::unix_ms).unwrap();
    let content_type = "text/plain";
    let create = Create { content_type, lifetime: Lifetime::Unbounded, closed: false, data: b"" };
    store.create("a", &create, None).unwrap();
    let data = vec![b'x'; APPEND_BYTES];
    let (closes, producer, sequence) = (false, None, None);
    let append =
        Append { closes, producer, sequence, data: &data, content_type: Some(content_type) };
    store.append("a", &append, None).unwrap();
    let (before, barrier) = (peak(), Barrier::new(READERS));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                barrier.wait();
                let piece = store.read("a", Start::Beginning, 1).unwrap();
                assert_eq!(piece.data.len(), APPEND_BYTES);
            });
        }
    });
    let grown = peak().saturating_sub(before);
    assert!(grown < GROWN_BYTES_MAX, "{} MiB", grown / MIB);
}

#[test]
fn many_who_read_one_long_append_take_the_memory_of_a_few() {
    if env::var_os(CHILD).is_some() {
        return read_by_all();
    }
    let name = "many_who_read_one_long_append_take_the_memory_of_a_few";
    let mut child = Command::new(env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture"]).env(CHILD, "1");
    // All that is long is given back as soon as it is freed. By itself glibc keeps some of it in
    // each of its arenas, of which there are eight for each processor (mallopt(3)).
    let output = child.env("MALLOC_MMAP_THRESHOLD_", "131072").output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    assert!(output.status.success() && said[0].contains("1 passed"), "{}", said.join("\n"));
}
