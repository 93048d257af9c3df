//! The innocent: listeners who hear what is sent about them.

use std::fmt::{self, Display, Formatter};
use std::thread;
use std::time::Duration;

use figures::latency::Quantiles;
use load::{Flood, FloodConfig, Spam, SpamConfig};

use crate::harness::{DEADLINE, Server, wait_for};

const LISTENERS: u32 = 100;
const EVENTS_PER_SECOND: f64 = 500.0;

/// Listeners and their sender.
pub(crate) struct Neighbour {
    crowd: Flood,
    sender: Spam,
}

/// How long events took.
pub(crate) struct Heard(Quantiles);

impl Display for Heard {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Heard(Quantiles { p50_ms, p99_ms, max_ms, .. }) = self;
        f.pad(&format!("{p50_ms:.1} / {p99_ms:.1} {{{max_ms:.0}}}"))
    }
}

impl Neighbour {
    pub(crate) fn start(server: &Server) -> Neighbour {
        let url = format!("{}/stream/{{id}}", server.url());
        let crowd = FloodConfig { url, users: LISTENERS, threads: 1, ..FloodConfig::default() };
        let crowd = Flood::start(crowd).unwrap();
        assert!(crowd.wait_until(DEADLINE, |totals| totals.open() == u64::from(LISTENERS)));
        let sender = SpamConfig {
            api: server.api_url(),
            users: LISTENERS,
            rate: EVENTS_PER_SECOND,
            coalesce: Duration::ZERO,
            ..SpamConfig::default()
        };
        Neighbour { crowd, sender: Spam::start(&sender).unwrap() }
    }

    /// What was heard since the last look, after `time` more.
    pub(crate) fn hear(&mut self, time: Duration) -> Heard {
        thread::sleep(time);
        Heard(self.crowd.snapshot().latency)
    }

    /// Whether each event was heard once.
    pub(crate) fn finish(self) -> bool {
        self.sender.stop();
        wait_for("the sender ends", || self.sender.is_finished());
        let sent = self.sender.finish().totals;
        self.crowd.wait_until(DEADLINE, |totals| totals.events >= sent.delivered);
        let heard = self.crowd.finish().unwrap().totals;
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
