//! What a silent subscriber takes of the server's memory.

use crate::hub::Hub;
use crate::table::{Bound, Table};
use crate::{Outcome, Plan};

/// Topics of a subscriber beside the first one.
const FURTHER: u32 = 4;

/// Subscribers that come first: what they make the server reserve is no other's.
const WARM: u32 = 1_000;

/// Bytes of an idle subscriber with one topic, at most.
const ONE_MAX: f64 = 150.0;

/// Bytes of each further topic, at most.
const FURTHER_MAX: f64 = 40.0;

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("idle");
    let (own, shared) = ("topic=https://a.test/books/{id}", "topic=https://a.test/all");
    let further: String =
        (0..FURTHER).map(|number| format!("&topic=https://a.test/shared/{number}")).collect();
    let of_own = bytes_each(plan, own)?;
    table.take("idle subscriber, a topic of its own", of_own, "bytes", Bound::AtMost(ONE_MAX));
    let of_shared = bytes_each(plan, shared)?;
    table.take("idle subscriber, one topic for all", of_shared, "bytes", Bound::AtMost(ONE_MAX));
    let of_all = bytes_each(plan, &format!("{shared}{further}"))?;
    let more = (of_all - of_shared) / f64::from(FURTHER);
    table.take("each further topic", more, "bytes", Bound::AtMost(FURTHER_MAX));
    let patterns: String = (0..FURTHER)
        .map(|number| format!("&topic=https://a.test/shared/{number}/%7Bbook%7D"))
        .collect();
    let of_patterns = bytes_each(plan, &format!("{shared}{patterns}"))?;
    let more = (of_patterns - of_shared) / f64::from(FURTHER);
    table.take("each further pattern, for all", more, "bytes", Bound::AtMost(FURTHER_MAX));
    Ok(())
}

/// Bytes of each subscriber that asks for `query`.
fn bytes_each(plan: &Plan, query: &str) -> Outcome<f64> {
    let hub = Hub::start(&[]);
    let _warm = hub.subscribe(query, 0, WARM)?;
    let before = hub.bytes()?;
    let _crowd = hub.subscribe(query, u64::from(WARM), plan.connections)?;
    Ok((hub.bytes()? - before) / f64::from(plan.connections))
}
