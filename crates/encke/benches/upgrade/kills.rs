//! Kills at random moments: `tests/it/upgrade/killing.rs`, more often than a test may.

use crate::Options;
use crate::parts::Killing;
use crate::table::Table;

const KILLS: u64 = 200;

/// One kill after the other, with a server that begins anew where one was a crash.
pub(crate) fn kills(options: &Options, table: &mut Table) {
    let seed = options.seed.unwrap_or(1);
    let mut killing = Killing::new(seed);
    let mut wrong = 0;
    for kill in 0..options.kills.unwrap_or(KILLS) {
        if let Err(why) = killing.run() {
            wrong += 1;
            table.shown(&format!("kill {kill} of seed {seed}"), why);
            killing.begin_anew();
        }
    }
    table.shown("seed", seed);
    for line in killing.counts.to_string().lines() {
        table.shown("", line);
    }
    table.oracle("kills that ended otherwise", wrong, 0);
}
