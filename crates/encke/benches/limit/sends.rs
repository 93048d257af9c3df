//! `--sends`: what a send costs its sender, without the history and with it.
//!
//! The subjects are offline and nobody follows them, so nothing is delivered. What is measured is
//! the way from a draft to an event that is numbered, recorded and posted to nobody.

use std::sync::Arc;

use ::engine::{Engine, EngineConfig, Outgoing, Step};
use hub::{Epoch, HistoryLimits, Names, Nobody, Tag};
use sys::clock;

use crate::{DATA, Outcome};

const EVENTS: u64 = 1_000_000;

/// How many subjects the events are about, round and round.
const SUBJECTS: [u64; 2] = [1_000, 1_000_000];

pub(crate) fn run() -> Outcome<()> {
    println!("\n{:<48} {:>12} {:>12}", "ns of processor a send", "no history", "history");
    for prefix in ["", "user:"] {
        for subjects in SUBJECTS {
            let without = one(HistoryLimits::OFF, prefix, subjects)?;
            let with = one(HistoryLimits::default(), prefix, subjects)?;
            let name = format!("{subjects} subjects, ids {prefix}0 to {prefix}{}", subjects - 1);
            println!("{name:<48} {without:>12.0} {with:>12.0}");
        }
    }
    Ok(())
}

fn one(history: HistoryLimits, prefix: &str, subjects: u64) -> Outcome<f64> {
    let mut config = EngineConfig::new("127.0.0.1:0".parse()?);
    config.history = history;
    let epoch = Epoch::begin(Tag::of(0), 0, clock::unix_ms());
    let mut engine = Engine::start(config, epoch, Arc::new(Names::new([0; 16])))?;
    let router = Arc::clone(engine.router());
    let before = clock::thread_cpu();
    for event in 0..EVENTS {
        let about = format!("{prefix}{}", event % subjects);
        let mut sending = router.send(Outgoing::new(&about, DATA)?);
        while !matches!(sending.step(&Nobody)?, Step::Posted(_)) {}
    }
    let ns = (clock::thread_cpu() - before).as_nanos() as f64 / EVENTS as f64;
    engine.drain(0);
    Ok(ns)
}
