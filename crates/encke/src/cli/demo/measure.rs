//! What is measured while a demo runs: the server, the machine and the crowd at the moments that
//! count, and how the crowd came online.

use std::time::{Duration, Instant};

use anyhow::Result;

use figures::run::Reading;

use super::process::ServerProcess;

/// What the server and the machine showed at one moment.
#[derive(Clone, Debug)]
pub(super) struct DemoSnapshot {
    pub(super) at: Instant,
    pub(super) server: Reading,
    /// Memory of the whole machine that is in use and cannot be had without swapping.
    pub(super) machine_bytes: u64,
}

impl DemoSnapshot {
    pub(super) async fn now(server: &mut ServerProcess) -> Result<DemoSnapshot> {
        let figures = server.figures().await?;
        Ok(DemoSnapshot { at: Instant::now(), server: figures, machine_bytes: machine_bytes() })
    }

    /// Processor time that the server took since `before`.
    pub(super) fn cpu_seconds_since(&self, before: &DemoSnapshot) -> f64 {
        self.server.cpu_seconds - before.server.cpu_seconds
    }

    pub(super) fn seconds_since(&self, before: &DemoSnapshot) -> f64 {
        self.at.duration_since(before.at).as_secs_f64()
    }
}

/// The moments of a run, and the most that was seen between the last two.
#[derive(Clone, Debug)]
pub(super) struct Course {
    /// The server is up and nobody online.
    pub(super) empty: DemoSnapshot,
    /// Everybody is online and nothing was sent.
    pub(super) idle: DemoSnapshot,
    /// The last look; at the end, when all was sent and heard.
    pub(super) end: DemoSnapshot,
    /// The most that was seen while events were sent.
    pub(super) most: Most,
    pub(super) opening: Opening,
}

/// Memory at most, each figure by itself.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Most {
    /// Of the server, all of it.
    pub(super) resident_bytes: u64,
    /// Its heap and stacks.
    pub(super) anonymous_bytes: u64,
    /// Its pages of files.
    pub(super) file_bytes: u64,
    /// Of the machine, in use.
    pub(super) machine_bytes: u64,
}

impl Most {
    fn observe(&mut self, now: &DemoSnapshot) {
        let Reading { resident_bytes, resident_anonymous_bytes, resident_file_bytes, .. } =
            now.server;
        self.resident_bytes = self.resident_bytes.max(resident_bytes);
        self.anonymous_bytes = self.anonymous_bytes.max(resident_anonymous_bytes);
        self.file_bytes = self.file_bytes.max(resident_file_bytes);
        self.machine_bytes = self.machine_bytes.max(now.machine_bytes);
    }
}

impl Course {
    /// Begins where nobody is online.
    pub(super) fn new(empty: DemoSnapshot) -> Course {
        Course {
            idle: empty.clone(),
            end: empty.clone(),
            most: Most::default(),
            opening: Opening::default(),
            empty,
        }
    }

    /// Everybody is online now, as of the last look.
    pub(super) fn all_online(&mut self, opening: Opening) {
        self.idle = self.end.clone();
        self.most = Most::default();
        self.opening = opening;
        self.observe(self.idle.clone());
    }

    /// A look was taken.
    pub(super) fn observe(&mut self, now: DemoSnapshot) {
        self.most.observe(&now);
        self.end = now;
    }
}

/// How the crowd came online: how many were, after how long, from the first to the last.
#[derive(Clone, Debug, Default)]
pub(super) struct Opening {
    points: Vec<(Duration, u64)>,
}

impl Opening {
    /// So many were online so long after the start. In the order of time.
    pub(super) fn push(&mut self, after: Duration, opened: u64) {
        // The last one to open says when it did, which may be before somebody looked.
        while self.points.last().is_some_and(|&(last, _)| last >= after) {
            self.points.pop();
        }
        self.points.push((after, opened));
    }

    /// Connections a second over all of it, over the first tenth and over the last tenth of those
    /// who came.
    pub(super) fn rates(&self) -> [f64; 3] {
        let all = self.points.last().map_or(0, |&(_, opened)| opened) as f64;
        [(0.0, 1.0), (0.0, 0.1), (0.9, 1.0)].map(|(from, to)| {
            let seconds = self.seconds_until(all * to) - self.seconds_until(all * from);
            if seconds > 0.0 { all * (to - from) / seconds } else { 0.0 }
        })
    }

    /// When so many were online, as if they had come evenly between two looks.
    fn seconds_until(&self, opened: f64) -> f64 {
        let mut before = (0.0, 0.0);
        for &(after, count) in &self.points {
            let (seconds, count) = (after.as_secs_f64(), count as f64);
            if count >= opened && count > before.1 {
                let share = (opened - before.1) / (count - before.1);
                return before.0 + share.max(0.0) * (seconds - before.0);
            }
            before = (seconds, count);
        }
        before.0
    }
}

/// Memory of the machine that is in use. 0 where it is not told.
pub(super) fn machine_bytes() -> u64 {
    tune::machine_memory().map_or(0, |memory| memory.limit.saturating_sub(memory.free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_of_the_first_and_the_last_are_told_apart() {
        let mut opening = Opening::default();
        // 100 a second for a second, then 10 a second.
        for (ms, opened) in [(500, 50), (1_000, 100), (6_000, 150), (12_000, 200), (11_000, 200)] {
            opening.push(Duration::from_millis(ms), opened);
        }
        let [all, first, last] = opening.rates();
        assert!((all - 200.0 / 11.0).abs() < 0.01, "{all}");
        assert!((first - 100.0).abs() < 0.01, "{first}");
        assert!((last - 10.0).abs() < 0.01, "{last}");
        assert_eq!(Opening::default().rates(), [0.0; 3]);
    }
}
