//! How long a listener waits for an event: a few streams of their own, and an event every 20 ms
//! that tells when it was to be sent.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use figures::latency::Latencies;
use serde_json::json;

use crate::harness::Server;
use crate::parts::{Kind, Subscriber};

/// What they are logged in as: nobody of the crowd.
const ID: &str = "probe";

const STREAMS: usize = 8;
const INTERVAL_NS: u64 = 20_000_000;

/// Probes at work.
pub(crate) struct Probe {
    stop: Arc<AtomicBool>,
    sender: JoinHandle<Waits>,
    listeners: Vec<JoinHandle<Waits>>,
    heard: Arc<Mutex<Latencies>>,
}

/// Waits from when an event was to be sent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waits {
    pub(crate) longest: Duration,
    pub(crate) count: u64,
}

/// What senders and listeners waited.
pub(crate) struct Probed {
    /// For an answer.
    pub(crate) answers: Waits,
    /// For an event.
    pub(crate) events: Waits,
    /// Events that a listener missed or heard otherwise.
    pub(crate) wrong: u64,
}

impl Waits {
    /// One that ends now, and how many nanoseconds it was.
    fn add(&mut self, since_ns: u64) -> u64 {
        let waited_ns = sys::clock::monotonic_ns().saturating_sub(since_ns);
        self.longest = self.longest.max(Duration::from_nanos(waited_ns));
        self.count += 1;
        waited_ns
    }
}

impl Probe {
    pub(crate) fn start(server: &Server) -> Probe {
        let kinds = [Kind::Sse, Kind::Ndjson, Kind::WebSocket, Kind::Classic];
        let subscribers =
            (0..STREAMS).map(|n| Subscriber::open(server.listen(), kinds[n % 4], &[ID]));
        let heard = Arc::<Mutex<Latencies>>::default();
        let listener = |subscriber| {
            let heard = Arc::clone(&heard);
            thread::spawn(move || listen(subscriber, &heard))
        };
        let listeners = subscribers.map(listener).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, api) = (Arc::clone(&stop), server.api.another());
        let sender = thread::spawn(move || {
            let mut waits = Waits::default();
            let mut due_ns = sys::clock::monotonic_ns();
            while !stopped.load(Ordering::Relaxed) {
                let now_ns = sys::clock::monotonic_ns();
                thread::sleep(Duration::from_nanos(due_ns.saturating_sub(now_ns)));
                api.send(ID, due_ns.to_string());
                waits.add(due_ns);
                due_ns += INTERVAL_NS;
            }
            api.send(ID, "end");
            waits
        });
        Probe { stop, sender, listeners, heard }
    }

    /// What listeners waited since it was last taken.
    pub(crate) fn heard(&self) -> &Arc<Mutex<Latencies>> {
        &self.heard
    }

    pub(crate) fn finish(self) -> Probed {
        self.stop.store(true, Ordering::Relaxed);
        let answers = self.sender.join().unwrap();
        let mut probed = Probed { answers, events: Waits::default(), wrong: 0 };
        for listener in self.listeners {
            let heard = listener.join().unwrap();
            probed.events.longest = probed.events.longest.max(heard.longest);
            probed.events.count += heard.count;
            probed.wrong += heard.count.abs_diff(answers.count);
        }
        probed
    }
}

fn listen(mut subscriber: Subscriber, heard: &Mutex<Latencies>) -> Waits {
    let (mut waits, mut last_ns) = (Waits::default(), 0);
    loop {
        let data = subscriber.data();
        if data == json!("end") {
            return waits;
        }
        let due_ns: u64 = data.as_str().unwrap().parse().unwrap();
        assert!(due_ns > last_ns, "in order");
        last_ns = due_ns;
        let waited_ns = waits.add(due_ns);
        heard.lock().unwrap().record(waited_ns);
    }
}
