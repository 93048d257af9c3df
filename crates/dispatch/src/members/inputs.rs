//! What the cluster says to the task that tells who is in a room, and asks of it.

use std::future::pending;
use std::time::Duration;

use cluster::RoomStep;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::cluster::{RoomAsk, RoomFormat, RoomsLink, RoomsSay};

/// How often it is looked for rooms that nobody wants any more.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// One of these.
pub(super) enum Input {
    /// The log says something.
    Step(RoomStep),
    /// What nodes read is known.
    Format(RoomFormat),
    /// The API asks for a list.
    Ask(RoomAsk),
    /// Time has passed.
    Look,
}

/// Where they come from; nowhere for a server that is alone.
pub(super) struct Inputs(Option<Sources>);

struct Sources {
    steps: mpsc::Receiver<RoomStep>,
    asks: mpsc::Receiver<RoomAsk>,
    format: watch::Receiver<RoomFormat>,
    looks: Interval,
}

impl Inputs {
    /// Those of a link, and the way back.
    pub(super) fn of(link: Option<RoomsLink>) -> (Inputs, Option<RoomsSay>) {
        let Some(RoomsLink { steps, asks, format, say }) = link else {
            return (Inputs(None), None);
        };
        let looks = every(LOOK_EVERY);
        (Inputs(Some(Sources { steps, asks, format, looks })), Some(say))
    }

    /// The next one. Dropped before, it has taken nothing.
    pub(super) async fn next(&mut self) -> Input {
        let Some(Sources { steps, asks, format, looks }) = &mut self.0 else {
            return pending().await;
        };
        // What has ended is passed over.
        tokio::select! {
            Some(step) = steps.recv() => Input::Step(step),
            Some(ask) = asks.recv() => Input::Ask(ask),
            Ok(()) = format.changed() => Input::Format(*format.borrow_and_update()),
            _ = looks.tick() => Input::Look,
        }
    }
}

/// Ticks that are not made up for where one was late.
pub(super) fn every(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
