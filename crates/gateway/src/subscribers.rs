//! Which processes hear who comes and who goes.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use erlang::Peer;
use tokio_util::sync::DropGuard;

use super::connected_node::Words;
use super::processes::Process;

/// The first word of the monitors of such processes; those of log-ins have another one.
pub(super) const MONITOR: u32 = 1;

/// Who hears it, by the number of its monitor.
#[derive(Default)]
pub(super) struct Subscribers(Mutex<Table>);

#[derive(Default)]
pub(super) struct Table {
    pub(super) by_number: HashMap<u32, SubscribedProcess>,
    next: u32,
}

pub(super) struct SubscribedProcess {
    pub(super) process: Process,
    /// Ends its task.
    pub(super) _end: DropGuard,
}

impl Subscribers {
    /// A node is gone, and all its processes.
    pub(super) fn gone(&self, peer: &Peer) {
        self.table().by_number.retain(|_, subscriber| subscriber.process.peer != peer.number());
    }

    /// `peer` says that a process of its is gone; whether the monitor with this `reference` is one
    /// of ours.
    pub(super) fn down(&self, peer: &Peer, [first, _, number]: Words) -> bool {
        let mut table = self.table();
        let of_peer = |subscriber: &SubscribedProcess| subscriber.process.peer == peer.number();
        if first == MONITOR && table.by_number.get(&number).is_some_and(of_peer) {
            table.by_number.remove(&number);
        }
        first == MONITOR
    }

    /// Each change is one step.
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    pub(super) fn find(&self, process: Process) -> Option<u32> {
        let mut all = self.by_number.iter();
        all.find(|(_, subscriber)| subscriber.process == process).map(|(&number, _)| number)
    }

    /// A number that no process has, nor had of late.
    pub(super) fn fresh(&mut self) -> u32 {
        loop {
            self.next = self.next.wrapping_add(1);
            if !self.by_number.contains_key(&self.next) {
                return self.next;
            }
        }
    }
}
