//! What subscribers and updates cost our hub and another one that somebody has started, in one run.
//!
//! A hub may look for whom a topic has at its first update only. So there are two rows: *first
//! updates*, each to another one of all subscribers, and updates to *warm topics*, each of which
//! had one before. The reference hub knows the listeners of a warm topic.

use std::net::SocketAddr;
use std::time::Duration;

use load::Flood;

use crate::harness;
use crate::hub::{Hub, all_token};
use crate::reference::Reference;
use crate::table::{Bound, Table};
use crate::updates::{Run, Stand};
use crate::wire::{Shape, Wire, publish_all_by};
use crate::{Outcome, Plan};

/// How many times the first updates of the reference hub are wanted.
const TIMES_MIN: f64 = 15.0;

/// So many topics are warm, as with `compat/mercure/load.py`.
const WARM_TOPICS: u32 = 400;

/// Of their first updates so many are on their way at one time: they fit the kernel's buffers.
const AT_ONCE: u32 = 50;

/// One of the two hubs.
struct Side<'s> {
    name: &'static str,
    /// Where publishers connect, and what they show.
    address: SocketAddr,
    token: &'s str,
    subscribe: &'s dyn Fn(&str, u32) -> Outcome<Flood>,
    cpu: &'s dyn Fn() -> Outcome<Duration>,
    bytes: &'s dyn Fn() -> Outcome<f64>,
}

/// What was measured of it.
struct Costs {
    first: Run,
    warm: Run,
    /// Bytes of a subscriber that has heard nothing, and behind all updates.
    idle_bytes: f64,
    bytes_after: f64,
}

/// One hub after the other. Ours is the first, since it ends with its turn: the other one has work
/// behind its own, when its subscribers leave.
pub(crate) fn run(plan: &Plan, reference: &Reference, table: &mut Table) -> Outcome<()> {
    let ours = {
        let hub = Hub::start(&[]);
        let side = Side {
            name: "ours",
            address: hub.server.api.address(),
            token: all_token(),
            subscribe: &|query, users| hub.subscribe(query, 0, users),
            cpu: &|| hub.cpu(),
            bytes: &|| hub.bytes(),
        };
        side.run(plan, table)?
    };
    let side = Side {
        name: "the reference hub",
        address: reference.address,
        token: &reference.token,
        subscribe: &|query, users| reference.subscribe(query, users),
        cpu: &|| reference.cpu(),
        bytes: &|| reference.bytes(),
    };
    let theirs = side.run(plan, table)?;
    let is_known = reference.pid.is_some();
    let first = format!("first updates a second, each to another one of {}", plan.connections);
    tell(&first, (&ours.first, &theirs.first), Bound::AtLeast(TIMES_MIN), table);
    tell_processor("a first update", (&ours.first, &theirs.first), is_known, table);
    let warm = format!("updates a second to {} warm topics", warm_topics(plan));
    tell(&warm, (&ours.warm, &theirs.warm), Bound::None, table);
    tell_processor("an update of a warm topic", (&ours.warm, &theirs.warm), is_known, table);
    for (name, ours, theirs) in [
        ("bytes of a subscriber, idle", ours.idle_bytes, theirs.idle_bytes),
        ("bytes of a subscriber, after the updates", ours.bytes_after, theirs.bytes_after),
    ] {
        table.take(name, ours, "", Bound::None);
        if is_known {
            table.take("the same of the reference hub", theirs, "", Bound::None);
        }
    }
    Ok(())
}

fn tell(name: &str, (ours, theirs): (&Run, &Run), bound: Bound, table: &mut Table) {
    table.take(name, ours.rate, "", Bound::None);
    table.take("the same of the reference hub", theirs.rate, "", Bound::None);
    table.take("ratio to the reference hub", ours.rate / theirs.rate, "", bound);
}

fn tell_processor(of: &str, (ours, theirs): (&Run, &Run), is_known: bool, table: &mut Table) {
    table.take(&format!("processor of {of}"), ours.each_us, "µs", Bound::None);
    if is_known {
        table.take("the same of the reference hub", theirs.each_us, "µs", Bound::None);
    }
}

fn warm_topics(plan: &Plan) -> u32 {
    plan.connections.min(WARM_TOPICS)
}

impl Side<'_> {
    fn run(&self, plan: &Plan, table: &mut Table) -> Outcome<Costs> {
        let before = (self.bytes)()?;
        let flood = (self.subscribe)(&Shape::Plain.query(), plan.connections)?;
        let each = |bytes: f64| (bytes - before) / f64::from(plan.connections);
        let idle_bytes = each((self.bytes)()?);
        let wire = Wire::FormBy(self.token.to_owned());
        let mut stand = Stand::new(wire, self.address, flood, self.cpu);
        let first = stand.measure_once(plan.connections, plan.seconds)?;
        first.tell(&format!("{}, first updates", self.name), table);
        let topics = warm_topics(plan);
        self.warm_up(topics)?;
        stand.were_taken(topics.into());
        let warm = stand.measure(topics, plan.seconds)?;
        warm.tell(&format!("{}, warm topics", self.name), table);
        let bytes_after = each((self.bytes)()?);
        stand.finish(self.name, table)?;
        Ok(Costs { first, warm, idle_bytes, bytes_after })
    }

    /// Publishes one update to each of the first subscribers: not all had one within the time.
    fn warm_up(&self, topics: u32) -> Outcome<()> {
        let mut wire = harness::Wire::connect(self.address);
        for first in (0..topics).step_by(AT_ONCE as usize) {
            let numbers = first..topics.min(first + AT_ONCE);
            let update = |number: u32| (Shape::Plain.topic(number.into()), "warm".to_owned());
            publish_all_by(self.token, &mut wire, &numbers.map(update).collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
