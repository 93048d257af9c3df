//! The innocent: listeners who hear what is sent about them, and a client that comes back.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use figures::latency::Quantiles;
use load::{Flood, FloodConfig, Spam, SpamConfig};

use crate::LOOK;
use crate::clients::{answer, place};
use crate::harness::{DEADLINE, Server, Wire, get, wait_for};
use crate::secure::SecureNeighbour;

const LISTENERS: u32 = 100;
const EVENTS_PER_SECOND: f64 = 500.0;

/// Listeners and their sender.
pub(crate) struct Neighbour {
    listeners: Flood,
    sender: Spam,
    secure: Option<SecureNeighbour>,
}

/// How long events took, second by second.
#[derive(Default)]
pub(crate) struct Seconds(Vec<Quantiles>);

/// The same of plain listeners and of those over TLS.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) plain: Seconds,
    pub(crate) secure: Seconds,
}

/// A client that asks again and again what it has missed.
pub(crate) struct Resumer {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Duration>,
}

impl Resumer {
    /// One whose path has `query` behind it.
    pub(crate) fn start(server: &Server, query: &str) -> Resumer {
        let is_over = Arc::new(AtomicBool::new(false));
        let listen = server.listen();
        let query = query.replace('?', "&");
        let place = place(listen, &query);
        let request = get(&format!("/poll/7777?wait=0&after={place}{query}"), &[]);
        let over = Arc::clone(&is_over);
        let ask = move || {
            let mut wire = Wire::connect(listen);
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                wire.send(&request);
                answer(&mut wire).unwrap();
                longest = longest.max(asked.elapsed());
                thread::sleep(LOOK);
            }
            longest
        };
        Resumer { is_over, thread: thread::spawn(ask) }
    }

    /// How long it waited at most.
    pub(crate) fn finish(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

impl Display for Seconds {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let median = |figure: fn(&Quantiles) -> f64| {
            let mut seconds: Vec<f64> = self.0.iter().map(figure).collect();
            seconds.sort_by(f64::total_cmp);
            seconds[seconds.len() / 2]
        };
        let max_ms = self.0.iter().map(|second| second.max_ms).fold(0.0, f64::max);
        let (p50_ms, p99_ms) = (median(|second| second.p50_ms), median(|second| second.p99_ms));
        f.pad(&format!("{p50_ms:.1} / {p99_ms:.1} {{{max_ms:.0}}}"))
    }
}

impl Neighbour {
    /// Listeners whose paths have `query` behind them; over TLS too where whom they trust is in a
    /// file.
    pub(crate) fn start(server: &Server, query: &str, secure: Option<&str>) -> Neighbour {
        let url = format!("{}/stream/{{id}}{query}", server.url());
        let listeners = FloodConfig { url, users: LISTENERS, threads: 1, ..FloodConfig::default() };
        let listeners = Flood::start(listeners).unwrap();
        assert!(listeners.wait_until(DEADLINE, |totals| totals.open() == u64::from(LISTENERS)));
        let sender = SpamConfig {
            api: server.api_url(),
            users: LISTENERS,
            rate: EVENTS_PER_SECOND,
            coalesce: Duration::ZERO,
            ..SpamConfig::default()
        };
        let secure = secure.map(|ca| SecureNeighbour::start(server, ca));
        Neighbour { listeners, sender: Spam::start(&sender).unwrap(), secure }
    }

    /// What is heard as long as `goes_on` says so, asked often, and for a second at least.
    pub(crate) fn hear_while(&mut self, mut goes_on: impl FnMut() -> bool) -> Heard {
        let mut heard = Heard::default();
        // What came since the last look is not a part of it.
        self.listeners.snapshot();
        self.secure.as_ref().map(SecureNeighbour::take);
        while goes_on() || heard.plain.0.is_empty() {
            let second = Instant::now() + Duration::from_secs(1);
            while goes_on() && Instant::now() < second {
                thread::sleep(LOOK);
            }
            thread::sleep(second.saturating_duration_since(Instant::now()));
            heard.plain.0.push(self.listeners.snapshot().latency);
            heard.secure.0.extend(self.secure.as_ref().map(SecureNeighbour::take));
        }
        heard
    }

    /// What is heard in `time`.
    pub(crate) fn hear(&mut self, time: Duration) -> Heard {
        let end = Instant::now() + time;
        self.hear_while(|| Instant::now() < end)
    }

    /// Whether each event was heard once.
    pub(crate) fn finish(self) -> bool {
        if let Some(secure) = self.secure {
            secure.finish();
        }
        self.sender.stop();
        wait_for("the sender ends", || self.sender.is_finished());
        let sent = self.sender.finish().totals;
        self.listeners.wait_until(DEADLINE, |totals| totals.events >= sent.delivered);
        let heard = self.listeners.finish().unwrap().totals;
        let all = sent.problems_total() == 0
            && sent.answered == sent.sent
            && sent.delivered == sent.sent
            && heard.events == sent.sent;
        if !all {
            let refused = sent.problems_total();
            println!(
                "  NOT all heard: {} sent, {refused} refused, {} delivered, {} heard",
                sent.sent, sent.delivered, heard.events
            );
        }
        all
    }
}
