//! The floor: tokens written to files and synced, without a server.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::Duration;

use figures::latency::Latencies;
use sys::clock;

use crate::Plan;
use crate::table::Table;
use crate::writers::{TOKENS_MAX, token};

/// Threads that the server has for the disk (`DISK_THREADS_MAX` of `api/streams/row.rs`).
const THREADS: usize = 64;

#[derive(Default)]
struct Done {
    tokens: u64,
    syncs: u64,
    latencies: Latencies,
}

pub(crate) fn run(plan: &Plan, table: &mut Table) {
    let dir = plan.directory();
    let files: Vec<File> = (0..plan.streams)
        .map(|stream| File::create(dir.path().join(stream.to_string())).unwrap())
        .collect();
    let start_ns = clock::monotonic_ns();
    let mut all = Done::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|first| {
                let files = &files;
                scope.spawn(move || work(plan, files, start_ns, first))
            })
            .collect();
        for thread in threads {
            let done = thread.join().unwrap();
            all.tokens += done.tokens;
            all.syncs += done.syncs;
            all.latencies.add(&done.latencies);
        }
    });
    let seconds = (clock::monotonic_ns() - start_ns) as f64 / 1e9;
    table.shown("tokens a second", format!("{:.0}", all.tokens as f64 / seconds));
    table.shown("syncs a second", format!("{:.0}", all.syncs as f64 / seconds));
    let synced = all.latencies.quantiles();
    table.shown("a token is on disk after, p50", format!("{:.2} ms", synced.p50_ms));
    table.shown("  p99", format!("{:.2} ms", synced.p99_ms));
}

/// Writes what is due of each `THREADS`th stream from `first` on.
fn work(plan: &Plan, files: &[File], start_ns: u64, first: usize) -> Done {
    let mut done = Done::default();
    let mut written = vec![0; files.len()];
    let count = (plan.seconds * plan.rate) as u64;
    loop {
        let (mut is_over, mut is_idle) = (true, true);
        for stream in (first..files.len()).step_by(THREADS) {
            let (now_ns, begun) = (clock::monotonic_ns(), written[stream]);
            let mut number = begun;
            let mut text = String::new();
            while number < count && number < begun + TOKENS_MAX {
                let due_ns = plan.due_ns(start_ns, stream, number);
                if due_ns > now_ns {
                    break;
                }
                text.push_str(&token(number, due_ns));
                number += 1;
            }
            is_over &= number == count;
            if number == begun {
                continue;
            }
            let at = begun * token(0, 0).len() as u64;
            files[stream].write_all_at(text.as_bytes(), at).unwrap();
            files[stream].sync_data().unwrap();
            let now_ns = clock::monotonic_ns();
            for number in begun..number {
                done.latencies.record(now_ns - plan.due_ns(start_ns, stream, number));
            }
            done.tokens += number - begun;
            done.syncs += 1;
            written[stream] = number;
            is_idle = false;
        }
        if is_over {
            return done;
        }
        if is_idle {
            thread::sleep(Duration::from_micros(200));
        }
    }
}
