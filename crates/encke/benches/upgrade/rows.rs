//! This is a run as rows that `encke plot` draws, two a second. A row has the memory of all servers
//! on one data directory together, the streams, what is sent, and what listeners wait for it.

use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use figures::latency::Latencies;
use figures::run::{Row, RunWriter};
use serde_json::Value;

use crate::harness::{Api, Server};
use crate::million::resident_on;

const INTERVAL: Duration = Duration::from_millis(500);

/// Rows on their way into a file.
pub(crate) struct Rows {
    stop: Arc<AtomicBool>,
    writer: JoinHandle<()>,
}

impl Rows {
    /// Writes to `file`; `heard` has the waits of listeners since the row before.
    pub(crate) fn start(
        server: &Server,
        data: &Path,
        heard: &Arc<Mutex<Latencies>>,
        file: &Path,
    ) -> Rows {
        let stop = Arc::new(AtomicBool::new(false));
        let mut rows = RunWriter::new(File::create(file).unwrap()).unwrap();
        let (stopped, heard) = (Arc::clone(&stop), Arc::clone(heard));
        let (api, data) = (server.api.another(), data.to_owned());
        let writer = thread::spawn(move || {
            let (begin, mut before) = (Instant::now(), None);
            while !stopped.load(Ordering::Relaxed) {
                rows.write(&row(begin, &api, &data, &mut before, &heard)).unwrap();
                thread::sleep(INTERVAL);
            }
        });
        Rows { stop, writer }
    }

    pub(crate) fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.writer.join().unwrap();
    }
}

/// One moment, and the time since `before`, which it becomes.
fn row(
    begin: Instant,
    api: &Api,
    data: &Path,
    before: &mut Option<(Instant, Value)>,
    heard: &Mutex<Latencies>,
) -> Row {
    // It waits with all others while the server changes hands.
    let stats = api.stats();
    let number = |stats: &Value, name: &str| stats[name].as_u64().unwrap();
    let mut row = Row::unknown(begin.elapsed().as_secs_f64(), sys::clock::unix_ms());
    let memory = resident_on(data);
    row.resident_bytes = Some(memory.total);
    row.resident_anonymous_bytes = Some(memory.anonymous);
    row.connections_open = Some(number(&stats, "connections_open"));
    let now = Instant::now();
    if let Some((then, stats_then)) = before {
        let seconds = now.duration_since(*then).as_secs_f64();
        let rate = |name| {
            let more = number(&stats, name).saturating_sub(number(stats_then, name));
            Some(more as f64 / seconds)
        };
        row.events_per_second = rate("events");
        row.deliveries_per_second = rate("deliveries");
    }
    *before = Some((now, stats));
    let waits = std::mem::take(&mut *heard.lock().unwrap());
    row.set_received(&waits.quantiles());
    row
}
