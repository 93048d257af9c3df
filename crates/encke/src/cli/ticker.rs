//! How often an instrument at work is looked at: often whether it is done, once a second for a line
//! that says how far it is.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::signals::Signals;

/// The time from one look to the next.
const PERIOD: Duration = Duration::from_millis(50);

/// Looks from one line to the next.
const TICKS_PER_LINE: u32 = 20;

/// Says when to look.
pub(super) struct Ticker {
    interval: Interval,
    ticks: u32,
}

impl Ticker {
    /// The first look is due after one period.
    pub(super) fn new() -> Ticker {
        let mut interval = interval(PERIOD);
        interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
        interval.reset();
        Ticker { interval, ticks: 0 }
    }

    /// Waits for the next look.
    pub(super) async fn tick(&mut self) {
        self.interval.tick().await;
        self.ticks += 1;
    }

    /// Waits for the next look; `false` when a signal came before.
    pub(super) async fn tick_unless(&mut self, signals: &mut Signals) -> bool {
        tokio::select! {
            () = self.tick() => true,
            _ = signals.next() => false,
        }
    }

    /// Whether this look is one for a line.
    pub(super) fn line_is_due(&self) -> bool {
        self.ticks > 0 && self.ticks.is_multiple_of(TICKS_PER_LINE)
    }
}
