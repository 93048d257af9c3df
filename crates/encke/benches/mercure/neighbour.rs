//! The innocent: subscribers who hear updates at even intervals.

use load::Flood;

use crate::hub::Hub;
use crate::publish::Order;
use crate::table::Table;
use crate::wire::{Shape, Wire};
use crate::{GRACE, Outcome, child};

const SUBSCRIBERS: u32 = 20;

/// Updates a second over all of them.
const RATE: f64 = 200.0;

/// Publishers, so that one update does not wait for the answer to another.
const PUBLISHERS: usize = 20;

/// Subscribers and their publishers.
pub(crate) struct Neighbour {
    crowd: Flood,
    order: Order,
    sent: u64,
    refused: u64,
}

impl Neighbour {
    /// Some that hear for `seconds` each time.
    pub(crate) fn start(hub: &Hub, seconds: f64) -> Outcome<Neighbour> {
        let crowd = hub.subscribe(&Shape::Plain.query(), 0, SUBSCRIBERS)?;
        let order = Order {
            wire: Wire::Form(Shape::Plain),
            address: hub.server.api.address(),
            publishers: PUBLISHERS,
            ids: SUBSCRIBERS.into(),
            is_each_once: false,
            rate: Some(RATE),
            seconds,
            seed: 1,
        };
        Ok(Neighbour { crowd, order, sent: 0, refused: 0 })
    }

    /// The 99th percentile, in milliseconds, of what is heard in that time.
    pub(crate) fn hear(&mut self) -> Outcome<f64> {
        self.crowd.snapshot();
        let published = child::publish(self.order.clone(), || Ok(()))?;
        self.sent += published.sent;
        self.refused += published.refused;
        let events = self.sent - self.refused;
        self.crowd.wait_until(GRACE, |totals| totals.events >= events);
        Ok(self.crowd.snapshot().latency.p99_ms)
    }

    /// Says so where they did not hear each update once.
    pub(crate) fn finish(self, name: &str, table: &mut Table) -> Outcome<()> {
        let (sent, refused, totals) = (self.sent, self.refused, self.crowd.finish()?.totals);
        let heard = totals.events;
        if refused > 0 || heard != sent || totals.missing() + totals.doubled > 0 {
            let what = format!("neighbours: {sent} sent, {refused} refused, {heard} heard");
            table.fault(name, what);
        }
        Ok(())
    }
}
