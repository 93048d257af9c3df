//! What a turn does for clients, in which order and for how long: who comes, what is due, who was
//! put off, what is reported.
//!
//! Each has a [part](Part) of the turn that the others cannot take, and does one thing at the
//! least. So whoever fills one queue keeps nobody in another waiting, and a report is dealt with
//! within as many turns as there are reports before it, whatever clients do. The kernel is asked in
//! each turn, and what there is no time for is [put off](PutOff), one report for a connection
//! however often it is reported. Pure: the worker and the simulator are served by the same
//! functions.
//!
//! A report names a slot and no generation. It is of who had the slot when the kernel was asked,
//! and that holds, because slots are given away at the beginning of a turn alone, and no report is
//! kept from one turn to another but as one that was put off, which is forgotten with its
//! connection.

use std::collections::{HashMap, VecDeque};

use crate::budget::Part;
use crate::shard::Shard;
use crate::sockets::Sockets;

/// What is reported of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) slot: u32,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The end of the client's side is in what can be read.
    pub(crate) hung_up: bool,
}

/// Where clients are: under a kernel, or in the simulator.
pub(crate) trait Clients {
    type Sockets: Sockets;

    fn shard(&mut self) -> &mut Shard<Self::Sockets>;

    /// The next of the reports that this turn has asked for.
    fn next_report(&mut self) -> Option<Report>;

    /// Lets in who waits at the listeners, until `until_ns` and one at the least.
    fn accept(&mut self, until_ns: u64);

    fn now_ns(&self) -> u64;
}

/// The time that a turn has for clients, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) began_ns: u64,
    pub(crate) serve_ns: u64,
}

/// The first half of a turn: who comes is let in, where clients may be served, and what is due is
/// done.
pub(crate) fn begin(clients: &mut impl Clients, slice: Option<Slice>) {
    if let Some(Slice { began_ns, serve_ns }) = slice {
        clients.shard().begin_part(Part::Accepts);
        let is_crowded = clients.shard().has_deferred();
        clients.accept(began_ns.saturating_add(if is_crowded { serve_ns / 4 } else { serve_ns }));
    }
    clients.shard().do_due();
}

/// The other half: who was put off, and what is reported. What is left, or all where clients may
/// not be served, is put off.
pub(crate) fn go_on(clients: &mut impl Clients, slice: Option<Slice>) {
    if let Some(slice) = slice {
        clients.shard().begin_part(Part::Deferred);
        clients.shard().read_deferred();
        clients.shard().begin_part(Part::Reports);
        deal_with_reports(clients, slice);
    }
    put_off_rest(clients);
    if slice.is_none() {
        // What follows has its part all the same.
        clients.shard().begin_part(Part::Reports);
    }
}

fn deal_with_reports(clients: &mut impl Clients, Slice { began_ns, serve_ns }: Slice) {
    let least_ns = clients.now_ns().saturating_add(serve_ns / 4);
    let until_ns = began_ns.saturating_add(serve_ns).max(least_ns);
    // Who was put off is before who has just been reported.
    if clients.shard().has_put_off() {
        put_off_rest(clients);
    }
    while !clients.shard().is_spent() {
        let put_off = clients.shard().next_put_off();
        let Some(report) = put_off.or_else(|| clients.next_report()) else { return };
        clients.shard().deal_with(report);
        if clients.now_ns() >= until_ns {
            return;
        }
    }
}

fn put_off_rest(clients: &mut impl Clients) {
    while let Some(report) = clients.next_report() {
        clients.shard().put_off(report);
    }
}

/// Reports that a turn had no time for, in their order, one for each connection: some 30 bytes
/// of it, and nothing where there are none.
#[derive(Debug, Default)]
pub(crate) struct PutOff {
    order: VecDeque<u32>,
    reports: HashMap<u32, Report>,
}

impl PutOff {
    pub(crate) fn push(&mut self, report: Report) {
        let before = self.reports.entry(report.slot).or_insert_with(|| {
            self.order.push_back(report.slot);
            report
        });
        before.readable |= report.readable;
        before.writable |= report.writable;
        before.hung_up |= report.hung_up;
    }

    pub(crate) fn pop(&mut self) -> Option<Report> {
        loop {
            let slot = self.order.pop_front()?;
            if let Some(report) = self.reports.remove(&slot) {
                return Some(report);
            }
        }
    }

    /// The connection in `slot` is closed: what was said of it is of nobody.
    pub(crate) fn forget(&mut self, slot: u32) {
        self.reports.remove(&slot);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reports.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(slot: u32) -> Report {
        Report { slot, readable: true, writable: false, hung_up: false }
    }

    #[test]
    fn what_is_put_off_keeps_its_order_and_is_one_for_each() {
        let mut put_off = PutOff::default();
        [3, 1, 3, 2].into_iter().for_each(|slot| put_off.push(report(slot)));
        put_off.push(Report { readable: false, writable: true, hung_up: true, ..report(1) });
        assert_eq!(put_off.pop(), Some(report(3)));
        assert_eq!(put_off.pop(), Some(Report { writable: true, hung_up: true, ..report(1) }));
        put_off.push(report(3));
        assert_eq!((put_off.pop(), put_off.pop()), (Some(report(2)), Some(report(3))));
        assert_eq!((put_off.pop(), put_off.is_empty()), (None, true));
    }

    #[test]
    fn who_gets_the_slot_of_one_that_is_closed_gets_none_of_its_reports() {
        let mut put_off = PutOff::default();
        [1, 2].into_iter().for_each(|slot| put_off.push(report(slot)));
        put_off.forget(1);
        assert_eq!(put_off.pop(), Some(report(2)));
        put_off.push(report(1));
        put_off.forget(1);
        put_off.push(Report { hung_up: true, ..report(1) });
        assert_eq!(put_off.pop(), Some(Report { hung_up: true, ..report(1) }));
        assert_eq!((put_off.pop(), put_off.is_empty()), (None, true));
    }
}
