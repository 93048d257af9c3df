//! A worker that the kernel gave no descriptor or memory for another client: until when it counts
//! as full, and that it is asked again.
//!
//! A worker that is short leaves new clients to the others ([`sync::room`]), so no client comes
//! that could show that the shortage is over. It must look by itself: a few times a second it tries
//! how many more descriptors its table takes ([`sys::table::free`]), and has room for so many.
//! Where plenty are free the shortage is over. One that is of memory, which such a try does not
//! show, comes back with the next client.

use crate::limits;

/// How many connections a worker can hold while it is short.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    /// `None` when it is not.
    now: Option<Short>,
}

#[derive(Debug)]
struct Short {
    connections_max: usize,
    look_again_ms: u64,
}

impl Shortage {
    /// The kernel gave nothing for another beside so many connections.
    pub(crate) fn met(&mut self, connections: usize, now_ms: u64) {
        let look_again_ms = now_ms + limits::SHORTAGE_LOOK_MS;
        self.now = Some(Short { connections_max: connections, look_again_ms });
    }

    /// So many connections fit: more than it seemed, perhaps.
    pub(crate) fn holds(&mut self, connections: usize) {
        self.now.take_if(|short| connections > short.connections_max);
    }

    /// When to look again whether it is over.
    pub(crate) fn due_ms(&self) -> Option<u64> {
        self.now.as_ref().map(|short| short.look_again_ms)
    }

    /// Looks again, if that is due: `free` tells how many more descriptors there are, of those that
    /// it is asked for. As many as `plenty` end the shortage.
    pub(crate) fn look(
        &mut self,
        now_ms: u64,
        connections: usize,
        plenty: usize,
        free: impl FnOnce(usize) -> usize,
    ) {
        if self.due_ms().is_none_or(|due_ms| now_ms < due_ms) {
            return;
        }
        match free(plenty) {
            free if free < plenty => self.met(connections + free, now_ms),
            _ => self.now = None,
        }
    }

    /// Connections that there can be, of `slots`.
    pub(crate) fn connections_max(&self, slots: usize) -> usize {
        self.now.as_ref().map_or(slots, |short| short.connections_max.min(slots))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK_MS: u64 = limits::SHORTAGE_LOOK_MS;

    #[test]
    fn shortage_ends_when_plenty_are_free_and_no_sooner_than_it_is_looked() {
        let mut shortage = Shortage::default();
        assert_eq!((shortage.due_ms(), shortage.connections_max(100)), (None, 100));
        shortage.met(40, 1_000);
        assert_eq!(shortage.connections_max(100), 40);
        shortage.look(1_000 + LOOK_MS - 1, 40, 8, |_| unreachable!("it is not due"));
        shortage.look(1_000 + LOOK_MS, 30, 8, |plenty| plenty - 3);
        assert_eq!(shortage.connections_max(100), 35);
        shortage.look(1_000 + 2 * LOOK_MS, 30, 8, |plenty| plenty);
        assert_eq!((shortage.due_ms(), shortage.connections_max(100)), (None, 100));
    }

    #[test]
    fn client_that_fits_all_the_same_ends_it_too() {
        let mut shortage = Shortage::default();
        shortage.met(40, 1_000);
        shortage.holds(40);
        assert_eq!(shortage.connections_max(100), 40);
        shortage.holds(41);
        assert_eq!(shortage.connections_max(100), 100);
    }
}
