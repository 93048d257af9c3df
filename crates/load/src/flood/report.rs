//! What became of a crowd's trouble, for people and for JSON: the part of
//! [`FloodReport`](crate::report::FloodReport) that tells the steady listeners from the others.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use figures::latency::Quantiles;
use figures::numbers::grouped;
use serde::Serialize;

use crate::flood::{Role, Span, Totals, TroubleSnapshot};

use crate::rows::{by, row};

/// What became of a storm, of slow listeners, and of the others meanwhile.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TroubleReport {
    /// Seconds from the start to the first of it; `None` when it did not come to that.
    pub began: Option<f64>,
    /// Listeners that did nothing but listen.
    pub steady: SteadyReport,
    /// The storm, if there was to be one.
    pub storm: Option<StormReport>,
    /// The slow listeners, if there were any.
    pub slow: Option<SlowReport>,
}

/// What steady listeners heard.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SteadyReport {
    /// How many there were.
    pub listeners: u32,
    /// Those that were online at the end.
    pub open: u64,
    /// Streams that ended.
    pub closed: u64,
    /// Events received.
    pub events: u64,
    /// Events that should have come before others that came, and did not.
    pub missing: u64,
    /// Events that came a second time.
    pub doubled: u64,
    /// Events that came behind a newer one about the same subject.
    pub overtaken: u64,
    /// Events whose latency was over the limit.
    pub late: u64,
    /// Latencies before, during and after the trouble.
    pub latency: BTreeMap<&'static str, Quantiles>,
}

/// How a storm went. Times are seconds from its beginning.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct StormReport {
    /// Streams that were reset for good.
    pub vanished: u64,
    /// Streams that were reset by listeners that come back.
    pub left: u64,
    /// Those of them that were open again.
    pub returned: u64,
    /// To the last reset.
    pub reset_after: Option<f64>,
    /// To the last return.
    pub returned_after: Option<f64>,
    /// Returns a second, up to the last one.
    pub return_rate: Option<f64>,
    /// Events that those who came back should have heard and did not, if they resume.
    pub missing: u64,
    /// Events that they heard twice.
    pub doubled: u64,
    /// How many of them were told of a gap.
    pub told_gaps: u64,
    /// From when a listener may come back to the first thing that its stream told.
    pub caught_up: Quantiles,
}

/// What became of slow listeners.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct SlowReport {
    /// How many there were.
    pub listeners: u32,
    /// Streams that are still open.
    pub open: u64,
    /// Streams that the server ended.
    pub closed: u64,
    /// How many were closed, by reason.
    pub closed_by: BTreeMap<&'static str, u64>,
    /// How long those lasted from when they were not read any more.
    pub lasted: Quantiles,
}

impl From<&TroubleSnapshot> for TroubleReport {
    fn from(snapshot: &TroubleSnapshot) -> TroubleReport {
        let count = |role: Role| snapshot.counts[role as usize];
        let stormy = count(Role::Vanishing) + count(Role::Returning) > 0;
        TroubleReport {
            began: snapshot.began,
            steady: SteadyReport::new(snapshot),
            storm: stormy.then(|| StormReport::new(snapshot)),
            slow: (count(Role::Slow) > 0).then(|| SlowReport::new(snapshot)),
        }
    }
}

impl SteadyReport {
    fn new(snapshot: &TroubleSnapshot) -> SteadyReport {
        let totals = totals(snapshot, Role::Steady);
        let latency = |span: Span| (span.as_str(), snapshot.steady[span as usize]);
        SteadyReport {
            listeners: snapshot.counts[Role::Steady as usize],
            open: totals.open(),
            closed: totals.closed_total(),
            events: totals.events,
            missing: totals.missing(),
            doubled: totals.doubled,
            overtaken: totals.overtaken,
            late: totals.late,
            latency: Span::ALL.map(latency).into(),
        }
    }
}

impl StormReport {
    fn new(snapshot: &TroubleSnapshot) -> StormReport {
        let returning = totals(snapshot, Role::Returning);
        let rate = |seconds: f64| returning.returned as f64 / seconds;
        StormReport {
            vanished: totals(snapshot, Role::Vanishing).reset,
            left: returning.reset,
            returned: returning.returned,
            reset_after: snapshot.reset_after,
            returned_after: snapshot.returned_after,
            return_rate: snapshot.returned_after.filter(|&seconds| seconds > 0.0).map(rate),
            missing: returning.missing(),
            doubled: returning.doubled,
            told_gaps: returning.told_gaps,
            caught_up: snapshot.caught_up,
        }
    }
}

impl SlowReport {
    fn new(snapshot: &TroubleSnapshot) -> SlowReport {
        let totals = totals(snapshot, Role::Slow);
        SlowReport {
            listeners: snapshot.counts[Role::Slow as usize],
            open: totals.open(),
            closed: totals.closed_total(),
            closed_by: totals.closed_by(),
            lasted: snapshot.slow_lasted,
        }
    }
}

fn totals(snapshot: &TroubleSnapshot, role: Role) -> &Totals {
    &snapshot.roles[role as usize]
}

impl Display for TroubleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.began {
            Some(began) => row(f, "trouble", &format!("from {began:.2} s on"))?,
            None => row(f, "trouble", "did not begin")?,
        }
        self.storm.iter().try_for_each(|storm| storm.fmt(f))?;
        self.slow.iter().try_for_each(|slow| slow.fmt(f))?;
        self.steady.fmt(f)
    }
}

impl Display for StormReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = |seconds: Option<f64>| match seconds {
            Some(seconds) => format!("the last after {seconds:.2} s"),
            None => "not all".to_owned(),
        };
        let reset = after(self.reset_after);
        row(f, "vanished", &format!("{}, {reset}", grouped(self.vanished)))?;
        let rate = self.return_rate.map_or_else(String::new, |rate| format!(", {rate:.0}/s"));
        let (returned, left) = (grouped(self.returned), grouped(self.left));
        let returned_after = after(self.returned_after);
        row(f, "came back", &format!("{returned} of {left}, {returned_after}{rate}"))?;
        if self.caught_up.count == 0 {
            return Ok(());
        }
        row(f, "  caught up", &format!("{} ({})", self.caught_up, grouped(self.caught_up.count)))?;
        for (name, count) in [
            ("  missing", self.missing),
            ("  doubled", self.doubled),
            ("  gaps told", self.told_gaps),
        ] {
            row(f, name, &grouped(count))?;
        }
        Ok(())
    }
}

impl Display for SlowReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (listeners, open) = (grouped(self.listeners.into()), grouped(self.open));
        let closed = by(self.closed, &self.closed_by);
        row(f, "slow", &format!("{listeners}, of which closed {closed}, open {open}"))?;
        if self.lasted.count > 0 {
            row(f, "slow lasted", &self.lasted.to_string())?;
        }
        Ok(())
    }
}

impl Display for SteadyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (listeners, open) = (grouped(self.listeners.into()), grouped(self.open));
        row(f, "steady", &format!("{listeners}, open {open}, closed {}", grouped(self.closed)))?;
        row(f, "  events", &grouped(self.events))?;
        for (name, count) in [
            ("  missing", self.missing),
            ("  doubled", self.doubled),
            ("  overtaken", self.overtaken),
            ("  late", self.late),
        ] {
            row(f, name, &grouped(count))?;
        }
        for span in Span::ALL.map(Span::as_str) {
            let latency = &self.latency[span];
            if latency.count > 0 {
                let text = format!("{latency} ({})", grouped(latency.count));
                row(f, &format!("  {span}"), &text)?;
            }
        }
        Ok(())
    }
}
