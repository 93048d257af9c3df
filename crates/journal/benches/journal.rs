//! It measures what a record costs at 10,000 a second beside the same loop without a log, and
//! durable appends of 64 publishers beside the bare loop of the same writes and syncs. Then a log
//! of ten million events of 100 bytes: its disk, its start after the writer's process was ended,
//! and its memory. Then a resume of 1,000 events over 200 keys, with a cold and a warm page cache.
//!
//! `cargo bench -p journal`, a minute, or with `-- paced` the first of them alone; files go to
//! `$JOURNAL_BENCH_DIR` or the temporary directory.

#![expect(clippy::print_stdout, reason = "figures are what it is for")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use journal::{Config, Journal, Most, NoRoom, RealDisk, Record, Room, Sync};

const EVENTS: u64 = 10_000_000;
const KEYS: u64 = 100_000;
const BODY: usize = 100;
const PUBLISHERS: usize = 64;
const PACED: u64 = 10_000;
const ROUNDS: u64 = 5;
const MEASURED: Duration = Duration::from_secs(5);
const FILL: &str = "JOURNAL_BENCH_FILL";

fn open(dir: &Path) -> Journal {
    let bytes_max = 8 << 30;
    let config =
        Config { dir: dir.to_owned(), bytes_max, segment_bytes: 32 << 20, sync: Sync::Group };
    Journal::open(config, Arc::new(RealDisk)).expect("the log opens").journal
}

fn room(journal: &Journal, bytes: usize) -> Room {
    loop {
        match journal.reserve(bytes) {
            Ok(room) => return room,
            Err(NoRoom::Queue) => std::thread::yield_now(),
            Err(NoRoom::Disk) => panic!("the disk fails"),
        }
    }
}

fn key(number: u64) -> String {
    format!("u:{:06}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % KEYS)
}

fn append(journal: &Journal, number: u64) {
    let (key, body, at_ms) = (key(number), [b'e'; BODY], 1_764_000_000_000 + number);
    let keys: &[&[u8]] = &[key.as_bytes()];
    let expires_ms = at_ms + 604_800_000;
    let record = Record { number, at_ms, expires_ms, keys, kind: 1, body: &body };
    journal.append(room(journal, record.bytes()), record);
}

fn size(dir: &Path) -> u64 {
    let files = std::fs::read_dir(dir).expect("it lists");
    files.map(|file| file.and_then(|file| file.metadata()).expect("it has a size").len()).sum()
}

/// Processor time of this process so far, in microseconds (proc(5): `utime` and `stime`, in ticks
/// of a hundredth of a second).
fn cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let fields = stat.rsplit(')').next().expect("it has a name").split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() * 1e4
}

/// Records at even intervals for a second, kept or not; processor time of each in microseconds.
fn paced_second(journal: Option<&Journal>, first: u64) -> f64 {
    let (start, before) = (Instant::now(), cpu_us());
    for step in 0..PACED {
        let due = start + Duration::from_secs(1) * step as u32 / PACED as u32;
        let left = due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::park_timeout(left);
        }
        match journal {
            Some(journal) => append(journal, first + step),
            None => drop(std::hint::black_box((key(first + step), [b'e'; BODY]))),
        }
    }
    (cpu_us() - before) / PACED as f64
}

/// The median of rounds with a log and without one.
fn paced(dir: &Path) -> (f64, f64) {
    let journal = open(dir);
    let (mut kept, mut bare) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        bare.push(paced_second(None, 1));
        kept.push(paced_second(Some(&journal), 1 + round * PACED));
    }
    kept.sort_by(f64::total_cmp);
    bare.sort_by(f64::total_cmp);
    (kept[kept.len() / 2], bare[bare.len() / 2])
}

/// Appends and waits, of many at once; appends and syncs a second.
fn publishers(dir: &Path) -> (f64, f64) {
    let journal = open(dir);
    let number = Mutex::new(0);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..PUBLISHERS {
            scope.spawn(|| {
                let (sender, receiver) = mpsc::sync_channel(1);
                while start.elapsed() < MEASURED {
                    let mut last = number.lock().expect("nobody panics");
                    *last += 1;
                    append(&journal, *last);
                    let mine = *last;
                    drop(last);
                    let sender = sender.clone();
                    journal.wait_durable(mine, move |result| {
                        sender.send(result).expect("the publisher waits");
                    });
                    receiver.recv().expect("the writer answers").expect("it is durable");
                }
            });
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    let appends = *number.lock().expect("nobody panics");
    (appends as f64 / seconds, journal.stats().syncs as f64 / seconds)
}

/// Writes and syncs of so many bytes, one after the other; how many a second.
fn bare(dir: &Path, bytes: usize) -> f64 {
    let file = File::create(dir.join("bare")).expect("a file");
    let bytes = vec![b'e'; bytes];
    let (start, mut syncs) = (Instant::now(), 0);
    while start.elapsed() < MEASURED {
        file.write_all_at(&bytes, syncs * bytes.len() as u64).expect("it writes");
        file.sync_data().expect("it syncs");
        syncs += 1;
    }
    syncs as f64 / start.elapsed().as_secs_f64()
}

/// Fills a log and ends without closing it, as a process that is killed.
fn fill(dir: &Path) -> ! {
    let journal = open(dir);
    let start = Instant::now();
    (1..=EVENTS).for_each(|number| append(&journal, number));
    while journal.written() < EVENTS {
        std::thread::yield_now();
    }
    println!(
        "{:>12.0} events/s appended by one thread",
        EVENTS as f64 / start.elapsed().as_secs_f64()
    );
    std::process::abort();
}

/// Asks the kernel to forget the files' pages.
fn cool(dir: &Path) {
    for file in std::fs::read_dir(dir).expect("it lists") {
        let path = file.expect("it lists").path();
        let of = format!("of={}", path.display());
        let args =
            [of.as_str(), "oflag=nocache", "conv=notrunc,fdatasync", "count=0", "status=none"];
        assert!(Command::new("dd").args(args).status().expect("dd runs").success());
    }
}

fn memory_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with("VmRSS")).expect("it has it");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse().ok()).expect("a number")
}

fn resume(journal: &Journal) -> Duration {
    let start = Instant::now();
    let mut out = Vec::new();
    let most = Most { records: 5, bytes: 1 << 20, now_ms: 1 };
    for number in 1..=200 {
        journal.after(key(number).as_bytes(), EVENTS / 2, most, &mut out).expect("it reads");
    }
    let took = start.elapsed();
    assert_eq!(out.len(), 1000);
    took
}

fn ten_million(dir: &Path) {
    let program = std::env::current_exe().expect("it has a name");
    let output = Command::new(program).env(FILL, dir).output().expect("it runs");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let bytes = size(dir);
    println!("{:>12.1} bytes of disk an event of {BODY}", bytes as f64 / EVENTS as f64);
    let before = memory_kb();
    let start = Instant::now();
    let journal = open(dir);
    println!("{:>12} ms to start, warm", start.elapsed().as_millis());
    assert_eq!(journal.written(), EVENTS);
    println!("{:>12.1} MB of memory more than before", (memory_kb() - before) as f64 / 1024.0);
    println!("{:>12} segments", journal.stats().segments);
    resume(&journal);
    println!("{:>12.1} ms to resume, warm", resume(&journal).as_secs_f64() * 1e3);
    journal.close().expect("it closes");
    cool(dir);
    let start = Instant::now();
    let journal = open(dir);
    println!("{:>12} ms to start, cold", start.elapsed().as_millis());
    println!("{:>12.1} ms to resume, cold", resume(&journal).as_secs_f64() * 1e3);
    println!("{:>12.1} MB of memory more, after it", (memory_kb() - before) as f64 / 1024.0);
}

fn main() {
    if let Some(dir) = std::env::var_os(FILL) {
        fill(Path::new(&dir));
    }
    let base = std::env::var_os("JOURNAL_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = tempfile::tempdir_in(base).expect("a directory");
    let (with, without) = paced(&dir.path().join("paced"));
    let more = with - without;
    println!("{more:>12.1} µs of processor a record at {PACED}/s; the loop alone {without:.1}");
    if std::env::args().any(|argument| argument == "paced") {
        return;
    }
    let (appends, syncs) = publishers(&dir.path().join("publishers"));
    let batch = appends / syncs;
    println!("{appends:>12.0} durable appends/s of {PUBLISHERS} publishers, {batch:.1} a sync");
    let record = size(&dir.path().join("publishers")) as f64 / (appends * MEASURED.as_secs_f64());
    let bare = bare(dir.path(), (batch * record) as usize) * batch;
    println!("{bare:>12.0} of the bare loop of such writes; {:.2} of it", appends / bare);
    ten_million(&dir.path().join("ten-million"));
}
