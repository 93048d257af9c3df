//! What neighbours notice of clients that mean harm, and what these make the server keep.

use std::time::{Duration, Instant};

use crate::attackers::Attack;
use crate::child::{self, Role};
use crate::hub::Hub;
use crate::neighbour::Neighbour;
use crate::table::{Table, number};
use crate::{Outcome, Plan, START_MAX};

/// How often the server's memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

pub(crate) fn run(plan: &Plan, table: &mut Table) -> Outcome<()> {
    println!("attacks");
    Attack::ALL.iter().try_for_each(|attack| one(*attack, plan, table))
}

/// One attack on a new server.
fn one(attack: Attack, plan: &Plan, table: &mut Table) -> Outcome<()> {
    let hub = Hub::start(&[]);
    let mut neighbour = Neighbour::start(&hub, plan.seconds)?;
    let before = neighbour.hear()?;
    let bytes_before = hub.bytes()?;
    let (listen, api) = (hub.server.listen(), hub.server.api.address());
    let (mut program, input) = child::spawn(&Role::Attack { attack, listen, api })?;
    let (mut most, mut is_whole) = (bytes_before, false);
    let during = std::thread::scope(|scope| -> Outcome<f64> {
        let hears = scope.spawn(|| neighbour.hear().map_err(|error| error.to_string()));
        let end = Instant::now() + START_MAX;
        while !(is_whole || Instant::now() > end) || !hears.is_finished() {
            most = most.max(hub.bytes()?);
            is_whole |= program.line_within(LOOK).is_ok();
            if program.has_ended() {
                return Err(format!("the attack ended: {}", program.stderr()).into());
            }
        }
        Ok(hears.join().map_err(|_| "the neighbours have panicked")??)
    })?;
    drop((input, program));
    let after = neighbour.hear()?;
    let mb = |bytes: f64| number(bytes / 1e6);
    let bytes_after = hub.bytes()?;
    // What others leave of the cores may be little.
    let part = if is_whole { "" } else { " (a part of them)" };
    table.tell(
        &format!("{}{part}: memory before, at most, after", attack.name()),
        format!("{}, {}, {} MB", mb(bytes_before), mb(most), mb(bytes_after)),
    );
    table.tell(
        "neighbour's p99 before, during, after",
        format!("{before:.2}, {during:.2}, {after:.2} ms"),
    );
    neighbour.finish(attack.name(), table)
}
