//! What is reported of connections, and what of it a turn had no time for.

use std::collections::{HashMap, VecDeque};

/// What is reported of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Report {
    pub(crate) slot: u32,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// The end of the client's side is in what can be read.
    pub(crate) hung_up: bool,
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
