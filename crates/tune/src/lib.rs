//! Whether a machine holds so many users, what is too low for them, and what to type.
//!
//! [`Report::of_machine`] reads the machine and checks it; `encke tune` prints that, `encke demo`
//! asks it before it starts. Nothing here changes anything but [`apply::apply`], which writes the
//! kernel settings that a report found too low.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a failed test should panic"))]

pub mod apply;
mod check;
mod demand;
mod machine;
mod rules;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;

use serde::Serialize;

pub use check::{Check, Verdict};
use demand::Demand;
pub use demand::Ends;
use machine::Machine;
pub use machine::{Capacity, machine_memory, memory_limit};

/// Users that a machine is checked for when nobody says how many.
pub const USERS_DEFAULT: u32 = 1_000_000;

/// What a machine allows, against what a number of users takes.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Users, each with one connection.
    pub users: u32,
    /// Which ends of their connections are on the machine.
    pub ends: Ends,
    /// Whether they fit.
    pub fits: bool,
    /// The most users that fit with the server's ends alone.
    pub users_max: u32,
    /// The most that fit when their clients are on the machine, too.
    pub users_max_with_clients: u32,
    /// Cores of the machine.
    pub cores: usize,
    /// Workers that the server starts for them.
    pub workers: u64,
    /// Threads of the crowd, when it is here.
    pub listener_threads: u64,
    /// Loopback addresses that the crowd connects from, when it is here.
    pub listener_sources: u64,
    /// The limits that were looked at, in the order of the table.
    pub checks: Vec<Check>,
}

impl Report {
    /// Checks this machine for `users`.
    pub fn of_machine(users: u32, ends: Ends) -> Report {
        Report::of(&this_machine(), users, ends)
    }

    /// Checks `machine` for `users`.
    fn of(machine: &Machine, users: u32, ends: Ends) -> Report {
        let demand = Demand::of(machine, users, ends);
        let mut checks = check::checks(machine, &demand);
        for check in checks.iter_mut().filter(|check| check.verdict == Verdict::TooLow) {
            let most = most_users(machine, ends, |other| other.name == check.name);
            let most = format!("at most {} users", figures::numbers::grouped(most.into()));
            check.follows = Some(match check.follows.take() {
                Some(follows) => format!("{most}; {follows}"),
                None => most,
            });
        }
        Report {
            users,
            ends,
            fits: checks.iter().all(|check| check.verdict != Verdict::TooLow),
            users_max: most_users(machine, Ends::Server, |_| true),
            users_max_with_clients: most_users(machine, Ends::Both, |_| true),
            cores: machine.cores,
            workers: demand.workers,
            listener_threads: demand.listener_threads,
            listener_sources: demand.listener_sources,
            checks,
        }
    }

    /// Whether the users fit. What is merely low is no obstacle.
    pub fn fits(&self) -> bool {
        self.fits
    }

    /// Rows with that verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.verdict == verdict)
    }
}

/// This machine, as this process sees it.
fn this_machine() -> Machine {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Machine::read(Path::new("/"), cores, &check::keys())
}

/// The most users for whom none of the rows that are `asked` about is too low. What users take
/// grows with their number, so halving finds it.
fn most_users(machine: &Machine, ends: Ends, asked: impl Fn(&Check) -> bool) -> u32 {
    let fit = |users: u32| {
        let checks = check::checks(machine, &Demand::of(machine, users, ends));
        !checks.iter().any(|check| asked(check) && check.verdict == Verdict::TooLow)
    };
    if fit(u32::MAX) {
        return u32::MAX;
    }
    let (mut fits, mut fails) = (0, u32::MAX);
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        *(if fit(middle) { &mut fits } else { &mut fails }) = middle;
    }
    debug_assert!(
        !fit(fails),
        "the first number that does not fit stands behind the last that does"
    );
    fits
}
