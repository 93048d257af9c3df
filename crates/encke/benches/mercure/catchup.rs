//! A subscriber comes back to many updates on one topic.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use crate::harness::{Wire, get};
use crate::hub::{Hub, PATH};
use crate::neighbour::Neighbour;
use crate::table::{Bound, Table};
use crate::wire::publish_all;
use crate::{Outcome, PAYLOAD_BYTES, Plan};

/// Milliseconds that a neighbour may wait longer meanwhile.
const LONGER_MAX: f64 = 5.0;

/// Requests that are on their way at one time on one connection: they fit the kernel's buffers.
const AT_ONCE: u64 = 50;

const TOPIC: &str = "https://a.test/long";

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("catchup");
    let events = format!("--history-events={}", plan.updates.max(1_000) * 2);
    let options = [&*events, "--history-seconds=3600", "--history-bytes=1GiB"];
    let hub = Hub::start(&options);
    let (listen, api) = (hub.server.listen(), hub.server.api.address());
    publish(api, plan.updates)?;
    let mut neighbour = Neighbour::start(&hub, plan.seconds)?;
    neighbour.hear()?;
    let before = neighbour.hear()?;
    let is_over = AtomicBool::new(false);
    let (during, rates) = thread::scope(|scope| -> Outcome<_> {
        let again = scope.spawn(|| {
            let mut rates = Vec::new();
            while rates.is_empty() || !is_over.load(Ordering::Relaxed) {
                rates.push(catch_up(listen, api, plan.updates, rates.len())?);
            }
            Ok::<_, String>(rates)
        });
        let during = neighbour.hear();
        is_over.store(true, Ordering::Relaxed);
        let rates = again.join().map_err(|_| "whoever came back has panicked")?;
        Ok((during?, rates?))
    })?;
    neighbour.finish("catch-up", table)?;
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    let name = format!("catch-up of {} updates, whole, in order, once: a second", plan.updates);
    table.take(&name, mean, "", Bound::None);
    let name = "neighbour's p99 during catch-ups, beyond that before";
    table.take(name, during - before, "ms", Bound::AtMost(LONGER_MAX));
    table.tell("the same before, and during", format!("{before:.2} and {during:.2} ms"));
    Ok(())
}

/// Publishes so many, in the order of their numbers.
fn publish(api: SocketAddr, updates: u64) -> Outcome<()> {
    let mut wire = Wire::connect(api);
    for first in (0..updates).step_by(AT_ONCE as usize) {
        let numbers = first..updates.min(first + AT_ONCE);
        let of: Vec<_> = numbers.map(|number| (TOPIC.to_owned(), data(number))).collect();
        publish_all(&mut wire, &of)?;
    }
    Ok(())
}

/// The text of an update, which tells its place.
fn data(number: u64) -> String {
    let mut text = format!("{number:08}");
    text.extend(std::iter::repeat_n('x', PAYLOAD_BYTES - text.len()));
    text
}

/// Comes back to all of them and hears what is live then. Updates a second.
fn catch_up(
    listen: SocketAddr,
    api: SocketAddr,
    updates: u64,
    round: usize,
) -> Result<f64, String> {
    let began = Instant::now();
    // What is live must not be there for the next one who comes back.
    let live = format!("{TOPIC}/live/{round}");
    let query = format!("topic={TOPIC}&topic={live}&lastEventID=earliest");
    let mut wire = Wire::connect(listen);
    wire.send(get(&format!("{PATH}?{query}"), &[]));
    let head = wire.head();
    if head.status != 200 || head.field("last-event-id") != Some("earliest") {
        return Err(head.text);
    }
    let mut next = 0;
    let mut rest = String::new();
    while next < updates {
        for event in events(&mut wire, &mut rest)? {
            if !event.ends_with(&format!("\ndata: {}", data(next))) {
                return Err(format!("behind {next} of {updates} updates: {event}"));
            }
            next += 1;
        }
    }
    let rate = updates as f64 / began.elapsed().as_secs_f64();
    publish_all(&mut Wire::connect(api), &[(live, "live".to_owned())])
        .map_err(|error| error.to_string())?;
    let heard = events(&mut wire, &mut rest)?;
    match &heard[..] {
        [event] if event.ends_with("\ndata: live") => Ok(rate),
        _ => Err(format!("{heard:?} is not what is live")),
    }
}

/// The next events, at least one, without the line ends behind them; `rest` has what is of one that
/// is not whole.
fn events(wire: &mut Wire, rest: &mut String) -> Result<Vec<String>, String> {
    loop {
        let chunk = wire.chunk().map_err(|error| error.to_string())?;
        rest.push_str(&String::from_utf8_lossy(&chunk));
        let Some(end) = rest.rfind("\n\n") else { continue };
        let whole: Vec<String> = rest[..end]
            .split("\n\n")
            .map(|event| event.trim_start_matches(":\n").to_owned())
            .filter(|event| !event.is_empty() && event != ":")
            .collect();
        rest.drain(..end + 2);
        if !whole.is_empty() {
            return Ok(whole);
        }
    }
}
