//! What `spam` sends and when: a fixed function of the seed, made before the first event goes out.
//!
//! Event `k` is to be sent `k / rate` seconds after the start, whatever the server does. A sender
//! that waits for a slow server, and so sends less and measures only the good moments, would
//! measure nothing ("coordinated omission"). Every connection walks the whole schedule and sends
//! its own share, which is all events about its subjects. So an event's place in the run and its
//! number do not depend on how many connections there are.

use crate::random::Random;
use crate::spam::SpamConfig;
use crate::zipf::Zipf;

/// One event to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Planned {
    /// When, in nanoseconds after the start.
    pub(super) at_ns: u64,
    /// About whom: the subject's place among the users, from 0.
    pub(super) subject: u32,
    /// By whom.
    pub(super) sender: u32,
}

/// All events of a run.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    seed: u64,
    users: u32,
    senders: u32,
    zipf: Option<Zipf>,
    rate: f64,
    /// How many events there are.
    count: u64,
}

impl Schedule {
    pub(super) fn new(config: &SpamConfig) -> Schedule {
        let count = config.duration.map(|duration| duration.as_secs_f64() * config.rate);
        Schedule {
            seed: config.seed,
            users: config.users,
            senders: config.senders,
            zipf: config.zipf.map(|exponent| Zipf::new(config.users, exponent)),
            rate: config.rate,
            count: count.map_or(u64::MAX, |count| count.round() as u64),
        }
    }

    /// How many events there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// The event `k`, counted from 0; `None` when there are no more.
    pub(super) fn event(&self, k: u64) -> Option<Planned> {
        if k >= self.count {
            return None;
        }
        let mut random = Random::of(self.seed, k);
        let sender = random.below(self.senders);
        let subject = match &self.zipf {
            None => random.below(self.users),
            Some(zipf) => zipf.draw(&mut random) - 1,
        };
        debug_assert!(subject < self.users && sender < self.senders);
        Some(Planned { at_ns: (k as f64 / self.rate * 1e9) as u64, subject, sender })
    }
}

/// The events of one connection, in order.
#[derive(Debug)]
pub(super) struct Share {
    schedule: Schedule,
    connection: u32,
    connections: u32,
    /// The event of the whole schedule to look at next.
    next: u64,
}

impl Share {
    pub(super) fn new(schedule: Schedule, connection: u32, connections: u32) -> Share {
        debug_assert!(connection < connections);
        Share { schedule, connection, connections, next: 0 }
    }

    /// How many subjects the connection has, counted as in [`Share::place`].
    pub(super) fn subjects(&self) -> usize {
        (self.schedule.users.div_ceil(self.connections)) as usize
    }

    /// The place of `subject` among the subjects of its connection.
    pub(super) fn place(&self, subject: u32) -> usize {
        debug_assert!(subject % self.connections == self.connection, "another one sends about it");
        (subject / self.connections) as usize
    }
}

impl Iterator for Share {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        loop {
            let planned = self.schedule.event(self.next)?;
            self.next += 1;
            if planned.subject % self.connections == self.connection {
                return Some(planned);
            }
        }
    }
}

#[cfg(test)]
mod tests;
