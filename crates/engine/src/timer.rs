//! A hashed timing wheel (Varghese and Lauck, 1987, scheme 6) whose links live in the connections.
//!
//! Starting and stopping a timer is O(1) and allocates nothing. A timer that is only ever put off,
//! as a keep-alive is by each event, is not moved: it fires at its old time, its owner looks at the
//! clock and starts it anew. So a delivery does not touch the wheel at all.

use crate::slab::Slab;

/// Milliseconds of one tick.
pub(crate) const TICK_MS: u64 = 100;

/// Slots of the wheel. A timer further away than their 102 s goes round and is put off again.
const SLOTS: u32 = 1024;

const NONE: u32 = u32::MAX;
const STOPPED: u16 = u16::MAX;

/// A time in ticks since the start; good for 13 years.
pub(crate) type Tick = u32;

/// The links of one owner in the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    next: u32,
    previous: u32,
    slot: u16,
}

impl Links {
    /// A timer that does not run.
    pub(crate) const STOPPED: Links = Links { next: NONE, previous: NONE, slot: STOPPED };
}

/// What can have a timer.
pub(crate) trait Timed {
    fn links(&mut self) -> &mut Links;
}

/// The timers of one slab's values, by slot number.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    /// All timers up to this tick have fired.
    done: Tick,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { heads: vec![NONE; SLOTS as usize].into(), done: 0 }
    }

    /// Starts the timer of the value in `owner` for the tick `at`, at the next one at the earliest.
    /// A timer that runs already is moved.
    pub(crate) fn start<T: Timed>(&mut self, slab: &mut Slab<T>, owner: u32, at: Tick) {
        self.stop(slab, owner);
        let at = at.clamp(self.done + 1, self.done + SLOTS - 1);
        let slot = at % SLOTS;
        let next = self.heads[slot as usize];
        let Some(value) = slab.at(owner) else { return };
        *value.links() = Links { next, previous: NONE, slot: slot as u16 };
        if let Some(neighbour) = (next != NONE).then(|| slab.at(next)).flatten() {
            neighbour.links().previous = owner;
        }
        self.heads[slot as usize] = owner;
    }

    /// Stops the timer of the value in `owner`, if it runs.
    pub(crate) fn stop<T: Timed>(&mut self, slab: &mut Slab<T>, owner: u32) {
        let Some(value) = slab.at(owner) else { return };
        let Links { next, previous, slot } = std::mem::replace(value.links(), Links::STOPPED);
        if slot == STOPPED {
            return;
        }
        if let Some(neighbour) = (next != NONE).then(|| slab.at(next)).flatten() {
            neighbour.links().previous = previous;
        }
        match (previous != NONE).then(|| slab.at(previous)).flatten() {
            Some(neighbour) => neighbour.links().next = next,
            None => self.heads[slot as usize] = next,
        }
    }

    /// Stops one timer that was due at `now` or before, and names its owner; `None` when there is
    /// no more. The caller may start it again.
    pub(crate) fn fire<T: Timed>(&mut self, slab: &mut Slab<T>, now: Tick) -> Option<u32> {
        // More than a whole turn of the wheel behind: every slot is due once.
        self.done = self.done.max(now.saturating_sub(SLOTS - 1));
        while self.done < now {
            let owner = self.heads[((self.done + 1) % SLOTS) as usize];
            if owner != NONE {
                self.stop(slab, owner);
                return Some(owner);
            }
            self.done += 1;
        }
        None
    }

    /// The tick at which the next timer fires. Walks the wheel: for a worker about to sleep.
    pub(crate) fn next(&self) -> Option<Tick> {
        (self.done + 1..self.done + SLOTS).find(|at| self.heads[(at % SLOTS) as usize] != NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    struct Owner(Links);

    impl Timed for Owner {
        fn links(&mut self) -> &mut Links {
            &mut self.0
        }
    }

    /// Random starts, stops and waits against an ordered map from owner to time.
    #[test]
    fn wheel_fires_what_a_sorted_list_fires() {
        let mut random = crate::sim::Random::from_env("ENCKE_SEED");
        let (mut slab, mut wheel, mut model) = (Slab::new(100), Wheel::new(), BTreeMap::new());
        for _ in 0..100 {
            slab.insert(Owner(Links::STOPPED)).ok().unwrap();
        }
        let mut now = 0;
        for _ in 0..20_000 {
            let owner = random.below(100) as u32;
            match random.below(4) {
                0 | 1 => {
                    let at = now + 1 + random.below(900) as u32;
                    wheel.start(&mut slab, owner, at);
                    model.insert(owner, at);
                }
                2 => {
                    wheel.stop(&mut slab, owner);
                    model.remove(&owner);
                }
                _ => {
                    assert_eq!(wheel.next(), model.values().min().copied());
                    now += random.below(40) as u32;
                    let mut fired = Vec::new();
                    while let Some(owner) = wheel.fire(&mut slab, now) {
                        fired.push(owner);
                    }
                    let mut due: Vec<u32> =
                        model.extract_if(.., |_, at| *at <= now).map(|(owner, _)| owner).collect();
                    fired.sort_unstable();
                    due.sort_unstable();
                    assert_eq!(fired, due, "at tick {now}");
                }
            }
        }
    }

    #[test]
    fn far_timer_is_cut_to_the_wheel_and_a_late_clock_fires_all() {
        let (mut slab, mut wheel) = (Slab::new(2), Wheel::new());
        let far = slab.insert(Owner(Links::STOPPED)).ok().unwrap().slot;
        wheel.start(&mut slab, far, 1_000_000);
        assert_eq!(wheel.fire(&mut slab, SLOTS - 2), None);
        assert_eq!(wheel.fire(&mut slab, SLOTS - 1), Some(far));
        wheel.start(&mut slab, far, SLOTS + 5);
        assert_eq!(wheel.fire(&mut slab, 50 * SLOTS), Some(far));
        assert_eq!(wheel.next(), None);
    }
}
