//! When a storm breaks out, when slow listeners stop reading, and when all of it is over: the clock
//! of what a crowd does beside listening, shared by its threads.
//!
//! Times count from the moment at which every listener has been online or has failed, so that a
//! slow start moves the trouble and does not mix with it. The spans before, during and after it are
//! what steady listeners' latencies are told apart by.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::flood::FloodConfig;
use crate::flood::role::{Role, Roles};

/// Where an event stands to the trouble.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Span {
    /// It came before the trouble began.
    Before,
    /// It came since, and was to be sent before the trouble was over.
    During,
    /// It was to be sent when the trouble was over.
    After,
}

impl Span {
    /// How many there are.
    pub const COUNT: usize = 3;
    /// Each one, at its number.
    pub const ALL: [Span; Span::COUNT] = [Span::Before, Span::During, Span::After];

    /// Its name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Span::Before => "before",
            Span::During => "during",
            Span::After => "after",
        }
    }
}

/// Something that a number of listeners do once each.
///
/// Ordering: the counts and times are figures for a report and guard no other memory, so relaxed
/// steps are enough. A thread that sees the end a moment late counts some events as "during".
#[derive(Debug)]
pub(super) struct Countdown {
    due: u32,
    done: AtomicU32,
    /// When the last one did it, on the monotonic clock; 0 before that.
    done_ns: AtomicU64,
}

impl Countdown {
    fn new(due: u32) -> Countdown {
        Countdown { due, done: AtomicU32::new(0), done_ns: AtomicU64::new(0) }
    }

    /// One more has done it, at `now_ns`.
    pub(super) fn step(&self, now_ns: u64) {
        if self.done.fetch_add(1, Ordering::Relaxed) + 1 == self.due {
            self.done_ns.store(now_ns, Ordering::Relaxed);
        }
    }

    /// When the last one did it; 0 when there was nobody to do it.
    pub(super) fn done_ns(&self) -> Option<u64> {
        match self.done_ns.load(Ordering::Relaxed) {
            0 => (self.due == 0).then_some(0),
            done_ns => Some(done_ns),
        }
    }
}

/// The clock of the trouble.
#[derive(Debug)]
pub(super) struct Trouble {
    start_ns: u64,
    storm_after_ns: Option<u64>,
    slow_after_ns: Option<u64>,
    some_are_slow: bool,
    /// Every listener has been online or has failed.
    pub(super) tried: Countdown,
    /// Every listener that the storm takes away has gone.
    pub(super) resets: Countdown,
    /// Every listener that comes back is online again.
    pub(super) returns: Countdown,
    /// The stream of every slow listener has ended.
    pub(super) endings: Countdown,
}

impl Trouble {
    pub(super) fn new(config: &FloodConfig, roles: Roles, start_ns: u64) -> Trouble {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (vanishing, returning) = (roles.count(Role::Vanishing), roles.count(Role::Returning));
        Trouble {
            start_ns,
            storm_after_ns: config.storm.map(|storm| ns(storm.after)),
            slow_after_ns: config.slow_after.map(ns),
            some_are_slow: roles.count(Role::Slow) > 0,
            tried: Countdown::new(config.users),
            resets: Countdown::new(vanishing + returning),
            returns: Countdown::new(returning),
            endings: Countdown::new(roles.count(Role::Slow)),
        }
    }

    /// Whether there is to be any.
    pub(super) fn is_planned(&self) -> bool {
        self.storm_after_ns.is_some() || self.some_are_slow
    }

    /// When the storm breaks out, once that is known.
    pub(super) fn storm_ns(&self) -> Option<u64> {
        Some(self.tried.done_ns()?.saturating_add(self.storm_after_ns?))
    }

    /// From when on slow listeners do not read, once that is known.
    pub(super) fn slow_ns(&self) -> Option<u64> {
        match self.slow_after_ns {
            None => Some(self.start_ns),
            Some(after_ns) => Some(self.tried.done_ns()?.saturating_add(after_ns)),
        }
    }

    /// When the first of it begins, once that is known.
    pub(super) fn begin_ns(&self) -> Option<u64> {
        let slow_ns = self.slow_ns().filter(|_| self.some_are_slow);
        [self.storm_ns(), slow_ns].into_iter().flatten().min()
    }

    /// When all of it was over, once that is known.
    pub(super) fn end_ns(&self) -> Option<u64> {
        let ends = [self.resets.done_ns()?, self.returns.done_ns()?, self.endings.done_ns()?];
        ends.into_iter().max()
    }
}

/// What a thread takes for the bounds of the trouble during one turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    begin_ns: u64,
    end_ns: u64,
}

impl Bounds {
    pub(super) fn of(trouble: &Trouble) -> Bounds {
        let later = u64::MAX;
        Bounds {
            begin_ns: trouble.begin_ns().unwrap_or(later),
            end_ns: trouble.end_ns().unwrap_or(later),
        }
    }

    /// Where an event stands that was to be sent at `intended_ns` and came at `now_ns`.
    pub(super) fn span(self, intended_ns: u64, now_ns: u64) -> Span {
        match () {
            () if now_ns < self.begin_ns => Span::Before,
            () if intended_ns <= self.end_ns => Span::During,
            () => Span::After,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flood::Storm;

    fn trouble(storm: Option<Storm>, slow: f64, slow_after: Option<Duration>) -> Trouble {
        let config = FloodConfig { users: 4, storm, slow, slow_after, ..FloodConfig::default() };
        Trouble::new(&config, Roles::new(&config), 1_000)
    }

    #[test]
    fn storm_waits_for_all_and_ends_with_the_last_return() {
        let trouble = trouble(Some(Storm { after: Duration::ZERO, ..Storm::default() }), 0.0, None);
        assert!(trouble.is_planned());
        (1..=3).for_each(|n| trouble.tried.step(n));
        assert_eq!((trouble.storm_ns(), trouble.begin_ns()), (None, None));
        trouble.tried.step(2_000);
        assert_eq!((trouble.storm_ns(), trouble.begin_ns()), (Some(2_000), Some(2_000)));
        assert_eq!(Bounds::of(&trouble).span(1_500, 2_500), Span::During);
        trouble.resets.step(2_100);
        trouble.resets.step(2_200);
        assert_eq!(trouble.end_ns(), None);
        trouble.returns.step(2_300);
        assert_eq!(trouble.end_ns(), Some(2_300));
        let bounds = Bounds::of(&trouble);
        assert_eq!(bounds.span(1_500, 1_999), Span::Before);
        assert_eq!(bounds.span(2_300, 9_000), Span::During);
        assert_eq!(bounds.span(2_301, 2_302), Span::After);
    }

    #[test]
    fn slow_listeners_stop_at_their_time_or_never_begin() {
        let from_the_start = trouble(None, 0.5, None);
        assert_eq!(from_the_start.begin_ns(), Some(1_000));
        let later = trouble(None, 0.5, Some(Duration::from_nanos(5)));
        assert_eq!(later.slow_ns(), None);
        (1..=4).for_each(|n| later.tried.step(3_000 + n));
        assert_eq!((later.slow_ns(), later.end_ns()), (Some(3_009), None));
        later.endings.step(4_000);
        later.endings.step(5_000);
        assert_eq!(later.end_ns(), Some(5_000));
    }

    #[test]
    fn steady_crowd_has_no_trouble() {
        let trouble = trouble(None, 0.0, None);
        assert!(!trouble.is_planned());
        assert_eq!(trouble.begin_ns(), None);
    }
}
