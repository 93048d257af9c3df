//! A hashed timing wheel (Varghese and Lauck, 1987, scheme 6) for the owners of a slab's slots.
//!
//! Starting and stopping a timer is O(1). A timer that is only ever put off, as a keep-alive is by
//! each event, is not moved. It fires at its old time, its owner says when it is due, and it is
//! started anew. So a delivery does not touch the wheel at all. A time beyond the wheel's reach is
//! waited for in rounds the same way.
//!
//! Cost: 8 bytes for each slot that there is, in chunks that never move.

/// Milliseconds of one tick.
pub(crate) const TICK_MS: u64 = 100;

/// Slots of the wheel: 102 s. A timer further away fires early, and is started anew by its owner.
const SLOTS: u32 = 1024;

/// Links of one chunk.
const CHUNK: usize = 1024;

const NONE: u32 = u32::MAX;

/// In `previous`: the timer does not run.
const STOPPED: u32 = u32::MAX;

/// In `previous`, added to a slot of the wheel: the timer is the first one there.
const FIRST: u32 = 1 << 31;

/// A time in ticks since the start; good for 13 years.
pub(crate) type Tick = u32;

/// The neighbours of one owner's timer in its slot of the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Links {
    next: u32,
    previous: u32,
}

/// Timers by owner: a number below 2^31.
#[derive(Debug)]
pub(crate) struct Wheel {
    heads: Box<[u32]>,
    links: Vec<Box<[Links; CHUNK]>>,
    /// All timers up to this tick have fired.
    done: Tick,
}

impl Wheel {
    pub(crate) fn new() -> Wheel {
        Wheel { heads: vec![NONE; SLOTS as usize].into(), links: Vec::new(), done: 0 }
    }

    /// Nothing was due up to `now`: before the first timer is started.
    pub(crate) fn begin_at(&mut self, now: Tick) {
        self.done = now;
    }

    /// Starts the timer of `owner` for the tick `at`, at the next one at the earliest. A timer that
    /// runs already is moved.
    pub(crate) fn start(&mut self, owner: u32, at: Tick) {
        while owner as usize / CHUNK >= self.links.len() {
            self.links.push(Box::new([Links { next: NONE, previous: STOPPED }; CHUNK]));
        }
        self.stop(owner);
        let slot = at.clamp(self.done + 1, self.done + SLOTS - 1) % SLOTS;
        let next = std::mem::replace(&mut self.heads[slot as usize], owner);
        *self.of(owner) = Links { next, previous: FIRST + slot };
        if next != NONE {
            self.of(next).previous = owner;
        }
    }

    /// Stops the timer of `owner`, if it runs.
    pub(crate) fn stop(&mut self, owner: u32) {
        if owner as usize / CHUNK >= self.links.len() {
            return;
        }
        let stopped = Links { next: NONE, previous: STOPPED };
        let Links { next, previous } = std::mem::replace(self.of(owner), stopped);
        if previous == STOPPED {
            return;
        }
        if next != NONE {
            self.of(next).previous = previous;
        }
        match previous.checked_sub(FIRST) {
            Some(slot) => self.heads[slot as usize] = next,
            None => self.of(previous).next = next,
        }
    }

    /// Stops one timer that was due at `now` or before, and names its owner; `None` when there is
    /// no more. The caller may start it again.
    pub(crate) fn fire(&mut self, now: Tick) -> Option<u32> {
        // More than a whole turn of the wheel behind: every slot is due once.
        self.done = self.done.max(now.saturating_sub(SLOTS - 1));
        while self.done < now {
            let owner = self.heads[((self.done + 1) % SLOTS) as usize];
            if owner != NONE {
                self.stop(owner);
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

    fn of(&mut self, owner: u32) -> &mut Links {
        &mut self.links[owner as usize / CHUNK][owner as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests;
