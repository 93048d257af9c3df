//! Which workers have capacity for more connections, and that the kernel knows it.
//!
//! The kernel spreads new connections over the workers' listeners by a hash, and a worker's
//! descriptors run out before the others' do. So each worker says how much capacity it has, and new
//! connections go to those that have the most: to all that have plenty, else to all that have a
//! little. Where nobody has any, all take part again, and answer 503.
//!
//! "A little" is kept for those that wait in the queue of a worker that leaves: it still has places
//! for them. Without the two steps they would meet a full worker while others have capacity.
//!
//! Whoever changes its capacity tells the kernel the new set, which is one system call (see
//! [`sys::group`]). Two workers may do so at the same time, and then the older set must not be the
//! one that stays: after telling, a worker looks whether anything has changed since it read the
//! set, and if so tells again. Each such round has a change behind it, so it ends.

use std::ops::Range;
use std::sync::Arc;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// Places in a worker, past which it has little capacity and new connections go to those with more.
/// As many clients may wait in its queue when it leaves: at 24,000 connects a second, what comes in
/// 10 ms.
pub const LITTLE_CAPACITY_MAX: usize = 256;

/// Little capacity as a share of a worker's places, where those are few: an eighth.
pub const LITTLE_CAPACITY_SHARE: usize = 8;

/// How many more connections a worker can take.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Capacity {
    /// For nobody.
    None,
    /// For those that wait in its queue.
    Little,
    /// For new connections.
    Plenty,
}

impl Capacity {
    /// What this becomes with `free` of `slots` places. Plenty returns later than it ended, so that
    /// a worker at the edge does not tell the kernel at each connection that comes or goes.
    pub fn next(self, free: usize, slots: usize) -> Capacity {
        debug_assert!(free <= slots);
        let plenty_from = match self {
            Capacity::Plenty => Capacity::little(slots) + 1,
            _ => Capacity::plenty_from(slots),
        };
        match free {
            0 => Capacity::None,
            _ if free >= plenty_from => Capacity::Plenty,
            _ => Capacity::Little,
        }
    }

    /// Free places of `slots` with which a worker that had fewer has plenty again.
    pub fn plenty_from(slots: usize) -> usize {
        2 * Capacity::little(slots) + 1
    }

    fn little(slots: usize) -> usize {
        (slots / LITTLE_CAPACITY_SHARE).min(LITTLE_CAPACITY_MAX)
    }
}

/// The capacity of every worker.
#[derive(Debug)]
pub struct Capacities {
    /// By worker. Ordering: relaxed, `changes` publishes them.
    capacities: Box<[AtomicU8]>,
    /// How often one of them has changed. Ordering: who reads a count (acquire) sees the capacities
    /// that were stored before it was reached (release).
    changes: AtomicUsize,
}

impl Capacities {
    /// Plenty for so many workers.
    pub fn new(workers: usize) -> Capacities {
        assert!(workers <= usize::from(u16::MAX), "the kernel is told their numbers in 16 bits");
        let capacities = (0..workers).map(|_| AtomicU8::new(Capacity::Plenty as u8)).collect();
        Capacities { capacities, changes: AtomicUsize::new(0) }
    }

    /// `worker` has `capacity` now. `tell` is given the workers that shall take new connections, as
    /// runs of their numbers; none means that all shall. It is called again when somebody else has
    /// changed meanwhile.
    ///
    /// The set told last is the one that stands. Calls of `tell` follow each other (the kernel
    /// takes a lock), and the last one was not told again, so its set was of the count that stood
    /// after it. A change behind that count was told after it was counted, hence later still.
    pub fn change(&self, worker: usize, capacity: Capacity, mut tell: impl FnMut(&[Range<u16>])) {
        self.capacities[worker].store(capacity as u8, Ordering::Relaxed);
        let mut changes = self.changes.fetch_add(1, Ordering::AcqRel) + 1;
        loop {
            tell(&self.freest());
            let now = self.changes.load(Ordering::Acquire);
            if now == changes {
                return;
            }
            changes = now;
        }
    }

    /// The workers with the most capacity, as far as one program can name them (see
    /// [`sys::group::RUNS_MAX`]; those past it have their turn when some of these are full); none
    /// when all have the same.
    fn freest(&self) -> Vec<Range<u16>> {
        let capacities: Vec<u8> =
            self.capacities.iter().map(|capacity| capacity.load(Ordering::Relaxed)).collect();
        let most = capacities.iter().copied().max();
        let mut runs: Vec<Range<u16>> = Vec::new();
        for worker in (0..capacities.len()).filter(|&worker| Some(capacities[worker]) == most) {
            let worker = worker as u16;
            match runs.last_mut() {
                Some(run) if run.end == worker => run.end += 1,
                _ => runs.push(worker..worker + 1),
            }
        }
        if runs.first().is_some_and(|run| run.len() == capacities.len()) {
            runs.clear();
        }
        debug_assert!(runs.is_sorted_by(|one, next| one.end < next.start));
        runs.truncate(sys::group::RUNS_MAX);
        runs
    }
}

/// The capacity of one worker, which alone changes it.
#[derive(Debug)]
pub struct WorkerCapacity {
    capacities: Arc<Capacities>,
    worker: usize,
    capacity: Capacity,
}

impl WorkerCapacity {
    /// The capacity of `worker`.
    pub fn new(capacities: Arc<Capacities>, worker: usize) -> WorkerCapacity {
        assert!(worker < capacities.capacities.len());
        WorkerCapacity { capacities, worker, capacity: Capacity::Plenty }
    }

    /// Now `free` of `slots` places are left. `true` when that makes a difference; then `tell` was
    /// called, see [`Capacities::change`].
    pub fn update(&mut self, free: usize, slots: usize, tell: impl FnMut(&[Range<u16>])) -> bool {
        let capacity = self.capacity.next(free, slots);
        let changed = capacity != self.capacity;
        if changed {
            self.capacity = capacity;
            self.capacities.change(self.worker, capacity, tell);
        }
        changed
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.capacity == Capacity::None
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::single_range_in_vec_init, reason = "a list of runs may have one")]
mod tests {
    use super::*;

    fn told(capacities: &Capacities, worker: usize, capacity: Capacity) -> Vec<Range<u16>> {
        let mut told = Vec::new();
        capacities.change(worker, capacity, |runs| told.push(runs.to_vec()));
        assert_eq!(told.len(), 1, "nobody else has changed");
        told.remove(0)
    }

    #[test]
    fn those_with_the_most_capacity_are_told() {
        let capacities = Capacities::new(4);
        assert_eq!(told(&capacities, 1, Capacity::Little), [0..1, 2..4]);
        assert_eq!(told(&capacities, 0, Capacity::Little), [2..4]);
        assert_eq!(told(&capacities, 3, Capacity::None), [2..3]);
        assert_eq!(told(&capacities, 2, Capacity::Little), [0..3]);
        assert_eq!(told(&capacities, 0, Capacity::None), [1..3]);
        assert_eq!(told(&capacities, 1, Capacity::None), [2..3]);
        assert_eq!(told(&capacities, 2, Capacity::None), [], "all answer 503");
        assert_eq!(told(&capacities, 0, Capacity::Little), [0..1]);
        assert_eq!(told(&capacities, 3, Capacity::Plenty), [3..4]);
    }

    #[test]
    fn more_runs_than_a_program_holds_are_cut() {
        let capacities = Capacities::new(4096);
        let mut runs = Vec::new();
        for worker in (0..4096).step_by(2) {
            runs = told(&capacities, worker, Capacity::None);
        }
        assert_eq!((runs.len(), &runs[0]), (sys::group::RUNS_MAX, &(1..2)));
    }

    #[test]
    fn capacity_changes_late_on_the_way_back() {
        let (slots, little) = (20_000, LITTLE_CAPACITY_MAX);
        let walk = |from: Capacity, free: usize| from.next(free, slots);
        assert_eq!(walk(Capacity::Plenty, little + 1), Capacity::Plenty);
        assert_eq!(walk(Capacity::Plenty, little), Capacity::Little);
        assert_eq!(walk(Capacity::Little, 2 * little), Capacity::Little);
        assert_eq!(walk(Capacity::Little, 2 * little + 1), Capacity::Plenty);
        assert_eq!(walk(Capacity::Little, 0), Capacity::None);
        assert_eq!(walk(Capacity::None, 1), Capacity::Little);
        assert_eq!(Capacity::Plenty.next(1, 5), Capacity::Plenty, "so few places have no edge");
        assert_eq!(Capacity::Plenty.next(0, 0), Capacity::None);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// However three changes of two workers interleave: the set that was told last is the one that
    /// stands. The kernel is a cell that is swapped, as its lock would do it.
    #[test]
    fn set_that_stands_is_told_last() {
        loom::model(|| {
            let (capacities, kernel) =
                (Arc::new(Capacities::new(3)), Arc::new(AtomicUsize::new(0)));
            let tell = |kernel: &AtomicUsize, runs: &[Range<u16>]| {
                let bits = runs.iter().cloned().flatten().map(|worker| 1 << worker).sum();
                kernel.swap(bits, Ordering::AcqRel);
            };
            let other = {
                let (capacities, kernel) = (capacities.clone(), kernel.clone());
                loom::thread::spawn(move || {
                    capacities.change(1, Capacity::None, |runs| tell(&kernel, runs));
                })
            };
            capacities.change(0, Capacity::Little, |runs| tell(&kernel, runs));
            capacities.change(0, Capacity::None, |runs| tell(&kernel, runs));
            other.join().unwrap();
            assert_eq!(kernel.load(Ordering::Acquire), 0b100);
        });
    }
}
