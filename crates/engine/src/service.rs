//! What a turn does for clients, in which order and for how long: who comes, what is due, who was
//! put off, what is reported.
//!
//! Each has a [part](Part) of the turn that the others cannot take, and does one thing at the
//! least. So whoever fills one queue keeps nobody in another waiting, and a report is dealt with
//! within as many turns as there are reports before it, whatever clients do. The kernel is asked in
//! each turn, and what there is no time for is [put off](crate::reports::PutOff), one report for a
//! connection however often it is reported. Pure: the worker and the simulator are served by the
//! same functions.
//!
//! A report names a slot and no generation. It is of the connection that had the slot when the
//! kernel was asked, and that holds. Slots are given away at the beginning of a turn alone. No
//! report is kept from one turn to another but one that was put off, which is forgotten with its
//! connection.

use crate::budget::Part;
use crate::reports::Report;
use crate::shard::Shard;
use crate::sockets::Sockets;

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
